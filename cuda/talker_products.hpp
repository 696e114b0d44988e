// Matrix products of a block: its share of the rows with one column of activations.
#pragma once

#include <cmath>

#include "letters.hpp"
#include "talker_stream.hpp"

namespace ggtts::talker {

using predictor::TwoLetters;

inline constexpr int letters_together = 4;  // pairs that a lane waits for at once

// What a lane brings in one turn: two neighbours, and their weights in a norm.
struct Brought {
    const Letter *from = nullptr;  // null beyond the end
    TwoLetters letters{};
    float weights[2] = {};

    GGTTS_ANYWHERE void look() { letters = from == nullptr ? TwoLetters{} : look_at_two(from); }
    GGTTS_ANYWHERE bool has_come(uint32_t time) const {
        return from == nullptr || (letters.at[0].time == time && letters.at[1].time == time);
    }
    GGTTS_ANYWHERE float value(int i) const { return letters.at[i].value * weights[i]; }
    // The bits of the larger magnitude; more than those of infinity for what is no number.
    GGTTS_ANYWHERE uint32_t top() const {
        const uint32_t first = bits_of_float(value(0)) & 0x7FFFFFFFU,
                       second = bits_of_float(value(1)) & 0x7FFFFFFFU;
        return first > second ? first : second;
    }
};

// Brings activations into shared memory, as a type of weights wants them; with weights of an RMSNorm (Zhang
// and Sennrich, 2019) times those. Each warp leaves the sum of squares of what it brought: the division by
// the root of their mean comes after the products, so that nothing has to wait for it. The width is even.
template <class Type, class Block>
GGTTS_ANYWHERE void stage(const Block &block, int warps, const Letter *source, int width, uint32_t time,
                          const float *weight, float *staged, float *squares) {
    block.each_task(warps, [&](const auto &warp, int index) {
        const int stride = 2 * warps * lanes;
        float sum = 0;
        GGTTS_SHORT_LOOP
        for (int first = 2 * index * lanes; first < width; first += letters_together * stride) {
            const auto place = [&](int lane, int turn) { return first + 2 * lane + turn * stride; };
            sum += warp.template bring<letters_together, Type::shares_scale, Brought>(
                time,
                [&](int lane, int turn) {
                    const int at = place(lane, turn);
                    if (at >= width)
                        return Brought{};
                    if (weight == nullptr)
                        return Brought{source + at, {}, {1.0F, 1.0F}};
                    const predictor::TwoWords weights = predictor::load_pair(weight + at);
                    return Brought{
                        source + at, {}, {float_of_bits(weights.at[0]), float_of_bits(weights.at[1])}};
                },
                [&](int lane, int turn, const Brought &brought, uint32_t top) {
                    if (brought.from == nullptr)
                        return 0.0F;
                    const float values[2] = {brought.value(0), brought.value(1)};
                    Type::stage(staged, place(lane, turn), values, top);
                    const float first_letter = brought.letters.at[0].value,
                                second_letter = brought.letters.at[1].value;
                    return fmaf(first_letter, first_letter, second_letter * second_letter);
                });
        }
        warp.each(1, [&](int) { squares[index] = sum; });
    });
}

// One over the root of the mean square, of what `stage` left. There are as many warps as lanes, at most.
template <class Warp>
GGTTS_ANYWHERE float norm_scale(const Warp &warp, const float *squares, int warps, int width, float epsilon) {
    const float sum = warp.sum([&](int lane) { return lane < warps ? squares[lane] : 0.0F; });
    return 1.0F / sqrtf(sum / static_cast<float>(width) + epsilon);
}

// Products of a block's rows, in shared memory as the sums of their pieces.
struct Products {
    int first_row, count;
    int pieces;
    const float *partial;  // [piece][row of the block]

    GGTTS_ANYWHERE float at(int index) const {
        float sum = partial[index];
        GGTTS_SHORT_LOOP
        for (int piece = 1; piece < pieces; ++piece)
            sum += partial[piece * count + index];
        return sum;
    }
};

// Multiplies a block's share of the rows, `together` of them at once, with what is staged; see `Products`.
// Each warp calls finish(warp, index) when it has nothing left to multiply.
template <class Type, int together, class Block, class Streams, class Finish>
GGTTS_ANYWHERE void multiply(const Block &block, int warps, int matrix, int width, Streams &streams,
                             const float *staged, float *partial, Finish finish) {
    block.each_task(warps, [&](const auto &warp, int index) {
        auto &stream = streams.of(index);
        GGTTS_SHORT_LOOP
        while (stream.note().matrix == matrix) {
            const Note note = stream.note();
            const uint8_t *slot = stream.front(warp);
            const uint8_t *rows[together];
#pragma unroll
            for (int i = 0; i < together; ++i)
                rows[i] = slot + i * row_room + (note.misalignments >> (16 * i) & 0xFFFF);
            const int first = note.piece * Type::piece_width;
            warp.template sums<together>(
                [&](int lane, float (&sums)[together]) {
                    Type::template accumulate<together>(rows, staged + Type::staged_at(first), width - first,
                                                        lane, sums);
                },
                [&](int i, float sum) { partial[note.task * together + i] = sum; });
            stream.next(warp);
        }
        finish(warp, index);
    });
}

// Rows of a block, at most.
constexpr GGTTS_EVERYWHERE int most_rows(int rows, int together, int blocks) {
    return ((rows + together - 1) / together / blocks + 1) * together;
}

}  // namespace ggtts::talker
