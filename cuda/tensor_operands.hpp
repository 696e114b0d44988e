// What the phases of the tensor kernel hand to a GPU or to its emulation.
#pragma once

#include <cstdint>

namespace ggtts::predictor {

// What each lane of a warp keeps to itself: see cuda_tensor.cuh and emulated_tensor.hpp.
template <class Warp, class Own>
class Lanes;

// A lane's part of a product 16 deep: 16 columns and 8 rows of halves, and the sums that it adds to, as
// mma.m16n8k16 lays them out.
struct TensorOperands {
    const uint32_t *columns;  // [4]
    const uint32_t *rows;     // [2]
    float *sums;              // [4]
};

// Sixteen bytes on their way into shared memory.
struct Copy {
    void *target;
    const void *source;
};

}  // namespace ggtts::predictor
