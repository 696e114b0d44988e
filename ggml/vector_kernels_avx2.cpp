// Kernels for x86-64 with AVX2 and FMA: 6 samples x 16 outputs fill the 16 registers.
#include <immintrin.h>

#include <cstdint>

namespace ggtts::kernels {
namespace {

struct Vector {
    using Number = float;
    using Value = __m256;
    static constexpr int width = 8;

    static Value load(const float *from) { return _mm256_loadu_ps(from); }
    static void store(float *to, Value a) { _mm256_storeu_ps(to, a); }
    static Value broadcast(float a) { return _mm256_set1_ps(a); }
    static Value zero() { return _mm256_setzero_ps(); }
    static Value multiply_add(Value a, Value b, Value c) { return _mm256_fmadd_ps(a, b, c); }
    static Value add(Value a, Value b) { return _mm256_add_ps(a, b); }
    static Value subtract(Value a, Value b) { return _mm256_sub_ps(a, b); }
    static Value multiply(Value a, Value b) { return _mm256_mul_ps(a, b); }
    static Value divide(Value a, Value b) { return _mm256_div_ps(a, b); }
    static Value round(Value a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
    static Value minimum(Value a, Value b) { return _mm256_min_ps(a, b); }
    static Value maximum(Value a, Value b) { return _mm256_max_ps(a, b); }
    static Value scale_by_power(Value a, Value n) {
        const __m256i exponent =
            _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
        return _mm256_mul_ps(a, _mm256_castsi256_ps(exponent));
    }
    static float sum(Value a) {
        const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
        return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
    }
};

struct ExactVector {
    using Number = double;
    using Value = __m256d;
    static constexpr int width = 4;

    static Value load(const double *from) { return _mm256_loadu_pd(from); }
    static void store(double *to, Value a) { _mm256_storeu_pd(to, a); }
    static Value broadcast(double a) { return _mm256_set1_pd(a); }
    static Value multiply_add(Value a, Value b, Value c) { return _mm256_fmadd_pd(a, b, c); }
};

constexpr int vectors_per_panel = 2;
constexpr int rows_per_block = 6;

constexpr int64_t panel_width = vectors_per_panel * Vector::width;

}  // namespace
}  // namespace ggtts::kernels

#include "panel_packing_avx2.hpp"
#include "vector_kernels_body.hpp"

namespace ggtts::kernels {

const VectorKernels avx2_kernels = kernels_of_this_file;

}  // namespace ggtts::kernels
