// Matrix products of a block: its share of the rows with a few columns of activations.
#pragma once

#include <cmath>

#include "weight_types.hpp"

namespace ggtts::predictor {

// Neighbouring groups of rows.
struct Share {
    int first = 0;
    int count = 0;
};

GGTTS_ANYWHERE Share share_of(const Matrix &matrix, int block, int blocks) {
    const int64_t groups = (matrix.rows + rows_together - 1) / rows_together;
    const int first = static_cast<int>(groups * block / blocks);
    return {first, static_cast<int>(groups * (block + 1) / blocks) - first};
}

template <class Type, class Block>
GGTTS_ANYWHERE void prefetch(const Block &block, const Matrix &matrix) {
    const Share share = share_of(matrix, block.index(), block.blocks());
    const int64_t bytes_of_group = static_cast<int64_t>(matrix.chunks) * rows_together * Type::chunk_bytes;
    block.prefetch(matrix.data + share.first * bytes_of_group, share.count * bytes_of_group);
}

// Copies [columns][width] into shared memory, each column followed by zeros up to whole chunks. The width is
// a multiple of 4.
template <int columns, class Block>
GGTTS_ANYWHERE void stage(const Block &block, const float *source, int width, float *staged) {
    const int stride = padded(width);
    block.each(stride / 4, [&](int quad) {
        const int at = 4 * quad;
        Floats values[columns];
#pragma unroll
        for (int column = 0; column < columns; ++column) {
            values[column] = {};
            if (at < width)
                values[column] = fresh_floats(source + static_cast<int64_t>(column) * width + at);
        }
#pragma unroll
        for (int column = 0; column < columns; ++column)
            *reinterpret_cast<Floats *>(staged + column * stride + at) = values[column];
    });
}

// The same times the weights of an RMSNorm (Zhang and Sennrich, 2019); `squares` is given the sum of each
// column. The division by the root of their mean comes after the products, so nothing has to wait for it.
template <int columns, class Block>
GGTTS_ANYWHERE void stage_weighted(const Block &block, const float *source, int width, const float *weight,
                                   float *staged, float *squares) {
    block.each_task(columns, [&](const auto &warp, int column) {
        const float *from = source + static_cast<int64_t>(column) * width;
        float *to = staged + column * padded(width);
        const float sum = warp.sum([&](int lane) {
            float squared = 0;
#pragma unroll 4
            for (int at = lane * 4; at < padded(width); at += lanes * 4) {
                Floats values = {};
                if (at < width) {
                    values = fresh_floats(from + at);
                    const Floats weights = *reinterpret_cast<const Floats *>(weight + at);
                    for (int i = 0; i < 4; ++i) {
                        squared = fmaf(values.at[i], values.at[i], squared);
                        values.at[i] *= weights.at[i];
                    }
                }
                *reinterpret_cast<Floats *>(to + at) = values;
            }
            return squared;
        });
        warp.each(1, [&](int) { squares[column] = sum; });
    });
}

GGTTS_ANYWHERE float norm_scale(float squares, int width, float epsilon) {
    return 1.0F / sqrtf(squares / static_cast<float>(width) + epsilon);
}

// Adds the products of one chunk of a group of rows: sums[row of the group][column].
template <class Type, int columns>
GGTTS_ANYWHERE void accumulate(const uint8_t *chunks, const float *staged, int stride, int lane,
                               float (&sums)[rows_together * columns]) {
    typename Type::Fragment fragments[rows_together];
#pragma unroll
    for (int row = 0; row < rows_together; ++row)
        fragments[row] = Type::load(chunks + row * Type::chunk_bytes, lane);
#pragma unroll
    for (int run = 0; run < runs; ++run) {
        float weights[rows_together][run_length];
#pragma unroll
        for (int row = 0; row < rows_together; ++row)
            Type::decode(fragments[row], run, weights[row]);
        const float *at = staged + run * lanes * run_length + lane * run_length;
#pragma unroll
        for (int column = 0; column < columns; ++column) {
            const Floats x = *reinterpret_cast<const Floats *>(at + column * stride);
#pragma unroll
            for (int row = 0; row < rows_together; ++row) {
                float &sum = sums[row * columns + column];
#pragma unroll
                for (int i = 0; i < run_length; ++i)
                    sum = fmaf(weights[row][i], x.at[i], sum);
            }
        }
    }
}

// Products of a block's rows, in shared memory as the sums of their chunks.
template <int columns>
struct Products {
    Share share;
    int chunks;
    const float *partial;  // [group][chunk][row of the group][column]

    GGTTS_ANYWHERE int count() const { return share.count * rows_together * columns; }
    // Of the products in order: which row of the matrix.
    GGTTS_ANYWHERE int row(int index) const { return share.first * rows_together + index / columns; }
    GGTTS_ANYWHERE float at(int index) const {
        constexpr int size = rows_together * columns;
        const float *first = partial + index / size * chunks * size + index % size;
        float sum = first[0];
        for (int chunk = 1; chunk < chunks; ++chunk)
            sum += first[chunk * size];
        return sum;
    }
};

// Multiplies a block's share of the rows with what is staged. A task of a warp is one chunk of one group, so
// there is work for all warps where a block has few rows.
template <class Type, int columns, class Block>
GGTTS_ANYWHERE Products<columns> multiply(const Block &block, const Matrix &matrix, const float *staged,
                                          float *partial) {
    constexpr int size = rows_together * columns;
    const Share share = share_of(matrix, block.index(), block.blocks());
    const int stride = matrix.chunks * chunk_width;
    const uint8_t *first =
        matrix.data + static_cast<int64_t>(share.first) * matrix.chunks * rows_together * Type::chunk_bytes;
    block.each_task(share.count * matrix.chunks, [&](const auto &warp, int task) {
        const uint8_t *chunks = first + static_cast<int64_t>(task) * rows_together * Type::chunk_bytes;
        const float *inputs = staged + task % matrix.chunks * chunk_width;
        warp.template sums<size>(
            [&](int lane, float (&sums)[size]) {
                accumulate<Type, columns>(chunks, inputs, stride, lane, sums);
            },
            [&](int index, float sum) { partial[task * size + index] = sum; });
    });
    return {share, matrix.chunks, partial};
}

// Room for the results of `multiply`, in floats.
constexpr int64_t partial_size(int rows, int width, int columns, int blocks) {
    const int64_t groups = (rows + rows_together - 1) / rows_together;
    return (groups / blocks + 1) * rows_together * columns * whole_chunks(width);
}

}  // namespace ggtts::predictor
