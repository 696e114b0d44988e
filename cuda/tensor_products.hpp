// Matrix products of many columns on matrix units.
//
// A block takes a tile of rows, or a part of their width where there are few rows: then the block that is
// done last adds up all parts. A warp multiplies one unit of the width with 16 columns and some of the rows.
// All sums are made in an order that depends on the shape of the matrix only, not on columns, blocks or
// warps.
#pragma once

#include "tensor_operands.hpp"
#include "tensor_weights.hpp"

namespace ggtts::predictor {

// An instruction takes 8 rows, and 16 columns: 8, of which it has both parts. A warp works on two times 8, so
// that it decodes weights for both.
inline constexpr int rows_of_instruction = 8;
inline constexpr int columns_of_instruction = 8;
inline constexpr int groups_together = 2;
inline constexpr int columns_together = groups_together * columns_of_instruction;
inline constexpr int steps_of_block = 2;
// Few, so that each can hold the activations of its next task, too.
inline constexpr int tensor_warps = 8;
// The width is cut into at most so many parts (of 2, the exponent), as long as there are about as many pieces
// of work as a large GPU has processors.
inline constexpr int most_part_bits = 2;
inline constexpr int most_parts = 1 << most_part_bits;
inline constexpr int wanted_pieces = 128;
// Rows of a tile, the exponent: as many as a block of activations has. Gates and what they let through take
// two rows for each.
inline constexpr int tile_bits = 5;
inline constexpr int gated_tile_bits = 6;
static_assert(1 << tile_bits == block_width);

// A matrix, cut into tiles of rows and parts of the width.
struct Tiling {
    Matrix matrix;
    int bits = tile_bits;  // of the rows of a tile
    int tiles = 0;
    int part_bits = 0;
    int whole = 0;  // of the tiles, how many are not cut into parts

    constexpr int rows() const { return 1 << bits; }
    constexpr int parts() const { return 1 << part_bits; }
    constexpr int units() const { return matrix.chunks * units_of_chunk; }
    constexpr int pieces() const { return whole + ((tiles - whole) << part_bits); }
    constexpr int most_units() const { return (units() + parts() - 1) / parts(); }
};

constexpr Tiling tiling_of(const Matrix &matrix, int bits = tile_bits) {
    Tiling tiling{matrix, bits, (matrix.rows + (1 << bits) - 1) >> bits, 0};
    while (tiling.part_bits < most_part_bits && 2 * tiling.pieces() <= wanted_pieces)
        ++tiling.part_bits;
    return tiling;
}

struct Piece {
    int part_bits;  // of its tile
    int tile, part;
    int first_unit, units;
    int first_chunk, chunks;

    GGTTS_ANYWHERE Piece(const Tiling &tiling, int index)
        : part_bits(index < tiling.whole ? 0 : tiling.part_bits),
          tile(index < tiling.whole ? index : tiling.whole + ((index - tiling.whole) >> part_bits)),
          part((index - tiling.whole) & ((1 << part_bits) - 1)),
          first_unit(tiling.units() * part >> part_bits),
          units((tiling.units() * (part + 1) >> part_bits) - first_unit),
          first_chunk(first_unit / units_of_chunk),
          chunks((first_unit + units + units_of_chunk - 1) / units_of_chunk - first_chunk) {}
};

// Bytes of shared memory for the weights of a piece, which may begin and end within a chunk.
template <class Type>
constexpr int64_t piece_bytes(const Tiling &tiling) {
    const int chunks = tiling.part_bits == 0
                           ? tiling.matrix.chunks
                           : (tiling.most_units() + 2 * units_of_chunk - 2) / units_of_chunk;
    return static_cast<int64_t>(tiling.rows()) * chunks * TensorWeights<Type>::row_bytes;
}

// Between columns of sums: eight banks further on for each column, so that the lanes of a fragment write side
// by side.
constexpr int sums_stride(int rows) {
    return rows + 8;
}
constexpr int64_t sums_size(int units, int columns, int rows) {
    return static_cast<int64_t>(units) * columns * sums_stride(rows);
}

// Begins to copy the weights of a piece: groups of rows, chunks, rows of the group.
template <class Type, class Block>
GGTTS_ANYWHERE void begin_weights(const Block &block, const Tiling &tiling, int index, uint8_t *room) {
    constexpr int words_of_row = Type::chunk_bytes / 16, row_bytes = TensorWeights<Type>::row_bytes;
    const Piece piece(tiling, index);
    const int first_group = (piece.tile << tiling.bits) / rows_together;
    const int left = (tiling.matrix.rows + rows_together - 1) / rows_together - first_group;
    int groups = tiling.rows() / rows_together < left ? tiling.rows() / rows_together : left;
    int rows_of_run = piece.chunks * rows_together;
    const int64_t bytes_of_group =
        static_cast<int64_t>(tiling.matrix.chunks) * rows_together * Type::chunk_bytes;
    const uint8_t *source = tiling.matrix.data + first_group * bytes_of_group +
                            static_cast<int64_t>(piece.first_chunk) * rows_together * Type::chunk_bytes;
    if (tiling.part_bits == 0) {  // all groups are one run
        rows_of_run *= groups;
        groups = 1;
    }
    begin_copies(block, groups, rows_of_run * words_of_row, [&](int run, int word) {
        const int row = run * rows_of_run + word / words_of_row;
        return Copy{room + row * row_bytes + word % words_of_row * 16,
                    source + run * bytes_of_group + word * 16};
    });
}

// What a warp has to do: a unit of the width, some columns, some rows.
struct WarpTask {
    const uint8_t *weights;  // of the piece, in shared memory
    int chunks;              // that it has
    int chunk, unit;         // within it; the unit within the whole width
    int column, first_row, last_row;
    float lift;
    float *sums;  // [column][stride]
    int stride;
};

// Activations of a task.
struct TaskColumns {
    Words halves[groups_together][blocks_of_unit][steps_of_block];
    float factors[groups_together][blocks_of_unit];
};

template <class Type>
struct TaskLane {
    TaskColumns columns, following;
    const uint8_t *row;     // of the weights that it reads
    const uint8_t *scales;  // the first of the two rows that it adds up
    float *target;
    typename TensorWeights<Type>::Fragment fragment;
    typename TensorWeights<Type>::Scales scale[2];
    EightHalves weights;
    float products[groups_together][4], sums[groups_together][2];
};

// The activations of a unit: those of columns beyond the last are zero.
GGTTS_ANYWHERE void load_columns(int lane, TaskColumns &into, int unit, int first_column, int columns,
                                 const SplitActivations &x) {
    const int first_block = block_of_unit(unit, 0);
#pragma unroll
    for (int group = 0; group < groups_together; ++group) {
        const int column = first_column + group * columns_of_instruction + lane / 4;
        const bool exists = column < columns;
        const int place = first_block * columns + column;
        const uint16_t *halves = x.halves + place * halves_of_block + lane % 4 * 8;
        const float *factors = x.factors + place;
#pragma unroll
        for (int block = 0; block < blocks_of_unit; ++block) {
#pragma unroll
            for (int step = 0; step < steps_of_block; ++step) {
                const uint16_t *source = halves + step * halves_of_block / 2;
                into.halves[group][block][step] = exists ? split_words(source) : Words{};
            }
            into.factors[group][block] = exists ? fresh(factors) : 0.0F;
            halves += units_of_chunk * columns * halves_of_block;
            factors += units_of_chunk * columns;
        }
    }
}

// Where a lane finds weights and scales of the first rows, and leaves sums.
template <class Type>
GGTTS_ANYWHERE void find_rows(int lane, TaskLane<Type> &own, const WarpTask &task) {
    const auto row = [&](int index) {
        const int group = (task.first_row + index) / rows_together;
        return task.weights + ((group * task.chunks + task.chunk) * rows_together + index % rows_together) *
                                  TensorWeights<Type>::row_bytes;
    };
    own.row = row(lane / 4);
    own.scales = row(lane % 4 * 2);
    own.target = task.sums + (task.column + lane / 4) * task.stride + task.first_row + lane % 4 * 2;
}

template <class Type>
GGTTS_ANYWHERE void load_rows(int lane, TaskLane<Type> &own, const WarpTask &task) {
    using Weights = TensorWeights<Type>;
    own.fragment = Weights::load(own.row, task.unit, lane % 4);
    own.scale[0] = Weights::load_scales(own.scales, task.unit);
    own.scale[1] = Weights::load_scales(own.scales + Weights::row_bytes, task.unit);
    const int next = rows_of_instruction * task.chunks * Weights::row_bytes;
    own.row += next;
    own.scales += next;
#pragma unroll
    for (int group = 0; group < groups_together; ++group)
        own.sums[group][0] = own.sums[group][1] = 0.0F;
}

// One block of 32: twice 16 deep; then the sum of both parts of the activations, and the scales.
template <class Type, class AllLanes>
GGTTS_ANYWHERE void multiply_block(AllLanes &all, int block, float lift) {
    all.each([&](int, TaskLane<Type> &own) {
        own.weights = TensorWeights<Type>::decode(own.fragment, block, lift);
#pragma unroll
        for (int group = 0; group < groups_together; ++group) {
            for (int i = 0; i < 4; ++i)
                own.products[group][i] = 0.0F;
        }
    });
#pragma unroll
    for (int step = 0; step < steps_of_block; ++step) {
#pragma unroll
        for (int group = 0; group < groups_together; ++group) {
            all.multiply([&](TaskLane<Type> &own) {
                return TensorOperands{own.columns.halves[group][block][step].at, own.weights.pairs + 2 * step,
                                      own.products[group]};
            });
        }
    }
    all.each([&](int, TaskLane<Type> &own) {
#pragma unroll
        for (int group = 0; group < groups_together; ++group) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float product = own.products[group][i] + own.products[group][i + 2];
                const float scale = TensorWeights<Type>::scale(own.scale[i], block, lift);
                own.sums[group][i] =
                    fmaf(product * own.columns.factors[group][block], scale, own.sums[group][i]);
            }
        }
    });
}

template <class Type>
GGTTS_ANYWHERE void leave_sums(TaskLane<Type> &own, int lane, const WarpTask &task, int columns) {
#pragma unroll
    for (int group = 0; group < groups_together; ++group) {
        const int column = group * columns_of_instruction;
        if (task.column + column + lane / 4 < columns) {
            float *to = own.target + column * task.stride;
            to[0] = own.sums[group][0];
            to[1] = own.sums[group][1];
        }
    }
    own.target += rows_of_instruction;
}

template <class Type, class AllLanes>
GGTTS_ANYWHERE void multiply_task(AllLanes &all, const WarpTask &task, int columns) {
    all.each([&](int lane, TaskLane<Type> &own) { find_rows(lane, own, task); });
#pragma unroll 1
    for (int row = task.first_row; row < task.last_row; row += rows_of_instruction) {
        all.each([&](int lane, TaskLane<Type> &own) { load_rows(lane, own, task); });
#pragma unroll
        for (int block = 0; block < blocks_of_unit; ++block)
            multiply_block<Type>(all, block, task.lift);
        all.each([&](int lane, TaskLane<Type> &own) { leave_sums(own, lane, task, columns); });
    }
}

// The tasks of a piece: units, some columns, some rows.
struct PieceTasks {
    const Tiling &tiling;
    const Piece &piece;
    int columns, groups, spread;

    GGTTS_ANYWHERE PieceTasks(const Tiling &tiling, const Piece &piece, int columns)
        : tiling(tiling),
          piece(piece),
          columns(columns),
          groups((columns + columns_together - 1) / columns_together) {
        // Few columns: rows are spread over the warps, too, each of which then reads the activations.
        spread = 0;
        while (rows_of_instruction << (spread + 1) <= tiling.rows() &&
               (piece.units * groups) << (spread + 1) <= tensor_warps)
            ++spread;
    }

    GGTTS_ANYWHERE int count() const { return (piece.units * groups) << spread; }
    GGTTS_ANYWHERE WarpTask at(int index, const uint8_t *weights, float *sums) const {
        const int other = index / piece.units, unit = index - other * piece.units;
        const int whole = piece.first_unit + unit, rows = tiling.rows() >> spread;
        const int first_row = (other & ((1 << spread) - 1)) * rows, stride = sums_stride(tiling.rows());
        return {weights,
                piece.chunks,
                whole / units_of_chunk - piece.first_chunk,
                whole,
                (other >> spread) * columns_together,
                first_row,
                first_row + rows,
                tiling.matrix.lift,
                sums + unit * columns * stride,
                stride};
    }
};

// Multiplies a piece, whose weights are in shared memory: sums [units][columns][stride]. While a warp
// multiplies, the activations of its next task are on their way.
template <class Type, class Block>
GGTTS_ANYWHERE void multiply_piece(const Block &block, const Tiling &tiling, const Piece &piece,
                                   const uint8_t *weights, const SplitActivations &x, int columns,
                                   float *sums) {
    const PieceTasks tasks(tiling, piece, columns);
    const int count = tasks.count();
    block.each_task(tensor_warps, [&](const auto &warp, int first) {
        Lanes<std::decay_t<decltype(warp)>, TaskLane<Type>> all(warp);
        WarpTask task = tasks.at(first, weights, sums);
        all.each([&](int lane, TaskLane<Type> &own) {
            load_columns(lane, own.columns, task.unit, task.column, first < count ? columns : 0, x);
        });
#pragma unroll 1
        for (int index = first; index < count; index += tensor_warps) {
            const bool more = index + tensor_warps < count;
            const WarpTask next = more ? tasks.at(index + tensor_warps, weights, sums) : task;
            if (more) {
                all.each([&](int lane, TaskLane<Type> &own) {
                    load_columns(lane, own.following, next.unit, next.column, columns, x);
                });
            }
            multiply_task<Type>(all, task, columns);
            if (more)
                all.each([&](int, TaskLane<Type> &own) { own.columns = own.following; });
            task = next;
        }
    });
}

// Adds up the units of a piece, and gives the sums of four rows and one column to take(column, row, four).
template <class Block, class Take>
GGTTS_ANYWHERE void add_units(const Block &block, int units, int columns, int bits, const float *sums,
                              Take take) {
    const int stride = sums_stride(1 << bits), size = columns * stride;
    block.each(columns << (bits - 2), [&](int index) {
        const int column = index >> (bits - 2), row = (index << 2) & ((1 << bits) - 1);
        const float *first = sums + column * stride + row;
        Floats total = *reinterpret_cast<const Floats *>(first);
#pragma unroll 4
        for (int unit = 1; unit < units; ++unit) {
            const Floats more = *reinterpret_cast<const Floats *>(first + unit * size);
            for (int i = 0; i < 4; ++i)
                total.at[i] += more.at[i];
        }
        take(column, row, total);
    });
}

// Adds up the parts of a tile: joined [part][columns][rows].
template <class Block, class Take>
GGTTS_ANYWHERE void add_parts(const Block &block, int parts, int columns, int bits, const float *joined,
                              Take take) {
    block.each(columns << (bits - 2), [&](int index) {
        const int column = index >> (bits - 2), row = (index << 2) & ((1 << bits) - 1);
        Floats values[most_parts];
#pragma unroll
        for (int part = 0; part < most_parts; ++part) {
            values[part] = {};
            if (part < parts)
                values[part] = fresh_floats(joined + (((part * columns) + column) << bits) + row);
        }
        for (int part = 1; part < most_parts; ++part) {
            for (int i = 0; i < 4; ++i)
                values[0].at[i] += values[part].at[i];
        }
        take(column, row, values[0]);
    });
}

// The sums of a piece, complete at [column][stride] of `sums`; false: another block has the last part of this
// tile.
template <class Block>
GGTTS_ANYWHERE bool complete(const Block &block, const Tiling &tiling, const Piece &piece, int columns,
                             float *sums, const Meeting &meeting) {
    const int stride = sums_stride(tiling.rows()), bits = tiling.bits;
    const int size = columns << bits;
    float *of_tile = meeting.joined + static_cast<int64_t>(piece.tile << tiling.part_bits) * size;
    add_units(block, piece.units, columns, bits, sums, [&](int column, int row, const Floats &total) {
        float *to = piece.part_bits == 0 ? sums + column * stride + row
                                         : of_tile + piece.part * size + (column << bits) + row;
        *reinterpret_cast<Floats *>(to) = total;
    });
    if (piece.part_bits == 0)
        return true;
    if (!arrives_last(block, meeting.arrived + piece.tile, tiling.parts()))
        return false;
    add_parts(block, tiling.parts(), columns, bits, of_tile, [&](int column, int row, const Floats &total) {
        *reinterpret_cast<Floats *>(sums + column * stride + row) = total;
    });
    return true;
}

}  // namespace ggtts::predictor
