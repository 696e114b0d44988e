// Kernels for x86-64 with AVX-512: 12 samples x 32 outputs use 24 of the 32 registers for sums.
#include <immintrin.h>

#include <cstdint>

namespace ggtts::kernels {
namespace {

struct Vector {
    using Number = float;
    using Value = __m512;
    static constexpr int width = 16;

    static Value load(const float *from) { return _mm512_loadu_ps(from); }
    static void store(float *to, Value a) { _mm512_storeu_ps(to, a); }
    static Value broadcast(float a) { return _mm512_set1_ps(a); }
    static Value zero() { return _mm512_setzero_ps(); }
    static Value multiply_add(Value a, Value b, Value c) { return _mm512_fmadd_ps(a, b, c); }
    static Value add(Value a, Value b) { return _mm512_add_ps(a, b); }
    static Value subtract(Value a, Value b) { return _mm512_sub_ps(a, b); }
    static Value multiply(Value a, Value b) { return _mm512_mul_ps(a, b); }
    static Value divide(Value a, Value b) { return _mm512_div_ps(a, b); }
    static Value round(Value a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT); }
    static Value minimum(Value a, Value b) { return _mm512_min_ps(a, b); }
    static Value maximum(Value a, Value b) { return _mm512_max_ps(a, b); }
    static Value scale_by_power(Value a, Value n) { return _mm512_scalef_ps(a, n); }
    static float sum(Value a) { return _mm512_reduce_add_ps(a); }
};

struct ExactVector {
    using Number = double;
    using Value = __m512d;
    static constexpr int width = 8;

    static Value load(const double *from) { return _mm512_loadu_pd(from); }
    static void store(double *to, Value a) { _mm512_storeu_pd(to, a); }
    static Value broadcast(double a) { return _mm512_set1_pd(a); }
    static Value multiply_add(Value a, Value b, Value c) { return _mm512_fmadd_pd(a, b, c); }
};

constexpr int vectors_per_panel = 2;
constexpr int rows_per_block = 12;

constexpr int64_t panel_width = vectors_per_panel * Vector::width;

}  // namespace
}  // namespace ggtts::kernels

#include "panel_packing_avx2.hpp"
#include "vector_kernels_body.hpp"

namespace ggtts::kernels {

const VectorKernels avx512_kernels = kernels_of_this_file;

}  // namespace ggtts::kernels
