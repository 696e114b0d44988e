// One step of the talker: a new position through all layers, to the logits of the first code of a frame.
//
// The network is Qwen3's decoder (Qwen3 technical report, section 2). Every block goes through the same
// sections, does its share of each, and waits for nothing but the values that it reads.
#pragma once

#include "talker_attention.hpp"
#include "talker_products.hpp"

namespace ggtts::talker {

// What a block keeps in shared memory, in floats.
struct Room {
    int residual, squares, partial, work, attention, end;  // where each begins

    constexpr GGTTS_EVERYWHERE Room(const Sizes &sizes, int blocks, int warps)
        : residual(0), squares(0), partial(0), work(0), attention(0), end(0) {
        const int attended = sizes.heads * sizes.head_dim;
        const int inputs = attended + 2 * sizes.kv_heads * sizes.head_dim;
        const int widest = most(most(sizes.width, sizes.ffn_width), attended);
        squares = residual + most_rows(sizes.width, 1, blocks);
        partial = squares + 2 * warps + 2;
        // The narrowest pieces are those of float32.
        const int pieces = (widest + Singles::piece_width - 1) / Singles::piece_width;
        const int rows = most(most(inputs, 2 * sizes.ffn_width), most(sizes.vocabulary, sizes.width));
        work = (partial + most_rows(rows, most_rows_together, blocks) * pieces + 3) / 4 * 4;
        attention = (work + room_for(widest) + 3) / 4 * 4;
        end = attention + (static_cast<int>(attention_room(sizes.head_dim, roomy_chunk, warps)) + 3) / 4 * 4;
    }

    // Keys of a block, at most.
    static constexpr int roomy_chunk = 2048;

private:
    static constexpr GGTTS_EVERYWHERE int most(int a, int b) { return a > b ? a : b; }
};

// The last one comes once, after all layers.
enum SectionOfLayer {
    project_inputs,
    attend,
    unite,
    add_attended,
    gate,
    add_fed,
    sections_of_layer,
    predict
};

inline int section_count(const Sizes &sizes) {
    return sizes.layers * sections_of_layer + 1;
}

// Beside what blocks and warps have in the code predictor's kernel, `Block` has `spread`, which is `each`
// without waiting for the last thread, and its warps have `bring` (see `stage`).
template <class Type, class Block, class Streams>
class TalkerStep {
public:
    // `streams` has the weights of each warp, `tasks` those of the first one, by kind.
    GGTTS_ANYWHERE TalkerStep(const Block &block, int warps, Streams &streams, const Tasks *tasks,
                              const Model &model, const Step &step)
        : block_(block),
          warps_(warps),
          streams_(streams),
          tasks_(tasks),
          model_(model),
          step_(step),
          sizes_(model.sizes),
          room_(model.sizes, block.blocks(), warps),
          residual_(block.shared() + room_.residual),
          squares_(block.shared() + room_.squares),
          partial_(block.shared() + room_.partial),
          work_(block.shared() + room_.work),
          attention_(block.shared() + room_.attention) {}

    // Before the first section.
    GGTTS_ANYWHERE void begin() {
        const Tasks &tasks = tasks_[output_matrix];
        block_.each(tasks.groups,
                    [&](int i) { residual_[i] = receive(step_.x + tasks.first_row + i, step_.time); });
    }

    GGTTS_ANYWHERE void section(int index) {
        const int layer = index / sections_of_layer;
        const auto kind =
            layer == sizes_.layers ? predict : static_cast<SectionOfLayer>(index % sections_of_layer);
        // The time of everything in this layer but the residual stream.
        const uint32_t time = step_.time + 2 * static_cast<uint32_t>(layer);
        if (kind == project_inputs)
            ask_ahead(layer);
        if (kind == attend)
            attend_all(layer, model_.norms[layer], time);
        else if (kind == unite)
            unite_chunks(time);
        else
            multiply_in(factors_of(kind, layer, time), kind, index, time);
    }

private:
    GGTTS_ANYWHERE int spans() const { return span_count(sizes_, step_.chunks); }

    GGTTS_ANYWHERE Cache cache_of(int layer, int kv_head) const {
        const int64_t bytes = static_cast<int64_t>(kv_head) * step_.capacity * sizes_.head_dim *
                              (step_.half_cache != 0 ? 2 : 4);
        return {step_.caches[layer].keys + bytes, step_.caches[layer].values + bytes};
    }

    // What will be read outside of the streams of weights comes near.
    GGTTS_ANYWHERE void ask_ahead(int layer) const {
        if (block_.index() + 1 == block_.blocks())
            ask_for_norms(layer + 1);
        const int64_t row = static_cast<int64_t>(sizes_.head_dim) * (step_.half_cache != 0 ? 2 : 4);
        GGTTS_SHORT_LOOP
        for (int item = block_.index(); item < spans(); item += block_.blocks()) {
            const Span span(sizes_, step_, item);
            const Cache cache = cache_of(layer, span.kv_head);
            block_.prefetch(cache.keys + span.begin * row, (span.end - span.begin) * row);
            block_.prefetch(cache.values + span.begin * row, (span.end - span.begin) * row);
        }
    }

    GGTTS_ANYWHERE void ask_for_norms(int layer) const {
        const auto ask = [&](const float *weights) {
            block_.prefetch(reinterpret_cast<const uint8_t *>(weights),
                            sizes_.width * static_cast<int64_t>(sizeof(float)));
        };
        if (layer == sizes_.layers)
            return ask(model_.output_norm);
        ask(model_.norms[layer].attention);
        ask(model_.norms[layer].feed_forward);
    }

    // What is multiplied in a section: a matrix with values of some time, after an RMSNorm where one is
    // named.
    struct Factors {
        int matrix;
        const Letter *source;
        uint32_t time;
        const float *norm;
    };

    GGTTS_ANYWHERE Factors factors_of(SectionOfLayer kind, int layer, uint32_t time) const {
        const int first = layer * matrices_of_layer;
        switch (kind) {
            case project_inputs:
                return {first + inputs_matrix, step_.x, time, model_.norms[layer].attention};
            case add_attended:
                return {first + output_matrix, step_.attended, time, nullptr};
            case gate:
                return {first + gate_up_matrix, step_.x, time + 1, model_.norms[layer].feed_forward};
            case add_fed:
                return {first + down_matrix, step_.gated, time, nullptr};
            default:
                return {first, step_.x, time, model_.output_norm};
        }
    }

    // All products pass through here, so that their code is there once: the caches of instructions are small.
    GGTTS_ANYWHERE void multiply_in(const Factors &factors, SectionOfLayer kind, int index, uint32_t time) {
        const Matrix &matrix = model_.matrices[factors.matrix];
        const Tasks &tasks = tasks_[kind_of(model_, factors.matrix)];
        if (tasks.groups == 0 && (kind != predict || block_.index() != 0))
            return;
        // Nobody waits at the end of a section: some threads may still read those of the last one.
        float *squares = squares_ + index % 2 * warps_;
        stage<Type>(block_, warps_, factors.source, matrix.width, factors.time, factors.norm, work_, squares);
        float *scale = squares_ + 2 * warps_ + index % 2;
        const auto find_scale = [&](const auto &warp, int warp_index) {
            // The first warps make results of products: the last one has time.
            if (factors.norm != nullptr && warp_index + 1 == warps_) {
                const float found = norm_scale(warp, squares, warps_, sizes_.width, sizes_.norm_eps);
                warp.each(1, [&](int) { *scale = found; });
            }
        };
        if (matrix.together == 1)
            multiply<Type, 1>(block_, warps_, factors.matrix, matrix.width, streams_, work_, partial_,
                              find_scale);
        else
            multiply<Type, most_rows_together>(block_, warps_, factors.matrix, matrix.width, streams_, work_,
                                               partial_, find_scale);
        const Products products{tasks.first_row, matrix.together * tasks.groups, matrix.pieces, partial_};
        if (kind == add_attended || kind == add_fed)
            add(products, time + (kind == add_attended ? 1 : 2));
        else
            send_normed(products, *scale, kind, time);
        streams_.refill();
    }

    GGTTS_ANYWHERE void send_normed(const Products &products, float factor, SectionOfLayer kind,
                                    uint32_t time) {
        if (kind == gate)
            return feed(products, factor, time);
        const int rows =
            kind == predict ? sizes_.vocabulary : (sizes_.heads + 2 * sizes_.kv_heads) * sizes_.head_dim;
        block_.spread(products.count, [&](int i) {
            const int row = products.first_row + i;
            if (row < rows && kind == predict)
                step_.logits[row] = products.at(i) * factor;
            else if (row < rows)
                send(step_.inputs + row, products.at(i) * factor, time);
        });
        if (kind == predict && block_.index() == 0)
            block_.spread(sizes_.width, [&](int i) {
                step_.hidden[i] = receive(step_.x + i, time) * model_.output_norm[i] * factor;
            });
    }

    GGTTS_ANYWHERE void add(const Products &products, uint32_t time) {
        block_.spread(products.count, [&](int i) {
            residual_[i] += products.at(i);
            send(step_.x + products.first_row + i, residual_[i], time);
        });
    }

    // silu(gate) * up (Shazeer, "GLU variants improve Transformer", 2020).
    GGTTS_ANYWHERE void feed(const Products &products, float factor, uint32_t time) {
        block_.spread(products.count / 2, [&](int pair) {
            const float gate = factor * products.at(2 * pair), up = factor * products.at(2 * pair + 1);
            send(step_.gated + products.first_row / 2 + pair, quotient(gate, 1.0F + expf(-gate)) * up, time);
        });
    }

    GGTTS_ANYWHERE void attend_all(int layer, const Norms &norms, uint32_t time) {
        GGTTS_SHORT_LOOP
        for (int item = block_.index(); item < spans(); item += block_.blocks()) {
            const Span span(sizes_, step_, item);
            block_.each(0, [](int) {});  // the scratch may still be read
            const AttentionScratch scratch(attention_, sizes_.head_dim, step_.chunk, warps_);
            const Cache cache = cache_of(layer, span.kv_head);
            receive_span(span, scratch, cache, norms, time);
            const int room = scores_of_warp(step_.chunk, warps_);
            block_.each_task(warps_, [&](const auto &warp, int index) {
                attend_to(warp, {span, cache, step_.half_cache != 0, index, warps_, sizes_.head_dim, room},
                          scratch);
            });
            send_span(span, scratch, time);
        }
    }

    // Queries, and the new key and value where they are needed, come to shared memory.
    GGTTS_ANYWHERE void receive_span(const Span &span, const AttentionScratch &scratch, const Cache &cache,
                                     const Norms &norms, uint32_t time) {
        const int size = sizes_.head_dim;
        const int64_t place = static_cast<int64_t>(step_.position) * size;
        const Letter *key = step_.inputs + (sizes_.heads + span.kv_head) * size;
        const bool half = step_.half_cache != 0;
        constexpr int value_tasks = 2;
        block_.each_task(span.heads + (span.newest ? 1 + value_tasks : 0), [&](const auto &warp, int task) {
            if (task < span.heads) {
                norm_and_rotate(warp, step_.inputs + (span.first_head + task) * size, time, norms.query,
                                step_.rotation, size, sizes_.norm_eps, scratch.queries + task * size);
            } else if (task == span.heads) {
                norm_and_rotate(warp, key, time, norms.key, step_.rotation, size, sizes_.norm_eps,
                                scratch.key);
                warp.each(size, [&](int i) {
                    scratch.key[i] = kept(span, cache.keys, place + i, half, scratch.key[i]);
                });
            } else {
                const int first = (task - span.heads - 1) * (size / value_tasks);
                warp.each(size / value_tasks / 2, [&](int pair) {
                    const int at = first + 2 * pair;
                    const Letter *from = key + sizes_.kv_heads * size + at;
                    const TwoLetters letters = receive_two(from, look_at_two(from), time);
                    for (int k = 0; k < 2; ++k)
                        scratch.value[at + k] =
                            kept(span, cache.values, place + at + k, half, letters.at[k].value);
                });
            }
        });
    }

    // A value of the new position as the cache keeps it.
    GGTTS_ANYWHERE static float kept(const Span &span, uint8_t *cache, int64_t index, bool half,
                                     float value) {
        if (span.adds)
            return keep(cache, index, half, value);
        return half ? float_of_half(half_of_float(value)) : value;
    }

    GGTTS_ANYWHERE void send_span(const Span &span, const AttentionScratch &scratch, uint32_t time) {
        const int size = sizes_.head_dim, all = sizes_.heads * size;
        Letter *result = step_.chunks == 1 ? step_.attended : step_.parts + span.chunk * all;
        block_.spread(span.heads * size, [&](int i) {
            const int head = i / size;
            const int warps = span.groups() < warps_ ? span.groups() : warps_;  // that have keys
            const Mean mean = mean_of(
                warps, [&](int warp) { return scratch.tops[warp * queries_together + head]; },
                [&](int warp) { return scratch.totals[warp * queries_together + head]; },
                [&](int warp) { return scratch.mixed[warp * queries_together * size + i]; });
            send(result + span.first_head * size + i, mean.value, time);
            if (step_.chunks > 1 && i % size == 0)
                send(step_.logs + span.chunk * sizes_.heads + span.first_head + head, mean.log, time);
        });
    }

    // What the chunks of all heads attend to, put together.
    GGTTS_ANYWHERE void unite_chunks(uint32_t time) {
        if (step_.chunks == 1)
            return;
        const int all = sizes_.heads * sizes_.head_dim, blocks = block_.blocks(), chunks = step_.chunks;
        const int first = all * block_.index() / blocks, count = all * (block_.index() + 1) / blocks - first;
        float *values = work_, *logs = work_ + count * chunks;
        block_.each(count * chunks, [&](int i) {
            const int value = first + i % count, chunk = i / count;
            logs[i] = receive(step_.logs + chunk * sizes_.heads + value / sizes_.head_dim, time);
            values[i] = receive(step_.parts + chunk * all + value, time);
        });
        block_.each(count, [&](int i) {
            const Mean mean = mean_of(
                chunks, [&](int chunk) { return logs[chunk * count + i]; }, [](int) { return 1.0F; },
                [&](int chunk) { return values[chunk * count + i]; });
            send(step_.attended + first + i, mean.value, time);
        });
    }

    const Block &block_;
    int warps_;
    Streams &streams_;
    const Tasks *tasks_;
    const Model &model_;
    const Step &step_;
    const Sizes &sizes_;
    Room room_;
    float *residual_, *squares_, *partial_, *work_, *attention_;
};

}  // namespace ggtts::talker
