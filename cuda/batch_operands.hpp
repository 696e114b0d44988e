// What the phases of a step of several utterances hand to a GPU or to its emulation, beside
// tensor_operands.hpp.
#pragma once

#include <cstdint>

namespace ggtts::talker::batch {

// A part of a row on its way into shared memory: from `bytes` on, as much as is missing of `room` is zero.
// Rows begin at even addresses, and at a multiple of 16 bytes in shared memory.
struct RowCopy {
    uint8_t *target;
    const uint8_t *source;
    int bytes, room;
};

// Sixteen bytes on their way into shared memory: zeros where there are none.
struct PieceCopy {
    uint8_t *target;
    const uint8_t *source;
    bool exists;
};

}  // namespace ggtts::talker::batch
