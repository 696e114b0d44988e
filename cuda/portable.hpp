// What lets one source be a CUDA kernel and plain C++: the kernel for GPUs, the same phases emulated for
// tests.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define GGTTS_ANYWHERE __device__ __forceinline__
#else
#include <ggml.h>

#include <bit>
#include <cstring>
#define GGTTS_ANYWHERE inline
#endif

namespace ggtts::predictor {

// Sixteen bytes: the widest load of a thread.
struct alignas(16) Words {
    uint32_t at[4];
};
struct alignas(16) Floats {
    float at[4];
};
struct alignas(8) TwoWords {
    uint32_t at[2];
};

GGTTS_ANYWHERE float float_of_bits(uint32_t bits) {
#ifdef __CUDACC__
    return __uint_as_float(bits);
#else
    return std::bit_cast<float>(bits);
#endif
}

GGTTS_ANYWHERE uint32_t bits_of_float(float value) {
#ifdef __CUDACC__
    return __float_as_uint(value);
#else
    return std::bit_cast<uint32_t>(value);
#endif
}

GGTTS_ANYWHERE float float_of_half(uint16_t bits) {
#ifdef __CUDACC__
    return __half2float(__ushort_as_half(bits));
#else
    return ggml_fp16_to_fp32(bits);
#endif
}

// Weights never change while a kernel runs, so they may come through the read-only path.
GGTTS_ANYWHERE Words load_words(const uint8_t *source) {
#ifdef __CUDACC__
    const uint4 loaded = __ldg(reinterpret_cast<const uint4 *>(source));
    return {{loaded.x, loaded.y, loaded.z, loaded.w}};
#else
    Words loaded;
    std::memcpy(&loaded, source, sizeof loaded);
    return loaded;
#endif
}

GGTTS_ANYWHERE TwoWords load_two_words(const uint8_t *source) {
#ifdef __CUDACC__
    const uint2 loaded = __ldg(reinterpret_cast<const uint2 *>(source));
    return {{loaded.x, loaded.y}};
#else
    TwoWords loaded;
    std::memcpy(&loaded, source, sizeof loaded);
    return loaded;
#endif
}

// What another block wrote in an earlier phase: the first-level cache of this one may hold older values.
GGTTS_ANYWHERE float fresh(const float *source) {
#ifdef __CUDACC__
    return __ldcg(source);
#else
    return *source;
#endif
}

GGTTS_ANYWHERE Floats fresh_floats(const float *source) {
#ifdef __CUDACC__
    const float4 loaded = __ldcg(reinterpret_cast<const float4 *>(source));
    return {{loaded.x, loaded.y, loaded.z, loaded.w}};
#else
    return {{source[0], source[1], source[2], source[3]}};
#endif
}

}  // namespace ggtts::predictor
