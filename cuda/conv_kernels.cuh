// The kernels of convolutions.
#pragma once

#include "cuda_conv.cuh"

namespace ggtts::conv {

// Shared memory of this generation has room for no more blocks with the widest tiles, but registers are left.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
inline constexpr int most_resident_blocks = 2;
#else
inline constexpr int most_resident_blocks = 4;
#endif
constexpr int blocks_with_registers(Kind kind, int bands) {
    const int blocks = resident_blocks(kind, bands);
    return bands >= 4 && blocks > most_resident_blocks ? most_resident_blocks : blocks;
}

template <Kind kind, int bands>
__global__ void __launch_bounds__(tile_threads, blocks_with_registers(kind, bands))
    product_kernel(const __grid_constant__ Pass pass) {
    extern __shared__ float4 shared_of_product[];
    using Own = Shape<kind, bands>;
    CudaTile<Own> tile;
    TileProduct<Own, CudaTile<Own>>(tile, pass, reinterpret_cast<float *>(shared_of_product)).run();
}

template <Kind kind>
__global__ void __launch_bounds__(narrow_threads) narrow_kernel(const __grid_constant__ Pass pass) {
    extern __shared__ float4 shared_of_narrow[];
    const CudaBlock block;
    NarrowProduct<kind, CudaBlock>(block, pass, reinterpret_cast<float *>(shared_of_narrow)).run();
}

inline constexpr int keeping_threads = 64;

// Blocks go over channels, streams and jobs.
template <class Number>
__global__ void __launch_bounds__(keeping_threads) keep_kernel(const Keeping *jobs, const int32_t *lanes) {
    CudaBlock().await_earlier();
    const Keeping job = jobs[blockIdx.z];
    const int stream = static_cast<int>(blockIdx.y);
    const int channel = static_cast<int>(blockIdx.x * keeping_threads + threadIdx.x);
    if (channel < job.inputs)
        keep<Number>(job, stream, lanes[stream], channel);
}

}  // namespace ggtts::conv
