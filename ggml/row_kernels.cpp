#include "row_kernels.hpp"

#include <ggml.h>

#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#define GGTTS_X86 1
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__GNUC__)
#define GGTTS_ARM 1
#include <arm_neon.h>
#endif

namespace ggtts::kernels {
namespace {

float value(const float *row, int64_t i) {
    return row[i];
}
float value(const ggml_fp16_t *row, int64_t i) {
    return ggml_fp16_to_fp32(row[i]);
}

template <class Element>
void generic_dots(const float *vector, const char *rows, size_t stride, int64_t count, int64_t width,
                  float *out) {
    for (int64_t r = 0; r < count; ++r, rows += stride) {
        const auto *row = reinterpret_cast<const Element *>(rows);
        float sum = 0.0f;
        for (int64_t i = 0; i < width; ++i)
            sum += vector[i] * value(row, i);
        out[r] = sum;
    }
}

template <class Element>
void generic_weighted_sum(const float *weights, const char *rows, size_t stride, int64_t count, int64_t width,
                          float *sum) {
    std::memset(sum, 0, static_cast<size_t>(width) * sizeof(float));
    for (int64_t r = 0; r < count; ++r, rows += stride) {
        const auto *row = reinterpret_cast<const Element *>(rows);
        for (int64_t i = 0; i < width; ++i)
            sum[i] += weights[r] * value(row, i);
    }
}

struct Columns {
    int64_t begin, end;
};

// The columns that fill no vector.
template <class Element>
void sum_columns(const float *weights, const char *rows, size_t stride, int64_t count, Columns columns,
                 float *sum) {
    for (int64_t i = columns.begin; i < columns.end; ++i) {
        float total = 0.0f;
        const char *next = rows;
        for (int64_t r = 0; r < count; ++r, next += stride)
            total += weights[r] * value(reinterpret_cast<const Element *>(next), i);
        sum[i] = total;
    }
}

constexpr RowKernels generic_float{generic_dots<float>, generic_weighted_sum<float>};
constexpr RowKernels generic_half{generic_dots<ggml_fp16_t>, generic_weighted_sum<ggml_fp16_t>};

#ifdef GGTTS_X86
#define GGTTS_AVX2 __attribute__((target("avx2,fma,f16c")))

GGTTS_AVX2 inline __m256 load8(const float *row) {
    return _mm256_loadu_ps(row);
}
GGTTS_AVX2 inline __m256 load8(const ggml_fp16_t *row) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(row)));
}

GGTTS_AVX2 inline float horizontal_sum(__m256 x) {
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
}

template <class Element>
GGTTS_AVX2 void avx2_dots(const float *vector, const char *rows, size_t stride, int64_t count, int64_t width,
                          float *out) {
    for (int64_t r = 0; r < count; ++r, rows += stride) {
        const auto *row = reinterpret_cast<const Element *>(rows);
        __m256 even = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
        int64_t i = 0;
        for (; i + 16 <= width; i += 16) {
            even = _mm256_fmadd_ps(_mm256_loadu_ps(vector + i), load8(row + i), even);
            odd = _mm256_fmadd_ps(_mm256_loadu_ps(vector + i + 8), load8(row + i + 8), odd);
        }
        float sum = horizontal_sum(_mm256_add_ps(even, odd));
        for (; i < width; ++i)
            sum += vector[i] * value(row, i);
        out[r] = sum;
    }
}

// 32 values of the sum stay in registers while all rows pass.
template <class Element>
GGTTS_AVX2 void avx2_weighted_sum(const float *weights, const char *rows, size_t stride, int64_t count,
                                  int64_t width, float *sum) {
    int64_t i = 0;
    for (; i + 32 <= width; i += 32) {
        __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
        const char *next = rows;
        for (int64_t r = 0; r < count; ++r, next += stride) {
            const auto *row = reinterpret_cast<const Element *>(next) + i;
            const __m256 weight = _mm256_set1_ps(weights[r]);
            a = _mm256_fmadd_ps(weight, load8(row), a);
            b = _mm256_fmadd_ps(weight, load8(row + 8), b);
            c = _mm256_fmadd_ps(weight, load8(row + 16), c);
            d = _mm256_fmadd_ps(weight, load8(row + 24), d);
        }
        _mm256_storeu_ps(sum + i, a);
        _mm256_storeu_ps(sum + i + 8, b);
        _mm256_storeu_ps(sum + i + 16, c);
        _mm256_storeu_ps(sum + i + 24, d);
    }
    sum_columns<Element>(weights, rows, stride, count, {i, width}, sum);
}

constexpr RowKernels avx2_float{avx2_dots<float>, avx2_weighted_sum<float>};
constexpr RowKernels avx2_half{avx2_dots<ggml_fp16_t>, avx2_weighted_sum<ggml_fp16_t>};

#define GGTTS_AVX512 __attribute__((target("avx512f,avx2,fma,f16c")))

GGTTS_AVX512 inline __m512 load16(const float *row) {
    return _mm512_loadu_ps(row);
}
GGTTS_AVX512 inline __m512 load16(const ggml_fp16_t *row) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(row)));
}

// The halves of the vector are what AVX2 sums apart, so the results are the same to the last bit.
template <class Element>
GGTTS_AVX512 void avx512_dots(const float *vector, const char *rows, size_t stride, int64_t count,
                              int64_t width, float *out) {
    if (width % 16 != 0)
        return avx2_dots<Element>(vector, rows, stride, count, width, out);
    for (int64_t r = 0; r < count; ++r, rows += stride) {
        const auto *row = reinterpret_cast<const Element *>(rows);
        __m512 both = _mm512_setzero_ps();
        for (int64_t i = 0; i < width; i += 16) {
            both = _mm512_fmadd_ps(_mm512_loadu_ps(vector + i), load16(row + i), both);
        }
        const __m256 odd = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(both), 1));
        out[r] = horizontal_sum(_mm256_add_ps(_mm512_castps512_ps256(both), odd));
    }
}

// 128 values of the sum stay in registers while all rows pass, and the rest as with AVX2.
template <class Element>
GGTTS_AVX512 void avx512_weighted_sum(const float *weights, const char *rows, size_t stride, int64_t count,
                                      int64_t width, float *sum) {
    constexpr int vectors = 8;
    int64_t i = 0;
    for (; i + 16 * vectors <= width; i += 16 * vectors) {
        __m512 sums[vectors];
#pragma GCC unroll 8
        for (__m512 &one : sums) {
            one = _mm512_setzero_ps();
        }
        const char *next = rows;
        for (int64_t r = 0; r < count; ++r, next += stride) {
            const auto *row = reinterpret_cast<const Element *>(next) + i;
            const __m512 weight = _mm512_set1_ps(weights[r]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                sums[v] = _mm512_fmadd_ps(weight, load16(row + 16 * v), sums[v]);
            }
        }
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            _mm512_storeu_ps(sum + i + 16 * v, sums[v]);
        }
    }
    const auto place = static_cast<size_t>(i) * sizeof(Element);
    avx2_weighted_sum<Element>(weights, rows + place, stride, count, width - i, sum + i);
}

constexpr RowKernels avx512_float{avx512_dots<float>, avx512_weighted_sum<float>};
constexpr RowKernels avx512_half{avx512_dots<ggml_fp16_t>, avx512_weighted_sum<ggml_fp16_t>};

bool has_avx2() {
    static const bool present =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    return present;
}
bool has_avx512() {
    static const bool present = has_avx2() && __builtin_cpu_supports("avx512f");
    return present;
}
#elif defined(GGTTS_ARM)
float32x4_t load4(const float *row) {
    return vld1q_f32(row);
}
float32x4_t load4(const ggml_fp16_t *row) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(row)));
}

template <class Element>
void neon_dots(const float *vector, const char *rows, size_t stride, int64_t count, int64_t width,
               float *out) {
    for (int64_t r = 0; r < count; ++r, rows += stride) {
        const auto *row = reinterpret_cast<const Element *>(rows);
        float32x4_t sums[4] = {};
        int64_t i = 0;
        for (; i + 16 <= width; i += 16) {
            for (int v = 0; v < 4; ++v)
                sums[v] = vfmaq_f32(sums[v], vld1q_f32(vector + i + 4 * v), load4(row + i + 4 * v));
        }
        float sum = vaddvq_f32(vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])));
        for (; i < width; ++i)
            sum += vector[i] * value(row, i);
        out[r] = sum;
    }
}

// 16 values of the sum stay in registers while all rows pass.
template <class Element>
void neon_weighted_sum(const float *weights, const char *rows, size_t stride, int64_t count, int64_t width,
                       float *sum) {
    int64_t i = 0;
    for (; i + 16 <= width; i += 16) {
        float32x4_t sums[4] = {};
        const char *next = rows;
        for (int64_t r = 0; r < count; ++r, next += stride) {
            const auto *row = reinterpret_cast<const Element *>(next) + i;
            for (int v = 0; v < 4; ++v)
                sums[v] = vfmaq_n_f32(sums[v], load4(row + 4 * v), weights[r]);
        }
        for (int v = 0; v < 4; ++v)
            vst1q_f32(sum + i + 4 * v, sums[v]);
    }
    sum_columns<Element>(weights, rows, stride, count, {i, width}, sum);
}

constexpr RowKernels neon_float{neon_dots<float>, neon_weighted_sum<float>};
constexpr RowKernels neon_half{neon_dots<ggml_fp16_t>, neon_weighted_sum<ggml_fp16_t>};
#endif

}  // namespace

const RowKernels &generic_row_kernels(bool half_precision) {
    return half_precision ? generic_half : generic_float;
}

const RowKernels &row_kernels(bool half_precision) {
#ifdef GGTTS_X86
    if (has_avx512())
        return half_precision ? avx512_half : avx512_float;
    if (has_avx2())
        return half_precision ? avx2_half : avx2_float;
#elif defined(GGTTS_ARM)
    return half_precision ? neon_half : neon_float;
#endif
    return generic_row_kernels(half_precision);
}

}  // namespace ggtts::kernels
