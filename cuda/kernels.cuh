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

template <class Type, int columns>
__global__ void __launch_bounds__(warps_for(columns) * lanes, 1)
    frame_kernel(const __grid_constant__ Model model, const __grid_constant__ Buffers buffers) {
    extern __shared__ float shared[];
    CudaGrid grid(shared, buffers.arrivals);
    Frame<Type, columns, CudaGrid>(grid, model, buffers).run();
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
