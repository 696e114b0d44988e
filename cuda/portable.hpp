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
#include <cmath>
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

// Two neighbouring values.
struct Pair {
    float at[2];
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

// 1 / sqrt(value), to two units in the last place.
GGTTS_ANYWHERE float inverse_root(float value) {
#ifdef __CUDACC__
    return rsqrtf(value);
#else
    return 1.0F / std::sqrt(value);
#endif
}

// Divides numbers below 2^16 / divisor by one that is known before they are.
struct Divider {
    uint32_t divisor, reciprocal;

    GGTTS_ANYWHERE explicit Divider(int by)
        : divisor(static_cast<uint32_t>(by)), reciprocal((1U << 16) / static_cast<uint32_t>(by) + 1) {}

    GGTTS_ANYWHERE int quotient(int number) const {
        return static_cast<int>(static_cast<uint64_t>(static_cast<uint32_t>(number)) * reciprocal >> 16);
    }
    GGTTS_ANYWHERE int remainder(int number) const {
        return number - quotient(number) * static_cast<int>(divisor);
    }
};

// Four signed bytes as floats. A GPU converts a few whole numbers per cycle only; but a byte that becomes the
// end of 2^23 needs no conversion.
GGTTS_ANYWHERE void floats_of_bytes(uint32_t bytes, float (&values)[4]) {
#ifdef __CUDACC__
    constexpr uint32_t power = 0x4B000000U;       // 2^23
    const uint32_t biased = bytes ^ 0x80808080U;  // 0 .. 255
#pragma unroll
    for (int i = 0; i < 4; ++i)
        values[i] = __uint_as_float(__byte_perm(biased, power, 0x7540U + i)) - (8388608.0F + 128.0F);
#else
    for (int i = 0; i < 4; ++i)
        values[i] = static_cast<float>(static_cast<int8_t>(bytes >> (8 * i)));
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

GGTTS_ANYWHERE uint32_t load_word(const uint8_t *source) {
#ifdef __CUDACC__
    return __ldg(reinterpret_cast<const uint32_t *>(source));
#else
    uint32_t loaded = 0;
    std::memcpy(&loaded, source, sizeof loaded);
    return loaded;
#endif
}

// Two weights.
GGTTS_ANYWHERE TwoWords load_pair(const float *weights) {
    return load_two_words(reinterpret_cast<const uint8_t *>(weights));
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
