// Byte products with vpdpbusd on 512 bits: 16 rows x 4 columns of weights (unsigned) by 4 inputs (signed) in
// one instruction.
#include <immintrin.h>

#include "packed_kernels.hpp"

namespace ggtts::kernels {
namespace {

struct Lanes {
    using Floats = __m512;
    using Integers = __m512i;
    using Bytes = __m512i;

    static constexpr int columns_per_pass = 12;
    // The weights of Q6_K take more registers.
    template <PackedFormat format>
    static constexpr int columns_of_pair = format == PackedFormat::q6_k ? 6 : 8;
    static constexpr bool q8_0_is_signed = false;

    static Bytes bytes(const uint8_t *from) { return _mm512_loadu_si512(from); }
    static Floats halves(const uint8_t *from) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)));
    }
    static Floats steps(const uint8_t *from) {
        return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(sixteen(from)));
    }
    static Floats signed_steps(const uint8_t *from) {
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen(from)));
    }
    static Floats floats(float value) { return _mm512_set1_ps(value); }
    static Integers integers(int32_t value) { return _mm512_set1_epi32(value); }
    static Bytes low_half(Bytes both) { return _mm512_and_si512(both, _mm512_set1_epi8(0x0f)); }
    static Bytes high_half(Bytes both) { return low_half(_mm512_srli_epi16(both, 4)); }
    static Bytes bits(Bytes all, int left, int8_t mask) {
        const Bytes moved = left >= 0 ? _mm512_slli_epi16(all, static_cast<unsigned>(left))
                                      : _mm512_srli_epi16(all, static_cast<unsigned>(-left));
        return _mm512_and_si512(moved, _mm512_set1_epi8(mask));
    }
    static Bytes either(Bytes a, Bytes b) { return _mm512_or_si512(a, b); }
    template <PackedFormat>
    static Integers add_products(Integers sum, Bytes weights, int32_t inputs) {
        return _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(inputs));
    }
    static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
    static Floats add_scaled(Floats total, Integers sum, Floats scale) {
        return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, total);
    }
    static Floats subtract_product(Floats total, Floats a, float b) {
        return _mm512_fnmadd_ps(a, _mm512_set1_ps(b), total);
    }
    static void store(float *to, Floats values, int64_t count) {
        const auto lanes = static_cast<__mmask16>(count >= 16 ? 0xffff : (1u << count) - 1u);
        _mm512_mask_storeu_ps(to, lanes, values);
    }
    static float largest_magnitude(const float *inputs) {
        const Floats low = _mm512_abs_ps(_mm512_loadu_ps(inputs));
        return _mm512_reduce_max_ps(_mm512_max_ps(low, _mm512_abs_ps(_mm512_loadu_ps(inputs + 16))));
    }
    static void round(const float *inputs, float inverse, int8_t *bytes, int32_t *sums) {
        for (int half = 0; half < 2; ++half) {
            const Floats values = _mm512_mul_ps(_mm512_loadu_ps(inputs + 16 * half), _mm512_set1_ps(inverse));
            const Integers rounded = _mm512_cvtps_epi32(values);
            _mm_storeu_si128(reinterpret_cast<__m128i *>(bytes + 16 * half), _mm512_cvtsepi32_epi8(rounded));
            sums[half] = _mm512_reduce_add_epi32(rounded);
        }
    }

private:
    static __m128i sixteen(const uint8_t *from) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
    }
};

}  // namespace
}  // namespace ggtts::kernels

#include "packed_kernels_body.hpp"

namespace ggtts::kernels {

const PackedKernels avx512vnni_packed_kernels{round_inputs, multiply_rows};

}  // namespace ggtts::kernels
