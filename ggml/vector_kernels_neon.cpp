// Kernels for 64-bit ARM: 6 samples x 16 outputs use 24 of the 32 registers for sums.
#include <arm_neon.h>

#include <cstdint>

namespace ggtts::kernels {
namespace {

struct Vector {
    using Number = float;
    using Value = float32x4_t;
    static constexpr int width = 4;

    static Value load(const float *from) { return vld1q_f32(from); }
    static void store(float *to, Value a) { vst1q_f32(to, a); }
    static Value broadcast(float a) { return vdupq_n_f32(a); }
    static Value zero() { return vdupq_n_f32(0.0f); }
    static Value multiply_add(Value a, Value b, Value c) { return vfmaq_f32(c, a, b); }
    static Value add(Value a, Value b) { return vaddq_f32(a, b); }
    static Value subtract(Value a, Value b) { return vsubq_f32(a, b); }
    static Value multiply(Value a, Value b) { return vmulq_f32(a, b); }
    static Value divide(Value a, Value b) { return vdivq_f32(a, b); }
    static Value round(Value a) { return vrndnq_f32(a); }
    static Value minimum(Value a, Value b) { return vminq_f32(a, b); }
    static Value maximum(Value a, Value b) { return vmaxq_f32(a, b); }
    static Value scale_by_power(Value a, Value n) {
        const int32x4_t exponent = vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23);
        return vmulq_f32(a, vreinterpretq_f32_s32(exponent));
    }
    static float sum(Value a) { return vaddvq_f32(a); }
};

struct ExactVector {
    using Number = double;
    using Value = float64x2_t;
    static constexpr int width = 2;

    static Value load(const double *from) { return vld1q_f64(from); }
    static void store(double *to, Value a) { vst1q_f64(to, a); }
    static Value broadcast(double a) { return vdupq_n_f64(a); }
    static Value multiply_add(Value a, Value b, Value c) { return vfmaq_f64(c, a, b); }
};

constexpr int vectors_per_panel = 4;
constexpr int64_t panel_width = vectors_per_panel * Vector::width;
constexpr int rows_per_block = 6;

}  // namespace
}  // namespace ggtts::kernels

#include "panel_packing.hpp"
#include "vector_kernels_body.hpp"

namespace ggtts::kernels {

const VectorKernels neon_kernels = kernels_of_this_file;

}  // namespace ggtts::kernels
