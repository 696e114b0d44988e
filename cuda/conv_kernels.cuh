// The kernels of convolutions.
#pragma once

#include "cuda_conv.cuh"

namespace ggtts::conv {

// As many registers as leave room for so many blocks on a processor.
#ifndef GGTTS_CONV_RESIDENT
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200  // whose shared memory has room for no more
#define GGTTS_CONV_RESIDENT 2
#else
#define GGTTS_CONV_RESIDENT 3
#endif
#endif
constexpr int resident_blocks(Kind kind, int bands) {
    if (kind == Kind::halves)
        return bands >= 4 ? GGTTS_CONV_RESIDENT : 4;
    return kind == Kind::exact || bands >= 4 ? 2 : 3;
}

template <Kind kind, int bands>
__global__ void __launch_bounds__(tile_threads, resident_blocks(kind, bands))
    product_kernel(const __grid_constant__ Pass pass) {
    extern __shared__ float4 shared_of_product[];
    using Own = Shape<kind, bands>;
    CudaTile<Own> tile;
    TileProduct<Own, CudaTile<Own>>(tile, pass, reinterpret_cast<float *>(shared_of_product)).run();
}

template <Kind kind>
__global__ void __launch_bounds__(narrow_rows) narrow_kernel(const __grid_constant__ Pass pass) {
    extern __shared__ float4 shared_of_narrow[];
    const CudaBlock block;
    NarrowProduct<kind, CudaBlock>(block, pass, reinterpret_cast<float *>(shared_of_narrow)).run();
}

inline constexpr int keeping_threads = 64;

// Blocks go over channels, streams and jobs.
template <class Number>
__global__ void __launch_bounds__(keeping_threads) keep_kernel(const Keeping *jobs, const int32_t *lanes) {
    const Keeping job = jobs[blockIdx.z];
    const int stream = static_cast<int>(blockIdx.y);
    const int channel = static_cast<int>(blockIdx.x * keeping_threads + threadIdx.x);
    if (channel < job.inputs)
        keep<Number>(job, stream, lanes[stream], channel);
}

}  // namespace ggtts::conv
