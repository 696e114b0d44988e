// Products of a block for few columns: activations from what other blocks send, weights from the block's
// feed.
#pragma once

#include "letters.hpp"
#include "weight_feed.hpp"

namespace ggtts::predictor {

// Values of a column whose squares a warp adds up.
inline constexpr int norm_run = lanes * 4;

constexpr int norm_runs(int width) {
    return (width + norm_run - 1) / norm_run;
}

// Sums of squares [column][run] of columns that lie `stride` apart. Nobody waits for them.
template <int columns, class Block>
GGTTS_ANYWHERE void add_squares(const Block &block, const float *values, int stride, int width,
                                float *squares) {
    const int runs = norm_runs(width);
    block.spread_tasks(columns * runs, [&](const auto &warp, int task) {
        const int column = columns == 1 ? 0 : task / runs, begin = (task - column * runs) * norm_run;
        const float sum = warp.sum([&](int lane) {
            float squared = 0;
            const int at = begin + 4 * lane;
            if (at < width) {
                const Floats found = *reinterpret_cast<const Floats *>(values + column * stride + at);
                for (int i = 0; i < 4; ++i)
                    squared = fmaf(found.at[i], found.at[i], squared);
            }
            return squared;
        });
        warp.each(1, [&](int) { squares[task] = sum; });
    });
}

// The factor of an RMSNorm (Zhang and Sennrich, 2019).
GGTTS_ANYWHERE float norm_factor(const float *squares, int width, float epsilon) {
    float sum = 0;
#pragma unroll 4
    for (int run = 0; run < norm_runs(width); ++run)
        sum += squares[run];
    return inverse_root(sum / static_cast<float>(width) + epsilon);
}

// Adds four products to a sum. Whole numbers are multiplied by their scale as late as possible.
template <class Type>
GGTTS_ANYWHERE float add_run(float sum, const float (&weights)[run_length], const Floats &x, float scale) {
    float part = Type::is_scaled ? 0.0F : sum;
#pragma unroll
    for (int i = 0; i < run_length; ++i)
        part = fmaf(weights[i], x.at[i], part);
    return Type::is_scaled ? fmaf(scale, part, sum) : part;
}

// The products of a tile for one lane: sums[row of the group][column].
template <class Type, int columns>
GGTTS_ANYWHERE void multiply_tile(const uint8_t *tile, const float *staged, int stride, int lane,
                                  float (&sums)[rows_together * columns]) {
    typename Type::Fragment fragments[rows_together];
#pragma unroll
    for (int row = 0; row < rows_together; ++row)
        fragments[row] = Type::template load<NearWeights>(tile + row * Type::chunk_bytes, lane);
#pragma unroll
    for (int run = 0; run < runs; ++run) {
        Floats x[columns];
#pragma unroll
        for (int column = 0; column < columns; ++column)
            x[column] = *reinterpret_cast<const Floats *>(staged + column * stride +
                                                          (run * lanes + lane) * run_length);
#pragma unroll
        for (int row = 0; row < rows_together; ++row) {
            float weights[run_length], scale = 1.0F;
            if constexpr (Type::is_scaled) {
                Type::decode_unscaled(fragments[row], run, weights);
                scale = Type::scale(fragments[row], run);
            } else {
                Type::decode(fragments[row], run, weights);
            }
#pragma unroll
            for (int column = 0; column < columns; ++column) {
                float &sum = sums[row * columns + column];
                sum = add_run<Type>(sum, weights, x[column], scale);
            }
        }
    }
}

// Multiplies a block's portion of the rows with what is staged.
template <class Type, int columns, class Block>
GGTTS_ANYWHERE Products<columns> multiply(Block &block, const Portion &portion, const Divider &chunks,
                                          const float *staged, float *partial) {
    constexpr int size = rows_together * columns;
    const int stride = portion.chunks * chunk_width;
    block.each_task(portion.tiles(), [&](const auto &warp, int task) {
        const uint8_t *tile = block.feed().wait(warp);
        const float *inputs = staged + chunks.remainder(task) * chunk_width;
        warp.template sums<size>(
            [&](int lane, float (&sums)[size]) {
                multiply_tile<Type, columns>(tile, inputs, stride, lane, sums);
            },
            [&](int index, float sum) { partial[task * size + index] = sum; });
    });
    return {{portion.first, portion.groups}, portion.chunks, partial};
}

}  // namespace ggtts::predictor
