// Products of a block for few columns: activations from what other blocks tell, weights from the block's feed.
#pragma once

#include "messages.hpp"
#include "weight_feed.hpp"

namespace ggtts::predictor {

// Values of a column whose squares a warp adds up.
inline constexpr int norm_run = lanes * 4;

constexpr int norm_runs(int width) {
    return (width + norm_run - 1) / norm_run;
}

// Sums of squares [column][run] of columns that lie `stride` apart. Nobody waits for them.
template <int columns, class Block>
GGTTS_ANYWHERE void add_squares(const Block &block, const float *values, int stride, int width, float *squares) {
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
    for (int run = 0; run < norm_runs(width); ++run)
        sum += squares[run];
    return norm_scale(sum, width, epsilon);
}

// Multiplies a block's portion of the rows with what is staged.
template <class Type, int columns, class Block>
GGTTS_ANYWHERE Products<columns> multiply(Block &block, const Portion &portion, const float *staged,
                                          float *partial) {
    constexpr int size = rows_together * columns;
    const int chunks = portion.chunks, stride = chunks * chunk_width;
    block.each_task(portion.tiles(), [&](const auto &warp, int task) {
        const uint8_t *tile = block.feed().wait(warp);
        const float *inputs = staged + task % chunks * chunk_width;
        warp.template sums<size>(
            [&](int lane, float (&sums)[size]) {
                accumulate<Type, columns, NearWeights>(tile, inputs, stride, lane, sums);
            },
            [&](int index, float sum) { partial[task * size + index] = sum; });
    });
    return {{portion.first, portion.groups}, chunks, partial};
}

}  // namespace ggtts::predictor
