// The kernels of one type of weight: one for each number of columns.
#pragma once

#include <cuda_runtime.h>

#include "cuda_grid.cuh"
#include "frame.hpp"

namespace ggtts::predictor {

// More warps hide more of the latency of memory, as long as the sums of all columns stay in registers.
constexpr int warps_for(int columns) {
    return columns <= 4 ? 16 : 8;
}

// Bytes of the tables that `with_tables` copies.
inline int64_t table_bytes(const Sizes &sizes) {
    const int64_t bytes = sizes.layers * static_cast<int64_t>(sizeof(Layer)) +
                          2 * (sizes.codebooks - 1) * static_cast<int64_t>(sizeof(Matrix));
    return (bytes + 255) / 256 * 256;
}

template <class Entry>
__device__ const Entry *copy_table(const Entry *table, int entries, uint8_t *&room) {
    auto *copy = reinterpret_cast<Entry *>(room);
    const auto *source = reinterpret_cast<const uint32_t *>(table);
    auto *target = reinterpret_cast<uint32_t *>(copy);
    const int words = entries * static_cast<int>(sizeof(Entry) / sizeof(uint32_t));
    for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x))
        target[i] = source[i];
    room += entries * sizeof(Entry);
    return copy;
}

// The model with its tables in shared memory: a barrier of the grid empties the first-level cache, and every
// phase begins with finding its weights.
__device__ inline Model with_tables(const Model &model, uint8_t *room) {
    Model result = model;
    const int codes = model.sizes.codebooks - 1;
    result.layers = copy_table(model.layers, model.sizes.layers, room);
    result.heads = copy_table(model.heads, codes, room);
    result.embeddings = copy_table(model.embeddings, codes, room);
    __syncthreads();
    return result;
}

template <class Type, int columns>
__global__ void __launch_bounds__(warps_for(columns) * lanes, 1)
    frame_kernel(const __grid_constant__ Model model, const __grid_constant__ Buffers buffers,
                 const __grid_constant__ int64_t tables) {
    extern __shared__ float shared[];
    auto *room = reinterpret_cast<uint8_t *>(shared + reserved_floats);
    const Model local = with_tables(model, room);
    CudaGrid grid(shared, reinterpret_cast<float *>(room + tables), buffers.arrivals);
    Frame<Type, columns, CudaGrid>(grid, local, buffers).run();
}

// What a launch needs to know of a kernel.
struct Kernel {
    const void *function = nullptr;
    int threads = 0;
};

template <class Type>
Kernel kernel_of(int columns) {
    switch (columns) {
        case 1:
            return {reinterpret_cast<const void *>(&frame_kernel<Type, 1>), warps_for(1) * lanes};
        case 2:
            return {reinterpret_cast<const void *>(&frame_kernel<Type, 2>), warps_for(2) * lanes};
        case 4:
            return {reinterpret_cast<const void *>(&frame_kernel<Type, 4>), warps_for(4) * lanes};
        case 8:
            return {reinterpret_cast<const void *>(&frame_kernel<Type, 8>), warps_for(8) * lanes};
        default:
            return {reinterpret_cast<const void *>(&frame_kernel<Type, 16>), warps_for(16) * lanes};
    }
}

// One source file each, so that they are compiled side by side.
Kernel q8_0_kernel(int columns);
Kernel f16_kernel(int columns);
Kernel bf16_kernel(int columns);
Kernel f32_kernel(int columns);

}  // namespace ggtts::predictor
