// How lanes read weights, in the layouts of weight_types.hpp, as operands of matrix units: exact halves.
//
// A unit is what a warp reads of a row at once: the 128 weights that lie in eight neighbouring places of 16
// bytes, of four blocks of 32. Block j of unit u (of four) of a chunk begins at its weight 128 j + 32 u.
#pragma once

#include <type_traits>

#include "split_activations.hpp"

namespace ggtts::predictor {

inline constexpr int units_of_chunk = 4;
inline constexpr int blocks_of_unit = 4;
inline constexpr int blocks_of_chunk = units_of_chunk * blocks_of_unit;

// The block of a row that is block `index` of a unit.
GGTTS_ANYWHERE int block_of_unit(int unit, int index) {
    return unit / units_of_chunk * blocks_of_chunk + index * units_of_chunk + unit % units_of_chunk;
}

// Eight weights of a block as four pairs of halves; times `scale` they are the weights.
struct EightHalves {
    uint32_t pairs[4];
};

// From shared memory.
GGTTS_ANYWHERE Words staged_words(const uint8_t *source) {
    return *reinterpret_cast<const Words *>(source);
}

// The first of two places of 16 bytes that one of four lanes reads; the other one is two places on.
GGTTS_ANYWHERE int first_place(int unit, int member) {
    return unit % units_of_chunk * 8 + member / 2 * 4 + member % 2;
}
inline constexpr int next_place = 2;

GGTTS_ANYWHERE uint32_t pair_of_halves(float low, float high) {
    return half_of_float(low) | static_cast<uint32_t>(half_of_float(high)) << 16;
}

// Signed bytes as halves, two at a time: 1024 + u is a half whose last bits are u.
GGTTS_ANYWHERE void halves_of_bytes(uint32_t bytes, uint32_t (&pairs)[2]) {
#ifdef __CUDACC__
    const uint32_t shifted = bytes ^ 0x80808080U;  // each is 128 more
    const __half2 origin = __halves2half2(__ushort_as_half(0x6480), __ushort_as_half(0x6480));  // 1152
    const uint32_t words[2] = {__byte_perm(shifted, 0x64646464U, 0x4140),
                               __byte_perm(shifted, 0x64646464U, 0x4342)};
    for (int i = 0; i < 2; ++i) {
        const __half2 pair = __hsub2(*reinterpret_cast<const __half2 *>(&words[i]), origin);
        pairs[i] = *reinterpret_cast<const uint32_t *>(&pair);
    }
#else
    for (int i = 0; i < 2; ++i) {
        const auto low = static_cast<int8_t>(bytes >> (16 * i)),
                   high = static_cast<int8_t>(bytes >> (16 * i + 8));
        pairs[i] = pair_of_halves(low, high);
    }
#endif
}

template <class Type>
struct TensorWeights;

template <>
struct TensorWeights<EightBits> {
    // Between rows in shared memory, so that those of eight lanes are in different banks.
    static constexpr int row_bytes = EightBits::chunk_bytes;
    struct Fragment {
        Words first, second;
    };
    struct Scales {
        TwoWords halves;
    };

    static GGTTS_ANYWHERE Fragment load(const uint8_t *row, int unit, int member) {
        const uint8_t *from = row + first_place(unit, member) * 16;
        return {staged_words(from), staged_words(from + next_place * 16)};
    }
    static GGTTS_ANYWHERE EightHalves decode(const Fragment &fragment, int block, float) {
        EightHalves result;
        uint32_t pairs[2];
        halves_of_bytes(fragment.first.at[block], pairs);
        result.pairs[0] = pairs[0];
        result.pairs[1] = pairs[1];
        halves_of_bytes(fragment.second.at[block], pairs);
        result.pairs[2] = pairs[0];
        result.pairs[3] = pairs[1];
        return result;
    }
    static GGTTS_ANYWHERE Scales load_scales(const uint8_t *row, int unit) {
        return {*reinterpret_cast<const TwoWords *>(row + chunk_width + unit % units_of_chunk * 8)};
    }
    static GGTTS_ANYWHERE float scale(const Scales &scales, int block, float) {
        return float_of_half(static_cast<uint16_t>(scales.halves.at[block / 2] >> (block % 2 * 16)));
    }
};

// The halves of float16 are themselves. BFloat16 has less digits, but a wider range: `lift`, a power of two,
// brings the largest weight of a matrix just below 2^15, and only what is 2^-30 of it loses digits.
template <class Number>
struct TensorWeights<SixteenBits<Number>> {
    static constexpr int row_bytes = SixteenBits<Number>::chunk_bytes + 32;
    struct Fragment {
        Words first[2], second[2];
    };
    struct Scales {};

    static GGTTS_ANYWHERE Fragment load(const uint8_t *row, int unit, int member) {
        Fragment fragment;
        for (int piece = 0; piece < 2; ++piece) {
            const uint8_t *from = row + piece * chunk_width + first_place(unit, member) * 16;
            fragment.first[piece] = staged_words(from);
            fragment.second[piece] = staged_words(from + next_place * 16);
        }
        return fragment;
    }
    static GGTTS_ANYWHERE EightHalves decode(const Fragment &fragment, int block, float lift) {
        const Words &first = fragment.first[block / 2], &second = fragment.second[block / 2];
        const int at = block % 2 * 2;
        return {{pair(first.at[at], lift), pair(first.at[at + 1], lift), pair(second.at[at], lift),
                 pair(second.at[at + 1], lift)}};
    }
    static GGTTS_ANYWHERE Scales load_scales(const uint8_t *, int) { return {}; }
    static GGTTS_ANYWHERE float scale(const Scales &, int, float lift) {
        return is_half ? 1.0F : 1.0F / lift;
    }

private:
    static constexpr bool is_half = std::is_same_v<Number, Float16>;
    static GGTTS_ANYWHERE uint32_t pair(uint32_t bits, float lift) {
        if constexpr (is_half)
            return bits;
        return pair_of_halves(Number::decode(static_cast<uint16_t>(bits)) * lift,
                              Number::decode(static_cast<uint16_t>(bits >> 16)) * lift);
    }
};

}  // namespace ggtts::predictor
