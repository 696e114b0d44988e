// Byte products with the dot products of 64-bit ARM: 4 rows x 4 columns of weights by 4 inputs, both signed.
#include <arm_neon.h>

#include <cstring>

#include "packed_kernels.hpp"

namespace ggtts::kernels {
namespace {

struct Lanes {
    struct Floats {
        float32x4_t part[4];
    };
    struct Integers {
        int32x4_t part[4];
    };
    struct Bytes {
        uint8x16_t part[4];
    };

    static constexpr int columns_per_pass = 3;
    template <PackedFormat>
    static constexpr int columns_of_pair = 0;
    static constexpr bool q8_0_is_signed = true;

    template <class Result, class Function>
    static Result each(Function function) {
        return {{function(0), function(1), function(2), function(3)}};
    }
    static Bytes bytes(const uint8_t *from) {
        return each<Bytes>([&](int i) { return vld1q_u8(from + 16 * i); });
    }
    static Floats halves(const uint8_t *from) {
        return each<Floats>([&](int i) {
            return vcvt_f32_f16(vreinterpret_f16_u16(vreinterpret_u16_u8(vld1_u8(from + 8 * i))));
        });
    }
    static Floats steps(const uint8_t *from) {
        const uint8x16_t all = vld1q_u8(from);
        const uint16x8_t low = vmovl_u8(vget_low_u8(all)), high = vmovl_u8(vget_high_u8(all));
        return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
                 vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
                 vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))}};
    }
    static Floats signed_steps(const uint8_t *from) {
        const int8x16_t all = vreinterpretq_s8_u8(vld1q_u8(from));
        const int16x8_t low = vmovl_s8(vget_low_s8(all)), high = vmovl_s8(vget_high_s8(all));
        return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                 vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                 vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
    }
    static Floats floats(float value) {
        return each<Floats>([&](int) { return vdupq_n_f32(value); });
    }
    static Integers integers(int32_t value) {
        return each<Integers>([&](int) { return vdupq_n_s32(value); });
    }
    static Bytes low_half(Bytes both) {
        return each<Bytes>([&](int i) { return vandq_u8(both.part[i], vdupq_n_u8(0x0f)); });
    }
    static Bytes high_half(Bytes both) {
        return each<Bytes>([&](int i) { return vshrq_n_u8(both.part[i], 4); });
    }
    static Bytes bits(Bytes all, int left, int8_t mask) {
        const int8x16_t shift = vdupq_n_s8(static_cast<int8_t>(left));
        const uint8x16_t wanted = vdupq_n_u8(static_cast<uint8_t>(mask));
        return each<Bytes>([&](int i) { return vandq_u8(vshlq_u8(all.part[i], shift), wanted); });
    }
    static Bytes either(Bytes a, Bytes b) {
        return each<Bytes>([&](int i) { return vorrq_u8(a.part[i], b.part[i]); });
    }
    // Weights of less than 8 bits are as good as signed; the bias of Q8_0 is the top bit.
    template <PackedFormat format>
    static Integers add_products(Integers sum, Bytes weights, int32_t inputs) {
        const int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(inputs));
        const uint8x16_t bias = vdupq_n_u8(format == PackedFormat::q8_0 ? 0x80 : 0);
        return each<Integers>([&](int i) {
            return vdotq_s32(sum.part[i], vreinterpretq_s8_u8(veorq_u8(weights.part[i], bias)), four);
        });
    }
    static Floats multiply(Floats a, Floats b) {
        return each<Floats>([&](int i) { return vmulq_f32(a.part[i], b.part[i]); });
    }
    static Floats add_scaled(Floats total, Integers sum, Floats scale) {
        return each<Floats>(
            [&](int i) { return vfmaq_f32(total.part[i], vcvtq_f32_s32(sum.part[i]), scale.part[i]); });
    }
    static Floats subtract_product(Floats total, Floats a, float b) {
        return each<Floats>([&](int i) { return vfmsq_n_f32(total.part[i], a.part[i], b); });
    }
    static void store(float *to, Floats values, int64_t count) {
        alignas(16) float lanes[16];
        for (int i = 0; i < 4; ++i) {
            vst1q_f32(lanes + 4 * i, values.part[i]);
        }
        std::memcpy(to, lanes, static_cast<size_t>(count < 16 ? count : 16) * sizeof(float));
    }
    static float largest_magnitude(const float *inputs) {
        float32x4_t largest = vdupq_n_f32(0.0f);
        for (int i = 0; i < 32; i += 4) {
            largest = vmaxq_f32(largest, vabsq_f32(vld1q_f32(inputs + i)));
        }
        return vmaxvq_f32(largest);
    }
    static void round(const float *inputs, float inverse, int8_t *bytes, int32_t *sums) {
        for (int half = 0; half < 2; ++half) {
            int32x4_t sum = vdupq_n_s32(0);
            for (int i = 0; i < 16; i += 4) {
                const int32x4_t rounded =
                    vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(inputs + 16 * half + i), inverse));
                alignas(16) int32_t lanes[4];
                vst1q_s32(lanes, rounded);
                for (int lane = 0; lane < 4; ++lane) {
                    bytes[16 * half + i + lane] = static_cast<int8_t>(lanes[lane]);
                }
                sum = vaddq_s32(sum, rounded);
            }
            sums[half] = vaddvq_s32(sum);
        }
    }
};

}  // namespace
}  // namespace ggtts::kernels

#include "packed_kernels_body.hpp"

namespace ggtts::kernels {

const PackedKernels neon_packed_kernels{round_inputs, multiply_rows};

}  // namespace ggtts::kernels
