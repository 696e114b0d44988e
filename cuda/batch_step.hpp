// One step of the talker for several utterances: a new position of each through all layers, to the logits of
// the first code of its next frame.
//
// The network is that of talker_step.hpp. Phases are divided by barriers of the grid, as in tensor_frame.hpp:
// with many columns the values that blocks send each other are too many for letters.
#pragma once

#include "batch_products.hpp"
#include "half_keys.hpp"
#include "single_keys.hpp"
#include "tensor_results.hpp"

namespace ggtts::talker::batch {

using predictor::blocks_of_warp;
using predictor::first_of_lane;
using predictor::lanes_of_block;
using predictor::Residual;

enum PhaseOfLayer { project_inputs, attend_to_keys, add_attended, gate, add_fed, phases_of_layer };

// The first phase takes the inputs, the last one makes the logits.
constexpr int phase_count(const Sizes &sizes) {
    return 1 + sizes.layers * phases_of_layer + 1;
}

// Of a warp that attends, in floats.
constexpr GGTTS_EVERYWHERE int room_of_tiles() {
    return tiles_of_warp * tile_bytes / static_cast<int>(sizeof(float));
}
constexpr GGTTS_EVERYWHERE int room_of_attention(int head_dim) {
    return room_of_tiles() + HalfKeys<int, int>::room(head_dim);
}

template <class Type, class Grid>
class TalkerBatchStep {
public:
    // `room` says where things lie in the shared memory of a block.
    GGTTS_ANYWHERE TalkerBatchStep(Grid &grid, const Model &model, const BatchStep &step,
                                   const BatchTables &tables, const BatchRoom &room)
        : grid_(grid), model_(model), step_(step), tables_(tables), room_(room), sizes_(model.sizes) {}

    GGTTS_ANYWHERE void run() {
        GGTTS_SHORT_LOOP
        for (int phase = 0; phase < phase_count(sizes_); ++phase)
            grid_.phase([&](const auto &block, auto &ring) GGTTS_INLINE { compute(block, ring, phase); });
    }

private:
    template <class Block, class Ring>
    GGTTS_ANYWHERE void compute(const Block &block, Ring &ring, int phase) const {
        if (phase == 0)
            return enter(block);
        const int layer = (phase - 1) / phases_of_layer, of_layer = (phase - 1) % phases_of_layer;
        const bool ends = layer == sizes_.layers;
        if (!ends && of_layer == attend_to_keys)
            return attend(block, layer);
        // All products are made in one place: code that fits the cache is faster than calls of its own.
        multiply(block, ring, layer * matrices_of_layer + of_layer - (of_layer > attend_to_keys ? 1 : 0));
        if (ends)
            leave(block);
    }

    template <class Block>
    GGTTS_ANYWHERE float *scales_room(const Block &block) const {
        return block.shared() + room_.scales;
    }
    template <class Block>
    GGTTS_ANYWHERE float *sums_room(const Block &block) const {
        return block.shared() + room_.sums;
    }

    GGTTS_ANYWHERE Residual<PairedActivations> residual() const {
        return {step_.x, step_.squares, step_.normed, sizes_.width, most_columns};
    }

    // The inputs become the residual stream.
    template <class Block>
    GGTTS_ANYWHERE void enter(const Block &block) const {
        const int blocks = sizes_.width / block_width,
                  of_column = (blocks + blocks_of_warp - 1) / blocks_of_warp;
        const int tasks = step_.columns * of_column, own = (tasks + block.blocks() - 1) / block.blocks();
        block.each_task(own, [&](const auto &warp, int index) {
            const int task = block.index() + index * block.blocks(), column = task / of_column;
            predictor::Lanes<std::decay_t<decltype(warp)>, FourValues> all(warp);
            const auto place = [&](int lane) {
                const int at = task % of_column * blocks_of_warp + lane / lanes_of_block;
                return BlockPlace{at, column, column < step_.columns && at < blocks};
            };
            all.each([&](int lane, FourValues &own) {
                const int at = column * sizes_.width + place(lane).block * block_width + first_of_lane(lane);
                own.values = place(lane).exists ? predictor::fresh_floats(step_.rows + at) : Floats{};
            });
            publish(all, residual(), tables_.norms[0].attention, place);
        });
    }

    // What goes into a product, and what becomes of it.
    GGTTS_ANYWHERE const PairedActivations &activations_of(int kind) const {
        return kind == output_matrix ? step_.attended : kind == down_matrix ? step_.gated : step_.normed;
    }
    static GGTTS_ANYWHERE bool follows_norm(int kind) { return kind != output_matrix && kind != down_matrix; }

    // Of the norm that follows what a matrix adds to the residual stream.
    GGTTS_ANYWHERE const float *next_norm(int matrix) const {
        const int layer = matrix / matrices_of_layer;
        if (matrix % matrices_of_layer == output_matrix)
            return tables_.norms[layer].feed_forward;
        return layer + 1 < sizes_.layers ? tables_.norms[layer + 1].attention : model_.output_norm;
    }

    // Multiplies all pieces of this block.
    template <class Block, class Ring>
    GGTTS_ANYWHERE void multiply(const Block &block, Ring &ring, int matrix) const {
        const int kind = kind_of(model_, matrix), columns = step_.columns;
        const Tiling &tiling = tables_.tilings[kind];
        const Factors factors{activations_of(kind), columns, tables_.lifts[matrix]};
        AllWarps<Block, UnitLane> warps(batch_warps);
        float *sums = sums_room(block);
        GGTTS_SHORT_LOOP
        for (int number = block.index(); number < tiling.pieces(); number += block.blocks()) {
            Piece piece(tiling, number);
            const bool finds = follows_norm(kind) && number == block.index();
            const bool others_follow = number + block.blocks() < tiling.pieces();
            piece.units = multiply_piece<Type>(block, ring, warps, tiling, piece, others_follow,
                                               room_.stage_units, factors, sums, [&](const auto &warp) {
                                                   if (finds)
                                                       keep_scales(warp, scales_room(block));
                                               });
            if (predictor::complete(block, tiling, piece, columns, sums, step_.meeting)) {
                block.each_task(columns / blocks_of_warp, [&](const auto &warp, int task) {
                    finish(warp, matrix, task * blocks_of_warp, piece.tile, sums, scales_room(block));
                });
            }
        }
    }

    // The factors of the RMSNorm of all columns, of which each warp has some. Four lanes add up a column's
    // squares.
    template <class Warp>
    GGTTS_ANYWHERE void keep_scales(const Warp &warp, float *scales) const {
        constexpr int lanes_of_column = 4, columns_of_warp = lanes / lanes_of_column;
        const int blocks = sizes_.width / block_width;
        GGTTS_SHORT_LOOP
        for (int first = warp.index() * columns_of_warp; first < step_.columns;
             first += batch_warps * columns_of_warp) {
            predictor::Lanes<Warp, FourValues> all(warp);
            const auto column = [&](int lane) { return first + lane / lanes_of_column; };
            all.each([&](int lane, FourValues &own) {
                own.squares = 0.0F;
#pragma unroll 8
                for (int i = lane % lanes_of_column; i < blocks; i += lanes_of_column)
                    own.squares += predictor::fresh(step_.squares + column(lane) * blocks + i);
            });
            combine_fours(
                all, [](const FourValues &own) { return own.squares; },
                [](float a, float b) { return a + b; },
                [](FourValues &own, float squares) { own.squares = squares; });
            all.each([&](int lane, const FourValues &own) {
                if (lane % lanes_of_column == 0)
                    scales[column(lane)] = predictor::norm_scale(own.squares, sizes_.width, sizes_.norm_eps);
            });
        }
    }

    // What becomes of the sums of a tile and of as many columns as a warp has blocks.
    template <class Warp>
    GGTTS_ANYWHERE void finish(const Warp &warp, int matrix, int first_column, int tile, const float *sums,
                               const float *scales) const {
        const int kind = kind_of(model_, matrix),
                  stride = predictor::sums_stride(tables_.tilings[kind].rows());
        predictor::Lanes<Warp, FourValues> all(warp);
        const auto place = [&](int lane) {
            return BlockPlace{tile, first_column + lane / lanes_of_block, true};
        };
        const auto sums_of = [&](int lane, int first) {
            return *reinterpret_cast<const Floats *>(sums + place(lane).column * stride + first);
        };
        if (kind == gate_up_matrix) {
            all.each([&](int lane, FourValues &own) {
                own.values =
                    predictor::gated(sums_of(lane, 2 * first_of_lane(lane)),
                                     sums_of(lane, 2 * first_of_lane(lane) + 4), scales[place(lane).column]);
            });
            return split_blocks(all, step_.gated, most_columns, place);
        }
        if (!follows_norm(kind)) {
            all.each([&](int lane, FourValues &own) {
                const int row = tile * block_width + first_of_lane(lane);
                own.values = predictor::fresh_floats(step_.x + place(lane).column * sizes_.width + row);
                const Floats more = sums_of(lane, first_of_lane(lane));
                for (int i = 0; i < 4; ++i)
                    own.values.at[i] += more.at[i];
            });
            return publish(all, residual(), next_norm(matrix), place);
        }
        float *result = kind == inputs_matrix ? step_.inputs : step_.logits;
        const int rows = tables_.matrices[matrix].rows;
        all.each([&](int lane, const FourValues &) {
            const Floats values = sums_of(lane, first_of_lane(lane));
            const int row = (tile << predictor::tile_bits) + first_of_lane(lane);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (row + i < rows)
                    result[place(lane).column * rows + row + i] = values.at[i] * scales[place(lane).column];
            }
        });
    }

    // The normed last state, one column for each of the last blocks: the first ones make logits.
    template <class Block>
    GGTTS_ANYWHERE void leave(const Block &block) const {
        float *scales = scales_room(block);
        block.each_task(batch_warps, [&](const auto &warp, int) { keep_scales(warp, scales); });
        for (int column = block.blocks() - 1 - block.index(); column < step_.columns;
             column += block.blocks()) {
            const int first = column * sizes_.width;
            block.each(sizes_.width, [&](int i) {
                step_.hidden[first + i] =
                    predictor::fresh(step_.x + first + i) * model_.output_norm[i] * scales[column];
            });
        }
    }

    GGTTS_ANYWHERE Cache cache_of(int layer, const ChunkTask &task) const {
        const int64_t bytes = static_cast<int64_t>(task.kv_head) * step_.capacity * sizes_.head_dim *
                                  (step_.half_cache != 0 ? 2 : 4) +
                              tables_.each[task.column].cache;
        return {tables_.caches[layer].keys + bytes, tables_.caches[layer].values + bytes};
    }

    // Some warps of a block attend, as many as there is room for.
    template <class Block>
    GGTTS_ANYWHERE void attend(const Block &block, int layer) const {
        block.each_task(room_.attending, [&](const auto &warp, int index) {
            using Warp = std::decay_t<decltype(warp)>;
            const OwnTasks tasks(step_.tasks, block.index() * room_.attending + index,
                                 block.blocks() * room_.attending);
            const auto task_at = [&](int number) { return ChunkTask(step_, tables_.each, number); };
            float *room = sums_room(block) + index * room_of_attention(sizes_.head_dim);
            if (step_.half_cache != 0) {
                predictor::Lanes<Warp, HalfLane> all(warp);
                KeyTiles tiles(all, tasks, sizes_.head_dim, reinterpret_cast<uint8_t *>(room), task_at,
                               [&](const ChunkTask &task) { return cache_of(layer, task); });
                HalfKeys<decltype(all), decltype(tiles)> attention(all, tiles, sizes_.head_dim,
                                                                   room + room_of_tiles());
                attend_to_all(warp, all, attention, layer, tasks, task_at);
            } else {
                predictor::Lanes<Warp, SingleLane> all(warp);
                SingleKeys<decltype(all)> attention(all, sizes_.head_dim, room);
                attend_to_all(warp, all, attention, layer, tasks, task_at);
            }
        });
    }

    template <class Warp, class AllLanes, class Attention, class TaskAt>
    GGTTS_ANYWHERE void attend_to_all(const Warp &warp, AllLanes &all, Attention &attention, int layer,
                                      const OwnTasks &tasks, TaskAt task_at) const {
        const int size = sizes_.head_dim, rows = (sizes_.heads + 2 * sizes_.kv_heads) * size;
        int prepared = -1;
        GGTTS_SHORT_LOOP
        for (int number = tasks.first; number < tasks.last; ++number) {
            const ChunkTask task = task_at(number);
            const Cache cache = cache_of(layer, task);
            if (task.first_of_span != prepared) {
                prepared = task.first_of_span;
                const ChunkWeights with{tables_.norms[layer],
                                        step_.rotation + static_cast<int64_t>(task.position) * size,
                                        cache,
                                        step_.inputs + task.column * rows,
                                        sizes_.heads,
                                        sizes_.kv_heads,
                                        sizes_.norm_eps};
                attention.prepare(task, with, task.first_of_span + task.chunks <= tasks.last);
            }
            attention.attend(task, cache);
            leave(warp, all, attention, task, number);
        }
    }

    template <class Warp, class AllLanes, class Attention>
    GGTTS_ANYWHERE void leave(const Warp &warp, AllLanes &all, Attention &attention, const ChunkTask &task,
                              int number) const {
#pragma unroll
        for (int head = 0; head < queries_of_task; ++head) {
            attention.take(head);
            if (task.chunks == 1)
                leave_head(all, task, head);
            else
                leave_mean(all, static_cast<int64_t>(number) * queries_of_task + head, head);
        }
        uint32_t *met = step_.met + task.column * sizes_.kv_heads * step_.groups + task.span;
        if (task.chunks > 1 && comes_last(warp, met, task.chunks))
            unite(all, task, attention.scratch());
    }

    // What a chunk of a head attends to, and the logarithm of its weights' sum.
    template <class AllLanes>
    GGTTS_ANYWHERE void leave_mean(AllLanes &all, int64_t at, int head) const {
        all.each([&](int lane, const auto &own) {
            if (4 * lane < sizes_.head_dim)
                *reinterpret_cast<Floats *>(step_.means + at * sizes_.head_dim + 4 * lane) = own.values;
            if (lane == 0)
                step_.logs[at] = own.tops[head] + logf(own.totals[head]);
        });
    }

    // What the chunks of two heads attend to, put together. All is asked for before anything is waited for.
    template <class AllLanes>
    GGTTS_ANYWHERE void unite(AllLanes &all, const ChunkTask &task, float *room) const {
        const int64_t first = static_cast<int64_t>(task.first_of_span) * queries_of_task;
        all.each([&](int lane, auto &own) {
#pragma unroll
            for (int head = 0; head < queries_of_task; ++head) {
                const float *log = step_.logs + first + lane * queries_of_task + head;
                own.tops[head] = lane < task.chunks ? predictor::fresh(log) : float_of_bits(0xFF800000U);
            }
        });
#pragma unroll
        for (int head = 0; head < queries_of_task; ++head) {
            const float top = all.highest([&](int, const auto &own) { return own.tops[head]; });
            all.each([&](int lane, auto &own) {
                own.score = expf(own.tops[head] - top);
                room[head * lanes + lane] = own.score;
            });
            const float total = all.sum([](int, const auto &own) { return own.score; });
            all.each([&](int, auto &own) { own.totals[head] = total; });
        }
        all.meet();
        all.each([&](int lane, auto &own) { add_means(lane, own, task, first, room); });
#pragma unroll
        for (int head = 0; head < queries_of_task; ++head) {
            all.each([&](int, auto &own) {
                for (int i = 0; i < 4; ++i)
                    own.values.at[i] = own.heads[head].at[i] / own.totals[head];
            });
            leave_head(all, task, head);
        }
    }

    // Leaves the sums of what all chunks attend to, by their weights, in the place of the queries.
    template <class Own>
    GGTTS_ANYWHERE void add_means(int lane, Own &own, const ChunkTask &task, int64_t first,
                                  const float *weights) const {
        const int size = sizes_.head_dim;
        for (int head = 0; head < queries_of_task; ++head)
            own.heads[head] = {};
        if (4 * lane >= size)
            return;
        const float *means = step_.means + first * size + 4 * lane;
#pragma unroll 8
        for (int chunk = 0; chunk < task.chunks; ++chunk) {
#pragma unroll
            for (int head = 0; head < queries_of_task; ++head) {
                const Floats mean = predictor::fresh_floats(means + (chunk * queries_of_task + head) * size);
                for (int i = 0; i < 4; ++i)
                    own.heads[head].at[i] =
                        fmaf(weights[head * lanes + chunk], mean.at[i], own.heads[head].at[i]);
            }
        }
    }

    // What a head attends to, of which each lane has four values.
    template <class AllLanes>
    GGTTS_ANYWHERE void leave_head(AllLanes &all, const ChunkTask &task, int head) const {
        const int blocks = sizes_.head_dim / block_width;
        split_blocks(all, step_.attended, most_columns, [&](int lane) {
            const int block = lane / lanes_of_block;
            return BlockPlace{(task.first_head + head) * blocks + block, task.column,
                              block < blocks && head < task.heads};
        });
    }

    Grid &grid_;
    const Model &model_;
    const BatchStep &step_;
    const BatchTables &tables_;
    const BatchRoom &room_;
    const Sizes &sizes_;
};

}  // namespace ggtts::talker::batch
