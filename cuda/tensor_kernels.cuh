// The kernels for many columns, one for each type of weight.
#pragma once

#include "cuda_tensor.cuh"
#include "kernels.cuh"
#include "tensor_sizes.hpp"

namespace ggtts::predictor {

template <class Type>
__global__ void __launch_bounds__(tensor_warps *lanes, 1)
    tensor_frame_kernel(const __grid_constant__ Model model, const __grid_constant__ Buffers buffers,
                        const __grid_constant__ TensorBuffers tensor,
                        const __grid_constant__ TensorRooms rooms, const __grid_constant__ int64_t tables) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ float shared[];
    auto *room = reinterpret_cast<uint8_t *>(shared + reserved_floats);
    const Model local = with_tables(model, room);
    CudaGrid grid(shared, shared + reserved_floats + tables / static_cast<int64_t>(sizeof(float)),
                  buffers.arrivals);
    TensorFrame<Type, CudaGrid>(grid, local, buffers, tensor, rooms).run();
#endif
}

// What a launch needs to know.
struct TensorKernel {
    const void *function = nullptr;
    TensorRooms (*rooms)(const Sizes &, int columns) = nullptr;
};

template <class Type>
TensorKernel tensor_kernel_of() {
    return {reinterpret_cast<const void *>(&tensor_frame_kernel<Type>), &tensor_rooms<Type>};
}

// One source file each; no function: there is no such kernel.
TensorKernel q8_0_tensor_kernel();
TensorKernel f16_tensor_kernel();
TensorKernel bf16_tensor_kernel();

}  // namespace ggtts::predictor
