// Numbers as matrix units take them, and the snake.
#pragma once

#include "conv_model.hpp"

namespace ggtts::conv {

using predictor::bits_of_float;
using predictor::float_of_bits;
using predictor::Floats;
using predictor::TwoWords;
using predictor::Words;

// Of a float32 matrix units read 10 bits of mantissa and ignore the others: half of the last one rounds.
inline constexpr uint32_t half_of_last_bit = 0x1000U, bits_read = 0xFFFFE000U;

GGTTS_ANYWHERE float rounded(float value) {
    return float_of_bits(bits_of_float(value) + half_of_last_bit);
}
GGTTS_ANYWHERE float upper_part(float value) {
    return float_of_bits((bits_of_float(value) + half_of_last_bit) & bits_read);
}

// Two float16 numbers, the first in the lower half.
GGTTS_ANYWHERE uint32_t pair_of_halves(float first, float second) {
#ifdef __CUDACC__
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t *>(&pair);
#else
    return ggml_fp32_to_fp16(first) | static_cast<uint32_t>(ggml_fp32_to_fp16(second)) << 16;
#endif
}

// What float16 can hold; what is no number stays so.
GGTTS_ANYWHERE float within_halves(float value) {
    constexpr float most = 65504.0F;
    return value > most ? most : value < -most ? -most : value;
}

// How numbers are stored.
template <Kind kind>
struct Stored {
    using Number = float;
    static GGTTS_ANYWHERE float of(float value) { return value; }
    static GGTTS_ANYWHERE float value(float number) { return number; }
};
template <>
struct Stored<Kind::halves> {
    using Number = uint16_t;
    static GGTTS_ANYWHERE uint16_t of(float value) {
        return static_cast<uint16_t>(pair_of_halves(within_halves(value), 0.0F));
    }
    static GGTTS_ANYWHERE float value(uint16_t number) { return predictor::float_of_half(number); }
};

GGTTS_ANYWHERE Floats load_four(const float *source) {
    return *reinterpret_cast<const Floats *>(source);
}
GGTTS_ANYWHERE Floats load_four(const uint16_t *source) {
    const TwoWords pairs = *reinterpret_cast<const TwoWords *>(source);
    Floats values;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int i = 0; i < 4; ++i)
        values.at[i] = predictor::float_of_half(static_cast<uint16_t>(pairs.at[i / 2] >> (i % 2 * 16)));
    return values;
}

GGTTS_ANYWHERE void store_four(const Floats &values, float *target) {
    *reinterpret_cast<Floats *>(target) = values;
}
GGTTS_ANYWHERE void store_four(const Floats &values, uint16_t *target) {
    *reinterpret_cast<TwoWords *>(target) = {
        {pair_of_halves(within_halves(values.at[0]), within_halves(values.at[1])),
         pair_of_halves(within_halves(values.at[2]), within_halves(values.at[3]))}};
}

// sin^2, with a period of pi: what is left of x behind whole periods, and a Taylor polynomial.
GGTTS_ANYWHERE float squared_sine(float x) {
    const float periods = rintf(x * 0.318309886F);
    float rest = fmaf(periods, -3.14159274F, x);
    rest = fmaf(periods, 8.74227766e-8F, rest);
    const float square = rest * rest;
    float series = 1.6059044e-10F;
    series = fmaf(series, square, -2.50521084e-8F);
    series = fmaf(series, square, 2.75573192e-6F);
    series = fmaf(series, square, -1.98412698e-4F);
    series = fmaf(series, square, 8.33333333e-3F);
    series = fmaf(series, square, -1.66666667e-1F);
    const float sine = fmaf(rest * square, series, rest);
    return sine * sine;
}

GGTTS_ANYWHERE float snake(float x, float frequency, float magnitude) {
    return fmaf(squared_sine(x * frequency), magnitude, x);
}

}  // namespace ggtts::conv
