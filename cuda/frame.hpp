// A whole frame of the code predictor: all positions, all layers, every choice. Each phase ends when all
// blocks are done with it, and blocks tell each other things between phases only.
//
// The network is Qwen3's decoder (Qwen3 technical report, section 2), one position at a time: position 0 is
// the talker's state, position p the embedding of code p - 1, and what leaves position p >= 1 chooses code p.
#pragma once

#include "code_sampling.hpp"
#include "products.hpp"
#include "self_attention.hpp"

namespace ggtts::predictor {

template <class Type, int columns, class Grid>
class Frame {
public:
    GGTTS_ANYWHERE Frame(Grid &grid, const Model &model, const Buffers &buffers)
        : grid_(grid), model_(model), buffers_(buffers), sizes_(model.sizes) {}

    GGTTS_ANYWHERE void run() {
        for (int position = 0; position < sizes_.codebooks; ++position) {
            if (position < 2)
                enter(position);
            if (model_.projection.data != nullptr)
                project();
            for (int index = 0; index < sizes_.layers; ++index)
                run_layer(index, position);
            if (position > 0) {
                predict(position);
                choose(position);
            }
        }
    }

private:
    GGTTS_ANYWHERE void run_layer(int index, int position) {
        const Layer &layer = model_.layers[index];
        const bool last = index + 1 == sizes_.layers;
        project_inputs(layer);
        attend(layer, index, position);
        if (position == 0 && last)
            return;  // nothing but keys and values is read of this position
        add_product(layer.output, buffers_.attended, sizes_.heads * sizes_.head_dim, layer.down);
        gate(layer, last ? model_.heads[position > 0 ? position - 1 : 0] : model_.layers[index + 1].qkv);
        add_product(layer.down, buffers_.gated, sizes_.ffn_width, Matrix{});
    }

    GGTTS_ANYWHERE void enter(int position) {
        grid_.phase([&](const auto &block) {
            const int width = sizes_.talker_width;
            for (int column = block.index(); column < columns; column += block.blocks()) {
                const float *row = buffers_.inputs + (2 * column + position) * width;
                block.each(width, [&](int i) {
                    buffers_.entry[column * width + i] = row[i];
                    buffers_.sums[column * width + i] = row[i];
                });
            }
        });
    }

    GGTTS_ANYWHERE void project() {
        grid_.phase([&](const auto &block) {
            const int width = sizes_.talker_width;
            float *staged = block.shared(), *partial = staged + columns * padded(width);
            stage<columns>(block, buffers_.entry, width, staged);
            const auto products = multiply<Type, columns>(block, model_.projection, staged, partial);
            block.each(products.count(), [&](int index) {
                const int row = products.row(index), column = index % columns;
                const float bias = model_.projection_bias == nullptr ? 0.0F : model_.projection_bias[row];
                if (row < sizes_.width)
                    buffers_.x[column * sizes_.width + row] = products.at(index) + bias;
            });
        });
    }

    GGTTS_ANYWHERE void project_inputs(const Layer &layer) {
        grid_.phase([&](const auto &block) {
            prefetch<Type>(block, layer.output);
            project_normed(block, layer.qkv, layer.attention_norm, buffers_.qkv);
        });
    }

    // Heads are spread over the blocks before the warps: a lone utterance has few.
    GGTTS_ANYWHERE void attend(const Layer &layer, int index, int position) {
        grid_.phase([&](const auto &block) {
            prefetch<Type>(block, layer.gate_up);
            const int all = columns * sizes_.heads, blocks = block.blocks(), size = sizes_.head_dim;
            const int mine = block.index() < all ? (all - block.index() - 1) / blocks + 1 : 0;
            const auto scratch_of = [&](int task) {
                return HeadScratch(block.shared() + task * attention_scratch(size, sizes_.codebooks), size);
            };
            block.each_task(2 * mine, [&](const auto &warp, int part) {
                const Head head = own_head(block.index() + part / 2 * blocks, index);
                const HeadScratch scratch = scratch_of(part / 2);
                const float *rotation = model_.rotation + position * size;
                if (part % 2 == 0) {
                    norm_and_rotate(warp, head.query, layer.query_norm, rotation, size, sizes_.norm_eps,
                                    scratch.query);
                } else {
                    norm_and_rotate(warp, head.key, layer.key_norm, rotation, size, sizes_.norm_eps,
                                    scratch.key);
                    keep(warp, head, scratch.key, position, size);
                }
            });
            block.each_task(mine, [&](const auto &warp, int task) {
                predictor::attend(warp, own_head(block.index() + task * blocks, index), scratch_of(task),
                                  position, size);
            });
        });
    }

    GGTTS_ANYWHERE Head own_head(int item, int layer) const {
        return head_of(model_, buffers_, columns, item, layer, buffers_.attended + item * sizes_.head_dim);
    }

    // x += matrix * source
    GGTTS_ANYWHERE void add_product(const Matrix &matrix, const float *source, int width,
                                    const Matrix &next) {
        grid_.phase([&](const auto &block) {
            if (next.data != nullptr)
                prefetch<Type>(block, next);
            float *staged = block.shared(), *partial = staged + columns * padded(width);
            stage<columns>(block, source, width, staged);
            const auto products = multiply<Type, columns>(block, matrix, staged, partial);
            block.each(products.count(), [&](int index) {
                const int row = products.row(index);
                float *x = buffers_.x + index % columns * sizes_.width + row;
                if (row < sizes_.width)
                    *x = fresh(x) + products.at(index);
            });
        });
    }

    // silu(gate) * up (Shazeer, "GLU variants improve Transformer", 2020).
    GGTTS_ANYWHERE void gate(const Layer &layer, const Matrix &next) {
        grid_.phase([&](const auto &block) {
            prefetch<Type>(block, next);
            const Normed normed = multiply_normed(block, layer.gate_up, layer.feed_forward_norm);
            const Products<columns> &products = normed.products;
            block.each(products.count() / 2, [&](int pair) {
                const int column = pair % columns, index = pair / columns * 2 * columns + column;
                const float scale = normed.scale(index);
                const float gate = scale * products.at(index), up = scale * products.at(index + columns);
                const int row = products.row(index) / 2;
                if (row < sizes_.ffn_width)
                    buffers_.gated[column * sizes_.ffn_width + row] = gate / (1.0F + expf(-gate)) * up;
            });
        });
    }

    GGTTS_ANYWHERE void predict(int position) {
        grid_.phase([&](const auto &block) {
            prefetch<Type>(block, model_.layers[0].qkv);
            project_normed(block, model_.heads[position - 1], model_.output_norm, logits_of(position));
        });
    }

    GGTTS_ANYWHERE float *logits_of(int position) const {
        return buffers_.logits + static_cast<int64_t>(position - 1) * columns * sizes_.entries;
    }

    // Products of a matrix with norm(x), but for the factors `scale`.
    struct Normed {
        Products<columns> products;
        const float *squares;
        const Sizes &sizes;

        GGTTS_ANYWHERE float scale(int index) const {
            return norm_scale(squares[index % columns], sizes.width, sizes.norm_eps);
        }
    };

    template <class Block>
    GGTTS_ANYWHERE Normed multiply_normed(const Block &block, const Matrix &matrix, const float *norm) const {
        float *staged = block.shared(), *squares = staged + columns * padded(sizes_.width);
        stage_weighted<columns>(block, buffers_.x, sizes_.width, norm, staged, squares);
        return {multiply<Type, columns>(block, matrix, staged, squares + columns), squares, sizes_};
    }

    // result = matrix * norm(x)
    template <class Block>
    GGTTS_ANYWHERE void project_normed(const Block &block, const Matrix &matrix, const float *norm,
                                       float *result) const {
        const Normed normed = multiply_normed(block, matrix, norm);
        block.each(normed.products.count(), [&](int index) {
            const int row = normed.products.row(index);
            if (row < matrix.rows)
                result[index % columns * matrix.rows + row] = normed.products.at(index) * normed.scale(index);
        });
    }

    // Chooses code `position` of each column; its embedding enters at the next position.
    GGTTS_ANYWHERE void choose(int position) {
        grid_.phase([&](const auto &block) {
            const int width = sizes_.talker_width;
            for (int column = block.index(); column < buffers_.columns; column += block.blocks()) {
                CodeSampler sampler(block, sizes_.entries);
                const float *logits = logits_of(position) + column * sizes_.entries;
                const int code =
                    sampler.choose(logits, buffers_.draws[column], static_cast<uint64_t>(position));
                block.each(width / run_length, [&](int quad) {
                    const int i = quad * run_length;
                    const Floats values =
                        weights_at<Type>(model_.embeddings[position - 1], code < 0 ? 0 : code, i);
                    auto &sums = *reinterpret_cast<Floats *>(buffers_.sums + column * width + i);
                    for (int j = 0; j < run_length; ++j)
                        sums.at[j] += values.at[j];
                    *reinterpret_cast<Floats *>(buffers_.entry + column * width + i) = values;
                });
                block.each(
                    1, [&](int) { buffers_.codes[column * (sizes_.codebooks - 1) + position - 1] = code; });
            }
        });
    }

    Grid &grid_;
    const Model &model_;
    const Buffers &buffers_;
    const Sizes &sizes_;
};

// Shared memory of a block, in floats.
inline int64_t shared_size(const Model &model, int columns, int blocks) {
    const Sizes &sizes = model.sizes;
    const int attended = sizes.heads * sizes.head_dim, qkv = attended + 2 * sizes.kv_heads * sizes.head_dim;
    const auto product = [&](int rows, int width) {
        return columns * (static_cast<int64_t>(padded(width)) + 1) +
               partial_size(rows, width, columns, blocks);
    };
    const int64_t needs[] = {
        product(qkv, sizes.width),
        product(2 * sizes.ffn_width, sizes.width),
        product(sizes.entries, sizes.width),
        product(sizes.width, attended),
        product(sizes.width, sizes.ffn_width),
        product(sizes.width, sizes.talker_width),
        (columns * sizes.heads + blocks - 1) / blocks * attention_scratch(sizes.head_dim, sizes.codebooks),
        sampling_scratch(sizes.entries)};
    int64_t most = 0;
    for (const int64_t need : needs)
        most = need > most ? need : most;
    return most;
}

}  // namespace ggtts::predictor
