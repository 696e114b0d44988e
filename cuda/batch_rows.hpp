// Rows of weights as GGML stores them, copied into shared memory, as operands of matrix units: exact halves.
//
// A unit of a row is 128 weights, four blocks of 32. Of each block a lane has two runs of four weights, those
// that `place_in_block` gives its activations; lanes of the upper two of four take the second run first, so
// that a warp never waits for one bank of shared memory.
#pragma once

#include "talker_stream.hpp"
#include "tensor_weights.hpp"

namespace ggtts::talker::batch {

using predictor::block_width;
using predictor::blocks_of_unit;
using predictor::EightHalves;
using predictor::TwoWords;

inline constexpr int unit_width = blocks_of_unit * block_width;

// Where the lane that is `member` of four finds its runs of four weights in a block, counted in such runs.
struct Runs {
    int first, second;

    GGTTS_ANYWHERE explicit Runs(int member)
        : first(member / 2 * 6 + member % 2), second(member / 2 * 2 + 2 + member % 2) {}
};

// Blocks of a half as scale and 32 signed bytes. Those of a unit begin in the middle of a word by turns.
struct RowsOfEightBits {
    static constexpr bool is_scaled = true;
    static constexpr int block_bytes = 34;
    static constexpr int unit_bytes = blocks_of_unit * block_bytes;
    static constexpr int width_multiple = block_width;
    static constexpr int most_stage_units = 8;

    static constexpr GGTTS_EVERYWHERE int bytes_of(int width) { return width / block_width * block_bytes; }
    // Of a row in shared memory: lanes read four words of each of eight rows side by side.
    static constexpr GGTTS_EVERYWHERE int room_of(int units) {
        return (((units * unit_bytes + copy_bytes - 1) / copy_bytes) | 1) * copy_bytes;
    }

    static GGTTS_ANYWHERE EightHalves decode(const uint8_t *unit, int block, const Runs &runs, float) {
        const uint8_t *pair = unit + block / 2 * (2 * block_bytes);
        uint32_t words[2];
        if (block % 2 == 0) {
            words[0] = late_word(pair + 4 * runs.first);
            words[1] = late_word(pair + 4 * runs.second);
        } else {
            words[0] = word_at(pair + block_bytes + 2 + 4 * runs.first);
            words[1] = word_at(pair + block_bytes + 2 + 4 * runs.second);
        }
        EightHalves result;
        uint32_t halves[2];
        for (int run = 0; run < 2; ++run) {
            predictor::halves_of_bytes(words[run], halves);
            result.pairs[2 * run] = halves[0];
            result.pairs[2 * run + 1] = halves[1];
        }
        return result;
    }
    static GGTTS_ANYWHERE float scale(const uint8_t *unit, int block, float) {
        const uint8_t *pair = unit + block / 2 * (2 * block_bytes);
        const uint32_t word = block % 2 == 0 ? word_at(pair) : word_at(pair + block_bytes - 2) >> 16;
        return float_of_half(static_cast<uint16_t>(word));
    }

private:
    // Two bytes behind a whole word.
    static GGTTS_ANYWHERE uint32_t late_word(const uint8_t *before) {
        return shifted_down(word_at(before), word_at(before + 4), 16);
    }
};

// Numbers of 16 bits. Halves are themselves; BFloat16 has less digits, but a wider range: see `lift_of`.
template <class Number>
struct RowsOfSixteenBits {
    static constexpr bool is_scaled = false;
    static constexpr int unit_bytes = 2 * unit_width;
    static constexpr int width_multiple = block_width;
    static constexpr int most_stage_units = 4;

    static constexpr GGTTS_EVERYWHERE int bytes_of(int width) { return 2 * width; }
    static constexpr GGTTS_EVERYWHERE int room_of(int units) { return units * unit_bytes + 2 * copy_bytes; }

    static GGTTS_ANYWHERE EightHalves decode(const uint8_t *unit, int block, const Runs &runs, float lift) {
        const uint8_t *begin = unit + block * (2 * block_width);
        EightHalves result;
        for (int run = 0; run < 2; ++run) {
            const TwoWords words =
                *reinterpret_cast<const TwoWords *>(begin + 8 * (run == 0 ? runs.first : runs.second));
            for (int i = 0; i < 2; ++i)
                result.pairs[2 * run + i] = pair(words.at[i], lift);
        }
        return result;
    }
    static GGTTS_ANYWHERE float scale(const uint8_t *, int, float lift) {
        return is_half ? 1.0F : 1.0F / lift;
    }

private:
    static constexpr bool is_half = std::is_same_v<Number, predictor::Float16>;
    static GGTTS_ANYWHERE uint32_t pair(uint32_t bits, float lift) {
        if constexpr (is_half)
            return bits;
        return predictor::pair_of_halves(Number::decode(static_cast<uint16_t>(bits)) * lift,
                                         Number::decode(static_cast<uint16_t>(bits >> 16)) * lift);
    }
};

using RowsOfHalves = RowsOfSixteenBits<predictor::Float16>;
using RowsOfBrainHalves = RowsOfSixteenBits<predictor::BrainFloat16>;

}  // namespace ggtts::talker::batch
