// Activations as matrix units take them: each float32 is the sum of two halves.
//
// Neighbours in blocks of 32 share a power of two that brings the largest of them just below 2^15. The first
// half then keeps 11 bits of a value, the second the next 11: 22 of the 24 bits of a float32, whatever the
// range of the values is. (Markidis et al., "NVIDIA Tensor Core Programmability, Performance & Precision",
// 2018, refine products in this way.)
#pragma once

#include <cmath>

#include "tensor_model.hpp"
#include "weight_types.hpp"

namespace ggtts::predictor {

GGTTS_ANYWHERE uint16_t half_of_float(float value) {
#ifdef __CUDACC__
    return __half_as_ushort(__float2half_rn(value));
#else
    return ggml_fp32_to_fp16(value);
#endif
}

// What another block wrote in an earlier phase. The first-level cache may keep it, as several warps read the
// same: the barrier before the phase emptied that (PTX ISA, memory consistency model: the acquire of one
// thread and the block's barrier order the reads of all of its threads).
GGTTS_ANYWHERE Words split_words(const uint16_t *source) {
#ifdef __CUDACC__
    const uint4 loaded = __ldca(reinterpret_cast<const uint4 *>(source));
    return {{loaded.x, loaded.y, loaded.z, loaded.w}};
#else
    return *reinterpret_cast<const Words *>(source);
#endif
}

// Where the first half of element `k` of a block lies among the 64 of a column; the second is two places on.
//
// Lane q of four reads 16 bytes at once: two elements that are neighbours, in both parts, and two more. They
// go with the weights that it finds at 4 f(q) (first step) and 4 f(q) + 8 (second step) of its row's 32, f(q)
// = 0, 1, 4, 5: so lanes of two rows read all banks of shared memory.
inline constexpr int next_part = 2;
inline constexpr int halves_of_block = parts_of_number * block_width;

GGTTS_ANYWHERE int place_in_block(int k) {
    const int four = k / 4, lane = four / 4 * 2 + four % 2, step = four / 2 % 2;
    return step * halves_of_block / 2 + lane * 8 + k % 4 / 2 * 4 + k % 2;
}

// Powers of two for a block whose largest value is `highest`.
struct BlockScale {
    float scale, factor;
};

GGTTS_ANYWHERE BlockScale block_scale(float highest) {
    constexpr uint32_t bias = 127, fraction_bits = 23, largest_exponent = 14, limit = 253;
    const uint32_t exponent = bits_of_float(highest) >> fraction_bits;
    if (exponent == 2 * bias + 1)
        return {0.0F, float_of_bits(0x7FC00000U)};
    uint32_t scale = 2 * bias + largest_exponent - exponent;
    scale = scale < limit ? scale : limit;
    return {float_of_bits(scale << fraction_bits), float_of_bits((2 * bias - scale) << fraction_bits)};
}

// How large a value is for `block_scale`: infinite unless it is a finite number.
GGTTS_ANYWHERE float size_of(float value) {
    const float infinity = float_of_bits(0x7F800000U);
    return fabsf(value) < infinity ? fabsf(value) : infinity;
}

// Splits elements `first` .. `first` + 3 of a block of one column; `first` is a multiple of 4.
template <class Split>
GGTTS_ANYWHERE void split_four(const Split &target, int block, int column, int columns, int first,
                               const Floats &values, const BlockScale &by) {
    uint16_t parts[2][4];
    for (int i = 0; i < 4; ++i) {
        const float scaled = by.scale == 0.0F ? 0.0F : values.at[i] * by.scale;
        parts[0][i] = half_of_float(scaled);
        parts[1][i] = half_of_float(scaled - float_of_half(parts[0][i]));
    }
    const auto pair = [&](int part, int i) {
        return parts[part][i] | static_cast<uint32_t>(parts[part][i + 1]) << 16;
    };
    const int place = block * columns + column;
    constexpr bool alternate = Split::parts_alternate;
    *reinterpret_cast<Words *>(target.halves + place * halves_of_block + place_in_block(first)) = {
        {pair(0, 0), alternate ? pair(1, 0) : pair(0, 2), alternate ? pair(0, 2) : pair(1, 0), pair(1, 2)}};
    if (first == 0)
        target.factors[place] = by.factor;
}

GGTTS_ANYWHERE float size_of(const Floats &values) {
    return fmaxf(fmaxf(size_of(values.at[0]), size_of(values.at[1])),
                 fmaxf(size_of(values.at[2]), size_of(values.at[3])));
}

// Four neighbours of a block of activations. Eight lanes have a block, so a warp has four of them.
inline constexpr int lanes_of_block = 8;
inline constexpr int blocks_of_warp = lanes / lanes_of_block;

struct FourValues {
    Floats values;
    float squares, highest, scale;
};

GGTTS_ANYWHERE int first_of_lane(int lane) {
    return lane % lanes_of_block * 4;
}

GGTTS_ANYWHERE float sum_of_squares(const Floats &values) {
    float sum = 0.0F;
    for (int i = 0; i < 4; ++i)
        sum = fmaf(values.at[i], values.at[i], sum);
    return sum;
}

// Splits the four blocks of a warp: where(lane) says which block of which column the lane has a part of.
struct BlockPlace {
    int block, column;
    bool exists;
};

template <class AllLanes, class Split, class Where>
GGTTS_ANYWHERE void split_blocks(AllLanes &all, const Split &target, int columns, Where where) {
    all.combine_eights([](const FourValues &own) { return size_of(own.values); },
                       [](float a, float b) { return fmaxf(a, b); },
                       [](FourValues &own, float highest) { own.highest = highest; });
    all.each([&](int lane, const FourValues &own) {
        const BlockPlace place = where(lane);
        if (place.exists) {
            split_four(target, place.block, place.column, columns, first_of_lane(lane), own.values,
                       block_scale(own.highest));
        }
    });
}

}  // namespace ggtts::predictor
