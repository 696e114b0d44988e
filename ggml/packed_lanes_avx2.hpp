// 16 lanes as two vectors of 256 bits, for packed_kernels_body.hpp. The file that includes it says how bytes
// are multiplied: `Dot::add_products<format>` for one of the two, and `Dot::q8_0_is_signed`.
#include <immintrin.h>

#include "packed_kernels.hpp"

namespace ggtts::kernels {
namespace {

template <class Dot>
struct PairLanes {
    struct Floats {
        __m256 low, high;
    };
    struct Integers {
        __m256i low, high;
    };
    using Bytes = Integers;

    static constexpr int columns_per_pass = 3;
    template <PackedFormat>
    static constexpr int columns_of_pair = 0;
    static constexpr bool q8_0_is_signed = Dot::q8_0_is_signed;

    static Bytes bytes(const uint8_t *from) { return {load(from), load(from + 32)}; }
    static Floats halves(const uint8_t *from) {
        return {_mm256_cvtph_ps(sixteen(from)), _mm256_cvtph_ps(sixteen(from + 16))};
    }
    static Floats steps(const uint8_t *from) {
        return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight(from))),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight(from + 8)))};
    }
    static Floats signed_steps(const uint8_t *from) {
        return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight(from))),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight(from + 8)))};
    }
    static Floats floats(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
    static Integers integers(int32_t value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
    static Bytes low_half(Bytes both) { return masked(both, 0x0f); }
    static Bytes high_half(Bytes both) {
        return masked({_mm256_srli_epi16(both.low, 4), _mm256_srli_epi16(both.high, 4)}, 0x0f);
    }
    static Bytes bits(Bytes all, int left, int8_t mask) {
        return masked(left >= 0
                          ? Bytes{_mm256_slli_epi16(all.low, left), _mm256_slli_epi16(all.high, left)}
                          : Bytes{_mm256_srli_epi16(all.low, -left), _mm256_srli_epi16(all.high, -left)},
                      mask);
    }
    static Bytes either(Bytes a, Bytes b) {
        return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
    }
    template <PackedFormat format>
    static Integers add_products(Integers sum, Bytes weights, int32_t inputs) {
        const __m256i four = _mm256_set1_epi32(inputs);
        return {Dot::template add_products<format>(sum.low, weights.low, four),
                Dot::template add_products<format>(sum.high, weights.high, four)};
    }
    static Floats multiply(Floats a, Floats b) {
        return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
    }
    static Floats add_scaled(Floats total, Integers sum, Floats scale) {
        return {_mm256_fmadd_ps(_mm256_cvtepi32_ps(sum.low), scale.low, total.low),
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum.high), scale.high, total.high)};
    }
    static Floats subtract_product(Floats total, Floats a, float b) {
        const __m256 factor = _mm256_set1_ps(b);
        return {_mm256_fnmadd_ps(a.low, factor, total.low), _mm256_fnmadd_ps(a.high, factor, total.high)};
    }
    static void store(float *to, Floats values, int64_t count) {
        if (count >= 16) {
            _mm256_storeu_ps(to, values.low);
            _mm256_storeu_ps(to + 8, values.high);
            return;
        }
        _mm256_maskstore_ps(to, first_lanes(count), values.low);
        if (count > 8) {
            _mm256_maskstore_ps(to + 8, first_lanes(count - 8), values.high);
        }
    }
    static float largest_magnitude(const float *inputs) {
        const __m256 sign = _mm256_set1_ps(-0.0f);
        __m256 largest = _mm256_setzero_ps();
        for (int i = 0; i < 32; i += 8) {
            largest = _mm256_max_ps(largest, _mm256_andnot_ps(sign, _mm256_loadu_ps(inputs + i)));
        }
        alignas(32) float lanes[8];
        _mm256_store_ps(lanes, largest);
        float result = lanes[0];
        for (const float lane : lanes) {
            result = lane > result ? lane : result;
        }
        return result;
    }
    static void round(const float *inputs, float inverse, int8_t *bytes, int32_t *sums) {
        for (int half = 0; half < 2; ++half) {
            alignas(32) int32_t rounded[16];
            for (int i = 0; i < 16; i += 8) {
                const __m256 values =
                    _mm256_mul_ps(_mm256_loadu_ps(inputs + 16 * half + i), _mm256_set1_ps(inverse));
                _mm256_store_si256(reinterpret_cast<__m256i *>(rounded + i), _mm256_cvtps_epi32(values));
            }
            sums[half] = 0;
            for (int i = 0; i < 16; ++i) {
                bytes[16 * half + i] = static_cast<int8_t>(rounded[i]);
                sums[half] += rounded[i];
            }
        }
    }

private:
    static __m256i load(const uint8_t *from) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
    }
    static __m128i sixteen(const uint8_t *from) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
    }
    static __m128i eight(const uint8_t *from) {
        return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from));
    }
    static Bytes masked(Bytes all, int8_t mask) {
        const __m256i wanted = _mm256_set1_epi8(mask);
        return {_mm256_and_si256(all.low, wanted), _mm256_and_si256(all.high, wanted)};
    }
    static __m256i first_lanes(int64_t count) {
        const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), numbers);
    }
};

}  // namespace
}  // namespace ggtts::kernels
