// Tables of a model or a step in shared memory, where all warps of a block read them again and again.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ggtts::talker {

// Copies a table to `room`, which goes on behind it. Whoever reads it waits for the block first.
template <class Entry>
__device__ const Entry *copied(const Entry *table, int entries, uint8_t *&room) {
    auto *copy = reinterpret_cast<uint32_t *>(room);
    const auto *source = reinterpret_cast<const uint32_t *>(table);
    const int words = entries * static_cast<int>(sizeof(Entry) / sizeof(uint32_t));
    for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x))
        copy[i] = source[i];
    const auto *result = reinterpret_cast<const Entry *>(room);
    room += entries * sizeof(Entry);
    return result;
}

}  // namespace ggtts::talker
