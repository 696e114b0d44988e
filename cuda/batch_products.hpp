// Matrix products of a step of several utterances on matrix units.
//
// A warp multiplies 32 rows of one unit of the width with all columns, or with some of them where a stage has
// fewer units than a block has warps. It keeps the rows in registers, so that weights are decoded once, and
// reads the activations of eight columns after the other. All sums are made in an order that depends on the
// shape of the matrix only, not on columns or blocks.
#pragma once

#include "batch_operands.hpp"
#include "batch_ring.hpp"

namespace ggtts::talker::batch {

using predictor::halves_of_block;
using predictor::lanes;
using predictor::steps_of_block;

inline constexpr int rows_of_task = 1 << bits_of_task;
// An instruction takes 16 rows and 8 columns.
inline constexpr int rows_at_once = 16;
inline constexpr int columns_at_once = 8;
inline constexpr int groups_of_task = rows_of_task / rows_at_once;
// Of a lane in an instruction: a row, and the one that is eight further on.
inline constexpr int rows_of_lane = 2;

struct alignas(8) TwoFloats {
    float at[2];
};

GGTTS_ANYWHERE TwoFloats fresh_pair(const float *source) {
#ifdef __CUDACC__
    const float2 loaded = __ldcg(reinterpret_cast<const float2 *>(source));
    return {{loaded.x, loaded.y}};
#else
    return {{source[0], source[1]}};
#endif
}

// Activations of eight columns in a unit: both parts of each number, and the factors of two columns, which
// are those of the sums that a lane has.
struct ColumnsOfLane {
    Words halves[blocks_of_unit][steps_of_block];  // first parts, then the second ones
    TwoFloats factors[blocks_of_unit];
};

struct UnitLane {
    uint32_t weights[groups_of_task][blocks_of_unit][steps_of_block][4];
    float scales[groups_of_task][rows_of_lane][blocks_of_unit];
    ColumnsOfLane columns[2];  // one is multiplied while the other comes
    float products[groups_of_task][4], sums[groups_of_task][4];
};

// What goes into a product.
struct Factors {
    PairedActivations x;
    int columns;
    float lift;  // of the weights
};

// The least power of two that is as many, as its exponent.
constexpr GGTTS_EVERYWHERE int bits_of_count(int count) {
    static_assert(batch_warps == 8);
    return count > 4 ? 3 : count > 2 ? 2 : count > 1 ? 1 : 0;
}

// What a warp multiplies in a stage; nothing where there are no columns.
struct UnitTask {
    int unit;   // of the width
    int place;  // of that unit in the stage
    int group;  // of 32 rows
    int column, last_column;

    GGTTS_ANYWHERE bool exists() const { return column < last_column; }
    GGTTS_ANYWHERE UnitTask(const Stage &stage, int bits, int warp, int columns) {
        // Powers of two all of them: a division would take longer than an instruction of matrix units.
        const int group_bits = bits - bits_of_task, unit_bits = bits_of_count(stage.units);
        const int spread_bits =
            bits_of_count(batch_warps) - group_bits - unit_bits;  // warps that share a unit
        const int of_group = warp >> group_bits;
        group = warp & ((1 << group_bits) - 1);
        place = of_group & ((1 << unit_bits) - 1);
        unit = stage.first_unit + place;
        const int part = of_group >> unit_bits, all = columns / columns_at_once;
        const bool works = place < stage.units;
        column = works ? (all * part >> spread_bits) * columns_at_once : 0;
        last_column = works ? (all * (part + 1) >> spread_bits) * columns_at_once : 0;
    }
};

// The activations of eight columns in a unit.
GGTTS_ANYWHERE void load_columns(int lane, ColumnsOfLane &into, int unit, int column,
                                 const Factors &factors) {
    constexpr int apart = most_columns * halves_of_block;  // between blocks
    const int first = unit * blocks_of_unit * most_columns + column, member = lane % 4;
    const uint16_t *halves = factors.x.halves + (first + lane / 4) * halves_of_block + member * 8;
    // The runs of weights in the order of `Runs`.
    const uint16_t *steps[steps_of_block] = {halves + member / 2 * (halves_of_block / 2),
                                             halves + (1 - member / 2) * (halves_of_block / 2)};
    const float *powers = factors.x.factors + first + 2 * member;
#pragma unroll
    for (int block = 0; block < blocks_of_unit; ++block) {
#pragma unroll
        for (int step = 0; step < steps_of_block; ++step)
            into.halves[block][step] = predictor::split_words(steps[step] + block * apart);
        into.factors[block] = fresh_pair(powers + block * most_columns);
    }
}

template <class Type>
GGTTS_ANYWHERE void load_weights(int lane, UnitLane &own, const UnitTask &task, const uint8_t *stage,
                                 int row_room, float lift) {
    const Runs runs(lane % 4);
    const uint8_t *first =
        stage + (task.group * rows_of_task + lane / 4) * row_room + task.place * Type::unit_bytes;
#pragma unroll
    for (int group = 0; group < groups_of_task; ++group) {
#pragma unroll
        for (int upper = 0; upper < rows_of_lane; ++upper) {
            const uint8_t *row = first + (group * rows_at_once + upper * columns_at_once) * row_room;
#pragma unroll
            for (int block = 0; block < blocks_of_unit; ++block) {
                const EightHalves halves = Type::decode(row, block, runs, lift);
#pragma unroll
                for (int step = 0; step < steps_of_block; ++step) {
                    own.weights[group][block][step][upper] = halves.pairs[2 * step];
                    own.weights[group][block][step][2 + upper] = halves.pairs[2 * step + 1];
                }
                own.scales[group][upper][block] = Type::scale(row, block, lift);
            }
        }
    }
}

// A block of 32: the second parts of the activations come first, as they are small.
template <int turn, class AllLanes>
GGTTS_ANYWHERE void multiply_block(AllLanes &all, int block) {
    all.each([&](int, UnitLane &own) {
#pragma unroll
        for (int group = 0; group < groups_of_task; ++group) {
            for (int i = 0; i < 4; ++i)
                own.products[group][i] = 0.0F;
        }
    });
#pragma unroll
    for (int part = 0; part < predictor::parts_of_number; ++part) {
#pragma unroll
        for (int step = 0; step < steps_of_block; ++step) {
#pragma unroll
            for (int group = 0; group < groups_of_task; ++group) {
                all.multiply([&](UnitLane &own) {
                    return predictor::TensorOperands{
                        own.weights[group][block][step],
                        own.columns[turn].halves[block][step].at + 2 * (1 - part), own.products[group]};
                });
            }
        }
    }
    all.each([&](int, UnitLane &own) {
#pragma unroll
        for (int group = 0; group < groups_of_task; ++group) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                own.sums[group][i] = fmaf(own.products[group][i] * own.columns[turn].factors[block].at[i % 2],
                                          own.scales[group][i / 2][block], own.sums[group][i]);
        }
    });
}

// Leaves sums of eight columns, [column][stride], or adds to what is there.
GGTTS_ANYWHERE void leave_sums(int lane, const UnitLane &own, float *sums, int stride, bool adds) {
    float *first = sums + 2 * (lane % 4) * stride + lane / 4;
#pragma unroll
    for (int group = 0; group < groups_of_task; ++group) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float *to = first + i % 2 * stride + group * rows_at_once + i / 2 * columns_at_once;
            *to = adds ? *to + own.sums[group][i] : own.sums[group][i];
        }
    }
}

template <class AllLanes>
GGTTS_ANYWHERE void load_first(AllLanes &all, const UnitTask &task, const Factors &factors) {
    if (task.exists()) {
        all.each([&](int lane, UnitLane &own) {
            load_columns(lane, own.columns[0], task.unit, task.column, factors);
        });
    }
}

// What a warp needs for its task.
struct TaskSums {
    float *sums;  // [column][stride], of its rows
    int stride;
    bool adds;
};

// Multiplies with eight columns, which have been asked for; asks for the next ones of this task.
template <int turn, class AllLanes>
GGTTS_ANYWHERE void multiply_columns(AllLanes &all, const UnitTask &task, int column, const Factors &factors,
                                     const TaskSums &to) {
    const int following = column + columns_at_once;
    all.each([&](int lane, UnitLane &own) {
        if (following < task.last_column)
            load_columns(lane, own.columns[1 - turn], task.unit, following, factors);
#pragma unroll
        for (int group = 0; group < groups_of_task; ++group) {
            for (int i = 0; i < 4; ++i)
                own.sums[group][i] = 0.0F;
        }
    });
#pragma unroll
    for (int block = 0; block < blocks_of_unit; ++block)
        multiply_block<turn>(all, block);
    all.each([&](int lane, UnitLane &own) {
        leave_sums(lane, own, to.sums + column * to.stride, to.stride, to.adds);
    });
}

// Multiplies the task of a warp, whose first columns have been asked for; then asks for the first ones of
// `next`: if they came to where others are still needed, all of them would be moved, and waited for.
template <class Type, class AllLanes>
GGTTS_ANYWHERE void multiply_task(AllLanes &all, const UnitTask &task, const UnitTask &next,
                                  const uint8_t *stage, int row_room, const Factors &factors,
                                  const TaskSums &to) {
    if (task.exists()) {
        all.each([&](int lane, UnitLane &own) {
            load_weights<Type>(lane, own, task, stage, row_room, factors.lift);
        });
#pragma unroll 1
        for (int column = task.column;; column += 2 * columns_at_once) {
            multiply_columns<0>(all, task, column, factors, to);
            if (column + columns_at_once >= task.last_column)
                break;
            multiply_columns<1>(all, task, column + columns_at_once, factors, to);
            if (column + 2 * columns_at_once >= task.last_column)
                break;
        }
    }
    load_first(all, next, factors);
}

// Multiplies a piece: sums [units of a stage][columns][stride], of which as many are filled as the result
// says. While the first activations are on their way, each warp calls meanwhile(warp).
template <class Type, class Block, class Ring, class Warps, class Meanwhile>
GGTTS_ANYWHERE int multiply_piece(const Block &block, Ring &ring, Warps &warps, const Tiling &tiling,
                                  const Piece &piece, bool others_follow, int stage_units,
                                  const Factors &factors, float *sums, Meanwhile meanwhile) {
    const int most = units_of_stage(stage_units, tiling.bits), stages = stages_of(piece, most);
    const int stride = predictor::sums_stride(tiling.rows());
    const auto task_of = [&](const auto &warp, int index) {
        UnitTask task(Stage(piece, index < stages ? index : 0, most), tiling.bits, warp.index(),
                      factors.columns);
        task.last_column = index < stages ? task.last_column : 0;
        return task;
    };
    block.each_task(batch_warps, [&](const auto &warp, int) {
        load_first(warps.of(warp), task_of(warp, 0), factors);
        meanwhile(warp);
    });
#pragma unroll 1
    for (int index = 0; index < stages; ++index) {
        const uint8_t *stage = ring.next(others_follow || ring.needs_more(index, stages));
        block.each_task(batch_warps, [&](const auto &warp, int) {
            const UnitTask task = task_of(warp, index), next = task_of(warp, index + 1);
            float *own = sums + task.place * factors.columns * stride + task.group * rows_of_task;
            multiply_task<Type>(warps.of(warp), task, next, stage, Type::room_of(most), factors,
                                {own, stride, index > 0});
        });
        ring.release();
    }
    return piece.units < most ? piece.units : most;
}

}  // namespace ggtts::talker::batch
