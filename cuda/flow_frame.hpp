// A whole frame of the code predictor for few columns, as a list of products (`Step`). Blocks are not held
// together by barriers: each goes on as soon as it has what it needs (letters.hpp), and weights come
// ahead of time (weight_feed.hpp).
//
// The network is the one of frame.hpp. All steps pass through the same code, because a block runs through
// everything in a few microseconds: what is not in the instruction cache would have to be fetched every time.
#pragma once

#include "code_sampling.hpp"
#include "flow_attention.hpp"
#include "flow_products.hpp"

namespace ggtts::predictor {

template <class Type, int columns, class Grid>
class FlowFrame {
public:
    GGTTS_ANYWHERE FlowFrame(Grid &grid, const Model &model, const Buffers &buffers)
        : grid_(grid), model_(model), buffers_(buffers), sizes_(model.sizes), time_(buffers.time) {}

    GGTTS_ANYWHERE void run() {
        for (int step = 0; step < model_.step_count; ++step) {
            const Portion portion = grid_.portion(step);
            if (portion.enters != 0) {
                ++position_;
                enter(step);
            }
            compute(step);
            if (portion.product == Product::inputs)
                attend(portion.index);
            if (portion.product == Product::logits)
                choose();
        }
        ++position_;
        add_last_code();
    }

private:
    GGTTS_ANYWHERE int kept_stride() const {
        return sizes_.width > sizes_.talker_width ? sizes_.width : sizes_.talker_width;
    }

    // What enters at a position, into the memory that a block keeps: the talker's state, the embedding of
    // code 0, of code 1, ...
    GGTTS_ANYWHERE void enter(int step) {
        if (position_ < 2) {
            grid_.phase([&](auto &block) { take_inputs(block); });
        } else {
            grid_.phase([&](auto &block) {
                take_embeddings(block, block.portion(step).groups > 0,
                                [&](int column, int at, const float *values) {
                                    for (int i = 0; i < run_length; ++i)
                                        block.kept()[column * kept_stride() + at + i] = values[i];
                                });
            });
        }
    }

    template <class Block>
    GGTTS_ANYWHERE void take_inputs(Block &block) {
        const int width = sizes_.talker_width;
        for (int column = 0; column < columns; ++column) {
            const float *row = buffers_.inputs + (2 * column + position_) * width;
            const bool sums = column % block.blocks() == block.index();
            block.each(width, [&](int i) {
                block.kept()[column * kept_stride() + i] = row[i];
                if (sums)
                    buffers_.sums[column * width + i] = row[i];
            });
        }
    }

    // Calls take(column, at, run of values) for the embeddings of the codes that were chosen last. A block
    // that has no part in what follows does not listen: nobody would wait for it with the next codes.
    template <class Block, class Take>
    GGTTS_ANYWHERE void take_embeddings(Block &block, bool listens, Take take) {
        const int width = sizes_.talker_width, chunks = whole_chunks(width);
        const auto sums_up = [&](int column) { return column % block.blocks() == block.index(); };
        auto *codes = reinterpret_cast<int *>(block.shared());
        block.each(buffers_.columns, [&](int column) {
            const bool wanted = listens || sums_up(column);
            codes[column] =
                wanted ? static_cast<int>(receive<Forever>(buffers_.letters.codes + column, time_)) : 0;
        });
        const Matrix &table = model_.embeddings[position_ - 2];
        block.each_task(buffers_.columns * chunks, [&](const auto &warp, int task) {
            const int column = task / chunks, chunk = task % chunks;
            const bool sums = sums_up(column);
            const int code = codes[column] < 0 ? 0 : codes[column];
            const uint8_t *memory = chunk_of<Type>(table, code, chunk);
            warp.each(lanes, [&](int lane) {
                const auto fragment = Type::load(memory, lane);
#pragma unroll
                for (int run = 0; run < runs; ++run) {
                    const int at = chunk * chunk_width + (run * lanes + lane) * run_length;
                    float values[run_length];
                    Type::decode(fragment, run, values);
                    if (at >= width)
                        continue;
                    for (int i = 0; sums && i < run_length; ++i)
                        buffers_.sums[column * width + at + i] += values[i];
                    take(column, at, values);
                }
            });
        });
    }

    GGTTS_ANYWHERE void add_last_code() {
        grid_.phase([&](auto &block) { take_embeddings(block, false, [](int, int, const float *) {}); });
    }

    // Blocks share the groups of heads; others go on, and wait for the results.
    GGTTS_ANYWHERE void attend(int index) {
        grid_.phase([&](auto &block) {
            const int sharing = sizes_.heads / sizes_.kv_heads;
            const GroupScratch scratch(block.shared(), sharing, sizes_.head_dim, sizes_.codebooks);
            for (int item = block.index(); item < columns * sizes_.kv_heads; item += block.blocks()) {
                block.join();
                attend_group(block, group_of(item, index), scratch, time_);
            }
        });
        ++time_;
    }

    // What passes from one position to the next without all blocks hearing of all others has two places in
    // turn: those sent last (0), and those to be sent next (1).
    GGTTS_ANYWHERE Letter *sent_x(int which) const {
        return buffers_.letters.x + ((x_turn_ + which) & 1) * columns * sizes_.width;
    }
    GGTTS_ANYWHERE Letter *sent_qkv(int which) const {
        return buffers_.letters.qkv +
               ((qkv_turn_ + which) & 1) * columns * (sizes_.heads + 2 * sizes_.kv_heads) * sizes_.head_dim;
    }

    GGTTS_ANYWHERE HeadGroup group_of(int item, int layer) const {
        const int column = item / sizes_.kv_heads, shared = item % sizes_.kv_heads, size = sizes_.head_dim;
        const int sharing = sizes_.heads / sizes_.kv_heads;
        const Letter *qkv = sent_qkv(0) + column * (sizes_.heads + 2 * sizes_.kv_heads) * size;
        const int64_t cache = ((static_cast<int64_t>(layer) * columns + column) * sizes_.kv_heads + shared) *
                              sizes_.codebooks * size;
        return {qkv + shared * sharing * size,
                qkv + (sizes_.heads + shared) * size,
                qkv + (sizes_.heads + sizes_.kv_heads + shared) * size,
                buffers_.keys + cache,
                buffers_.values + cache,
                buffers_.letters.attended + (column * sizes_.heads + shared * sharing) * size,
                model_.layers[layer].query_norm,
                model_.layers[layer].key_norm,
                model_.rotation + position_ * size,
                sizes_.norm_eps,
                sharing,
                size,
                position_,
                sizes_.codebooks};
    }

    // Where the activations of a product come from, and what becomes of them on the way.
    struct Source {
        const Letter *letters;  // null: what the block keeps
        const float *norm;      // weights of an RMSNorm, or null
        int width;
        bool keeps;
    };

    GGTTS_ANYWHERE Source source_of(const Portion &portion) const {
        const Layer &layer = model_.layers[portion.index];
        const Letters &letters = buffers_.letters;
        switch (portion.product) {
            case Product::entry:
                return {nullptr, nullptr, sizes_.talker_width, false};
            case Product::inputs:
                return {portion.enters != 0 ? nullptr : sent_x(0), layer.attention_norm, sizes_.width, true};
            case Product::output:
                return {letters.attended, nullptr, sizes_.heads * sizes_.head_dim, false};
            case Product::gate:
                return {letters.middle, layer.feed_forward_norm, sizes_.width, true};
            case Product::down:
                return {letters.gated, nullptr, sizes_.ffn_width, false};
            default:
                return {sent_x(0), model_.output_norm, sizes_.width, true};
        }
    }

    GGTTS_ANYWHERE void compute(int step) {
        grid_.phase([&](auto &block) {
            const Portion portion = block.portion(step);
            const Source source = source_of(portion);
            const Divider chunks(portion.chunks);
            const int stride = portion.chunks * chunk_width;
            float *staged = block.shared(), *squares = staged + columns * stride;
            float *partial = squares + columns * norm_runs(stride);
            if (portion.groups > 0) {
                stage(block, source, stride, staged);
                if (source.norm != nullptr)
                    add_squares<columns>(block, block.kept(), kept_stride(), source.width, squares);
                finish(block, portion, multiply<Type, columns>(block, portion, chunks, staged, partial),
                       squares, source.norm != nullptr);
            }
            block.feed().refill();
        });
        ++time_;
        const Product product = grid_.portion(step).product;
        x_turn_ += product == Product::entry || product == Product::down ? 1 : 0;
        qkv_turn_ += product == Product::inputs ? 1 : 0;
    }

    template <class Block>
    GGTTS_ANYWHERE void stage(Block &block, const Source &source, int stride, float *staged) {
        const auto weights_at = [&](int at) -> Pair {
            return source.norm == nullptr ? Pair{{1.0F, 1.0F}} : Pair{{source.norm[at], source.norm[at + 1]}};
        };
        const auto put = [&](int column, int at, const Pair &values, const Pair &weights) {
            for (int i = 0; i < 2; ++i)
                staged[column * stride + at + i] = values.at[i] * weights.at[i];
            if (source.keeps && at < source.width) {
                for (int i = 0; i < 2; ++i)
                    block.kept()[column * kept_stride() + at + i] = values.at[i];
            }
        };
        block.template receive_columns<columns>(source.letters, block.kept(), kept_stride(), source.width,
                                                stride, time_, weights_at, put);
    }

    // Sends the results.
    template <class Block>
    GGTTS_ANYWHERE void finish(Block &block, const Portion &portion, const Products<columns> &products,
                               const float *squares, bool is_normed) {
        const int pairs = portion.product == Product::gate ? 1 : 0;  // whether two rows make one result
        block.spread(products.count() >> pairs, [&](int item) {
            const int column = item % columns, index = ((item / columns << pairs) * columns) + column;
            const int row = products.row(index) >> pairs;
            if (products.row(index) >= portion.rows)
                return;
            const float factor = is_normed ? norm_factor(squares + column * norm_runs(sizes_.width),
                                                         sizes_.width, sizes_.norm_eps)
                                           : 1.0F;
            const float value = products.at(index) * factor;
            const float other = pairs != 0 ? products.at(index + columns) * factor : 0.0F;
            const float result =
                result_of(portion.product, value, other, row, block.kept() + column * kept_stride());
            send(target_of(portion) + column * (portion.rows >> pairs) + row, result, time_ + 1);
            if (portion.product == Product::logits)
                logits_of(column)[row] = result;
        });
    }

    GGTTS_ANYWHERE float result_of(Product product, float value, float other, int row,
                                   const float *residual) const {
        switch (product) {
            case Product::entry:
                return value + (model_.projection_bias == nullptr ? 0.0F : model_.projection_bias[row]);
            case Product::gate:
                return gated(value, other);
            case Product::output:
            case Product::down:
                return value + residual[row];
            default:
                return value;
        }
    }

    // Where its results go.
    GGTTS_ANYWHERE Letter *target_of(const Portion &portion) const {
        const Letters &letters = buffers_.letters;
        switch (portion.product) {
            case Product::inputs:
                return sent_qkv(1);
            case Product::output:
                return letters.middle;
            case Product::gate:
                return letters.gated;
            case Product::logits:
                return letters.logits;
            default:
                return sent_x(1);
        }
    }

    // silu(gate) * up (Shazeer, "GLU variants improve Transformer", 2020).
    static GGTTS_ANYWHERE float gated(float gate, float up) { return gate / (1.0F + expf(-gate)) * up; }

    GGTTS_ANYWHERE float *logits_of(int column) const {
        return buffers_.logits + (static_cast<int64_t>(position_ - 1) * columns + column) * sizes_.entries;
    }

    // Chooses code `position` of each column.
    GGTTS_ANYWHERE void choose() {
        grid_.phase([&](auto &block) {
            for (int column = block.index(); column < buffers_.columns; column += block.blocks()) {
                block.join();
                CodeSampler sampler(block, sizes_.entries);
                block.template receive_columns<1>(
                    buffers_.letters.logits + column * sizes_.entries, nullptr, 0, sizes_.entries,
                    sizes_.entries, time_, [](int) { return 0; },
                    [&](int, int at, const Pair &values, int) {
                        sampler.scores()[at] = values.at[0];
                        sampler.scores()[at + 1] = values.at[1];
                    });
                const int code = sampler.choose(buffers_.draws[column], static_cast<uint64_t>(position_));
                block.each(1, [&](int) {
                    send(buffers_.letters.codes + column, static_cast<float>(code), time_ + 1);
                    buffers_.codes[column * (sizes_.codebooks - 1) + position_ - 1] = code;
                });
            }
        });
        ++time_;
    }

    Grid &grid_;
    const Model &model_;
    const Buffers &buffers_;
    const Sizes &sizes_;
    uint32_t time_;  // of what was sent last
    int position_ = -1;
    int x_turn_ = 0, qkv_turn_ = 0;
};

// Shared memory that a block keeps, in floats.
inline int64_t flow_kept_size(const Model &model, int columns) {
    const int64_t width = model.sizes.width, talker_width = model.sizes.talker_width;
    return columns * (width > talker_width ? width : talker_width);
}

// Shared memory that a block uses in one phase after the other, in floats.
inline int64_t flow_shared_size(const Model &model, int columns, int blocks) {
    const Sizes &sizes = model.sizes;
    const int attended = sizes.heads * sizes.head_dim, qkv = attended + 2 * sizes.kv_heads * sizes.head_dim;
    const auto product = [&](int rows, int width) {
        return columns * static_cast<int64_t>(padded(width) + norm_runs(padded(width))) +
               partial_size(rows, width, columns, blocks);
    };
    const int64_t needs[] = {
        product(qkv, sizes.width),
        product(2 * sizes.ffn_width, sizes.width),
        product(sizes.entries, sizes.width),
        product(sizes.width, attended),
        product(sizes.width, sizes.ffn_width),
        product(sizes.width, sizes.talker_width),
        GroupScratch::size(sizes.heads / sizes.kv_heads, sizes.head_dim, sizes.codebooks),
        sampling_scratch(sizes.entries)};
    int64_t most = 0;
    for (const int64_t need : needs)
        most = need > most ? need : most;
    return (most + 3) / 4 * 4;
}

}  // namespace ggtts::predictor
