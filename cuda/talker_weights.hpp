// Rows of weights as GGML stores them, and how the lanes of a warp read a piece of some of them.
//
// A piece is about a kilobyte. It lies in shared memory as it lies in a file. The activations lie there as
// the type of the weights wants them, with unused words between them: lanes that read side by side never wait
// for one bank.
#pragma once

#include "portable.hpp"
#include "talker_model.hpp"
#include "weight_types.hpp"

#include <cmath>

namespace ggtts::talker {

using predictor::bits_of_float;
using predictor::float_of_bits;
using predictor::float_of_half;
using predictor::Floats;
using predictor::lanes;
using predictor::Pair;
using predictor::Words;

inline constexpr int most_piece_bytes = 1088;

// Where an activation lies that stays a float.
constexpr GGTTS_EVERYWHERE int place_of(int index) {
    return index + index / 32 * 4;
}
// Room for so many, which are a multiple of 4, and the unused ones.
constexpr GGTTS_EVERYWHERE int room_for(int count) {
    return place_of(count + 31);
}

GGTTS_ANYWHERE uint32_t word_at(const uint8_t *aligned) {
#ifdef __CUDACC__
    return *reinterpret_cast<const uint32_t *>(aligned);
#else
    uint32_t word = 0;
    std::memcpy(&word, aligned, sizeof word);
    return word;
#endif
}

GGTTS_ANYWHERE Words words_at(const uint8_t *aligned) {
#ifdef __CUDACC__
    return *reinterpret_cast<const Words *>(aligned);
#else
    Words words;
    std::memcpy(&words, aligned, sizeof words);
    return words;
#endif
}

// The upper word of two that were shifted down by 16 or 32 bits, which leaves the lower one's.
GGTTS_ANYWHERE uint32_t shifted_down(uint32_t low, uint32_t high, uint32_t bits) {
#ifdef __CUDACC__
    return __funnelshift_rc(low, high, bits);
#else
    return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> bits);
#endif
}

// sum + the products of four signed bytes with four bytes: signed ones, or unsigned ones.
GGTTS_ANYWHERE int add_signed_products(uint32_t weights, uint32_t others, int sum) {
#ifdef __CUDACC__
    return __dp4a(static_cast<int>(weights), static_cast<int>(others), sum);
#else
    for (int i = 0; i < 4; ++i)
        sum += static_cast<int8_t>(weights >> (8 * i)) * static_cast<int8_t>(others >> (8 * i));
    return sum;
#endif
}

GGTTS_ANYWHERE int add_unsigned_products(uint32_t weights, uint32_t others, int sum) {
#ifdef __CUDACC__
    int result;
    asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(weights), "r"(others), "r"(sum));
    return result;
#else
    for (int i = 0; i < 4; ++i)
        sum += static_cast<int8_t>(weights >> (8 * i)) * static_cast<uint8_t>(others >> (8 * i));
    return sum;
#endif
}

// Faster than exact on GPUs.
GGTTS_ANYWHERE float quotient(float dividend, float divisor) {
#ifdef __CUDACC__
    return __fdividef(dividend, divisor);
#else
    return dividend / divisor;
#endif
}

GGTTS_ANYWHERE int nearest(float value) {
#ifdef __CUDACC__
    return __float2int_rn(value);
#else
    return static_cast<int>(std::lrint(value));
#endif
}

// Blocks of a half as scale and 32 signed bytes. Each lane has a block; where it begins inside a word decides
// how its words are put together.
//
// GPUs multiply four bytes at once. So 32 activations share a scale, too, and become whole numbers of 24
// bits, as exact as floats of the size of their largest: a signed byte and two unsigned ones each.
struct EightBits {
    static constexpr int piece_width = 1024;
    static constexpr int piece_bytes = 1088;
    static constexpr int width_multiple = 32;
    static constexpr bool shares_scale = true;

    static constexpr int digits = 3;
    static constexpr int staged_words = 28;  // of a block: three digits of each, the scale; of no bank twice
    static constexpr float largest = 32766.0F * 256.0F;  // some less than 2^23: quotients are a little off

    static GGTTS_ANYWHERE int staged_at(int index) { return index / 32 * staged_words; }

    // Leaves two neighbours, of 32 whose largest magnitude has the bits `top`.
    static GGTTS_ANYWHERE void stage(float *staged, int index, const float (&values)[2], uint32_t top) {
        float *block = staged + staged_at(index);
        const float magnitude = float_of_bits(top);
        // The smallest numbers have no inverse; they are as good as zero.
        const float factor = magnitude < 1e-30F ? 0.0F : quotient(largest, magnitude);
        auto *bytes = reinterpret_cast<uint8_t *>(block) + index % 32;
        const int first = nearest(values[0] * factor), second = nearest(values[1] * factor);
        for (int digit = 0; digit < digits; ++digit) {
            const int shift = 16 - 8 * digit;
            *reinterpret_cast<uint16_t *>(bytes + 32 * digit) =
                static_cast<uint16_t>((first >> shift & 0xFF) | (second >> shift & 0xFF) << 8);
        }
        // What is no number makes the scale no number: not all of it would show in the digits.
        const bool finite = top < 0x7F800000U;
        if (index % 32 == 0)
            block[digits * 8] = finite ? magnitude * (1.0F / largest) : float_of_bits(0x7FC00000U);
    }

    template <int rows>
    static GGTTS_ANYWHERE void accumulate(const uint8_t *const (&pieces)[rows], const float *x, int width,
                                          int lane, float (&sums)[rows]) {
        constexpr int words = 8;
        if (lane * 32 >= width)
            return;
        const float *block = x + lane * staged_words;
        uint32_t stored[rows][words + 1], shifts[rows];
        int dots[rows][digits] = {};
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            const uint8_t *begin = pieces[row] + lane * 34;
            const bool late = (reinterpret_cast<uintptr_t>(begin) & 2) != 0;
            shifts[row] = late ? 32 : 16;
#pragma unroll
            for (int i = 0; i <= words; ++i)
                stored[row][i] = word_at(begin - (late ? 2 : 0) + 4 * i);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            Words x_digits[digits];
#pragma unroll
            for (int digit = 0; digit < digits; ++digit)
                x_digits[digit] = words_at(reinterpret_cast<const uint8_t *>(block + 8 * digit + 4 * half));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int row = 0; row < rows; ++row) {
                    const int at = 4 * half + i;
                    const uint32_t four = shifted_down(stored[row][at], stored[row][at + 1], shifts[row]);
                    dots[row][0] = add_signed_products(four, x_digits[0].at[i], dots[row][0]);
                    dots[row][1] = add_unsigned_products(four, x_digits[1].at[i], dots[row][1]);
                    dots[row][2] = add_unsigned_products(four, x_digits[2].at[i], dots[row][2]);
                }
            }
        }
        const float x_scale = block[8 * digits];
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            const uint32_t scale = shifts[row] == 32 ? stored[row][0] >> 16 : stored[row][0] & 0xFFFFU;
            const auto low = static_cast<float>(dots[row][1] * 256 + dots[row][2]);
            const float dot = fmaf(static_cast<float>(dots[row][0]), 65536.0F, low);
            sums[row] = fmaf(float_of_half(static_cast<uint16_t>(scale)) * x_scale, dot, sums[row]);
        }
    }
};

// Numbers of 2 or 4 bytes: a lane has runs of 16 bytes, 512 apart.
template <int bytes, class Decode>
struct PlainNumbers {
    static constexpr int piece_bytes = 1024;
    static constexpr int piece_width = piece_bytes / bytes;
    static constexpr int width_multiple = 16 / bytes;
    static constexpr bool shares_scale = false;

    static GGTTS_ANYWHERE int staged_at(int index) { return place_of(index); }

    static GGTTS_ANYWHERE void stage(float *staged, int index, const float (&values)[2], uint32_t) {
        staged[place_of(index)] = values[0];
        staged[place_of(index) + 1] = values[1];
    }

    template <int rows>
    static GGTTS_ANYWHERE void accumulate(const uint8_t *const (&pieces)[rows], const float *x, int width,
                                          int lane, float (&sums)[rows]) {
        constexpr int run = 16 / bytes;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int first = (half * lanes + lane) * run;
            if (first >= width)
                continue;
            Words stored[rows];
#pragma unroll
            for (int row = 0; row < rows; ++row)
                stored[row] = words_at(pieces[row] + first * bytes);
#pragma unroll
            for (int i = 0; i < run; i += 4) {
                const Floats values = *reinterpret_cast<const Floats *>(x + place_of(first) + i);
#pragma unroll
                for (int row = 0; row < rows; ++row) {
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        sums[row] = fmaf(Decode::at(stored[row], i + k), values.at[k], sums[row]);
                }
            }
        }
    }
};

template <class Number>
struct DecodeSixteen {
    static GGTTS_ANYWHERE float at(const Words &words, int index) {
        return Number::decode(static_cast<uint16_t>(words.at[index / 2] >> (index % 2 * 16)));
    }
};
struct DecodeThirtyTwo {
    static GGTTS_ANYWHERE float at(const Words &words, int index) { return float_of_bits(words.at[index]); }
};

using Halves = PlainNumbers<2, DecodeSixteen<predictor::Float16>>;
using BrainHalves = PlainNumbers<2, DecodeSixteen<predictor::BrainFloat16>>;
using Singles = PlainNumbers<4, DecodeThirtyTwo>;

}  // namespace ggtts::talker
