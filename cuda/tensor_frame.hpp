// A frame of the code predictor (see frame.hpp) for many columns, with its products on matrix units.
//
// Whoever makes activations splits them into halves, so that nobody has to convert what all blocks read. What
// an RMSNorm multiplies with is part of them; its division by the root of the mean square follows the
// product.
#pragma once

#include "code_sampling.hpp"
#include "tensor_attention.hpp"
#include "tensor_products.hpp"
#include "tensor_results.hpp"

namespace ggtts::predictor {

// A product of a frame, and what becomes of it.
struct TensorProduct {
    enum class Result {
        normed,    // times the factor of an RMSNorm: to `result`
        gated,     // the same, then silu(gate) * up: to `gated`
        residual,  // to the residual stream, added to it or in its place
    };
    Tiling tiling;
    SplitActivations x;
    Result becomes;
    float *result;
    bool adds;
    const float *bias;  // null where there is none
    const float *norm;  // of the norm that follows the residual stream
};

// Where things lie in shared memory, in floats.
struct TensorRooms {
    int64_t products, weights, sums, squares;

    constexpr int64_t lasting() const { return products + weights; }
    constexpr int64_t size() const { return lasting() + sums + squares; }
};

// Of a warp that attends.
inline constexpr int attention_room = keys_together;

constexpr int products_of_layer = 4;
constexpr int phases_of_layer = 5;

constexpr int most_products(const Sizes &sizes) {
    return 1 + sizes.layers * products_of_layer + sizes.codebooks - 1;
}

// Where a frame is: what is computed next, for which columns.
struct Moment {
    int position, phase;
    int columns;
    int first_of_residual;  // the row of the residual stream that the first column is added to
};

// A block whose shared memory begins elsewhere.
template <class Block>
class BlockWithRoom : public Block {
public:
    GGTTS_ANYWHERE BlockWithRoom(const Block &block, float *room) : Block(block), room_(room) {}
    GGTTS_ANYWHERE float *shared() const { return room_; }

private:
    float *room_;
};

template <class Type, class Grid>
class TensorFrame {
public:
    GGTTS_ANYWHERE TensorFrame(Grid &grid, const Model &model, const Buffers &buffers,
                               const TensorBuffers &tensor, const TensorRooms &rooms)
        : grid_(grid),
          model_(model),
          buffers_(buffers),
          tensor_(tensor),
          rooms_(rooms),
          sizes_(model.sizes),
          columns_(tensor.columns),
          first_of_layers_(model.projection.data == nullptr ? 0 : 1),
          first_of_heads_(first_of_layers_ + products_of_layer * model.sizes.layers) {}

    // All phases are called from one place: code that fits the cache is faster than calls of its own for
    // each.
    GGTTS_ANYWHERE void run() {
        for (int position = first_position(); position < sizes_.codebooks; ++position) {
            for (int phase = 0; phase < phases(); ++phase) {
                if (skips(position, phase))
                    continue;
                const Moment now = moment(position, phase);
                grid_.phase([&](const auto &block) { compute(block, now); });
            }
        }
    }

private:
    // Phases of a position: its entry, the projection, those of the layers, the head, the choice.
    static constexpr int first_phase_of_layers = 2;
    static constexpr int attention = 1;  // of the phases of a layer; the others are products

    GGTTS_ANYWHERE int phases() const { return first_phase_of_layers + phases_of_layer * sizes_.layers + 2; }
    GGTTS_ANYWHERE int last_attention() const {
        return first_phase_of_layers + phases_of_layer * (sizes_.layers - 1) + attention;
    }
    // What enters at the first two positions is known from the beginning, so they may be computed as one.
    GGTTS_ANYWHERE int first_position() const { return tensor_.together ? 1 : 0; }
    GGTTS_ANYWHERE bool is_both(int position) const { return tensor_.together && position == 1; }

    // Columns of two positions lie one position after the other. Nothing but keys and values is read of the
    // first position, so it ends with the last attention.
    GGTTS_ANYWHERE Moment moment(int position, int phase) const {
        const bool both = is_both(position);
        return {position, phase, both && phase < last_attention() ? 2 * columns_ : columns_,
                both && phase == last_attention() + 1 ? columns_ : 0};
    }

    GGTTS_ANYWHERE bool skips(int position, int phase) const {
        if (phase == 0)
            return position > 1;  // it was chosen
        if (phase == 1)
            return first_of_layers_ == 0;
        return position == 0 && phase > last_attention();
    }

    // Which product a phase makes, none: -1.
    GGTTS_ANYWHERE int product_of(int position, int phase) const {
        const int of_layers = phase - first_phase_of_layers;
        const int layer = of_layers / phases_of_layer, of_layer = of_layers % phases_of_layer;
        if (layer == sizes_.layers)
            return of_layer == 0 ? first_of_heads_ + position - 1 : -1;
        if (of_layers < 0 || of_layer == attention)
            return phase == 1 ? 0 : -1;
        return first_of_layers_ + products_of_layer * layer +
               (of_layer > attention ? of_layer - 1 : of_layer);
    }

    template <class Block>
    GGTTS_ANYWHERE void compute(const Block &block, const Moment &now) const {
        const int product = product_of(now.position, now.phase);
        if (product >= 0)
            multiply(block, now, product);
        else if (now.phase == 0)
            enter(block, now);
        else if (now.phase < first_phase_of_layers + phases_of_layer * sizes_.layers)
            attend(block, (now.phase - first_phase_of_layers) / phases_of_layer, now);
        else
            choose(block, now);
    }

    template <class Block>
    GGTTS_ANYWHERE TensorProduct *products_room(const Block &block) const {
        return reinterpret_cast<TensorProduct *>(block.shared());
    }
    template <class Block>
    GGTTS_ANYWHERE uint8_t *weights_room(const Block &block) const {
        return reinterpret_cast<uint8_t *>(block.shared() + rooms_.products);
    }
    template <class Block>
    GGTTS_ANYWHERE float *sums_room(const Block &block) const {
        return block.shared() + rooms_.lasting();
    }
    template <class Block>
    GGTTS_ANYWHERE float *squares_room(const Block &block) const {
        return block.shared() + rooms_.lasting() + rooms_.sums;
    }

    GGTTS_ANYWHERE TensorProduct product(int index) const {
        using Result = TensorProduct::Result;
        if (index < first_of_layers_) {
            return {tiling_of(model_.projection),
                    tensor_.entry,
                    Result::residual,
                    nullptr,
                    false,
                    model_.projection_bias,
                    model_.layers[0].attention_norm};
        }
        if (index >= first_of_heads_) {
            const int code = index - first_of_heads_;
            return {tiling_of(model_.heads[code]),
                    tensor_.normed,
                    Result::normed,
                    logits_of(code),
                    false,
                    nullptr,
                    nullptr};
        }
        const int of_layers = index - first_of_layers_, number = of_layers / products_of_layer;
        const Layer &layer = model_.layers[number];
        switch (of_layers % products_of_layer) {
            case 0:
                return {tiling_of(layer.qkv),
                        tensor_.normed,
                        Result::normed,
                        buffers_.qkv,
                        false,
                        nullptr,
                        nullptr};
            case 1:
                return {tiling_of(layer.output), tensor_.attended, Result::residual, nullptr, true, nullptr,
                        layer.feed_forward_norm};
            case 2:
                return {tiling_of(layer.gate_up, gated_tile_bits),
                        tensor_.normed,
                        Result::gated,
                        nullptr,
                        false,
                        nullptr,
                        nullptr};
            default:
                return {tiling_of(layer.down),
                        tensor_.gated,
                        Result::residual,
                        nullptr,
                        true,
                        nullptr,
                        number + 1 < sizes_.layers ? model_.layers[number + 1].attention_norm
                                                   : model_.output_norm};
        }
    }

    // The product that comes after one of a position.
    GGTTS_ANYWHERE int following(int position, int index) const {
        const bool ends = position == 0 && index == first_of_heads_ - products_of_layer;
        if (index >= first_of_heads_ || ends)
            return 0;
        return index + 1 == first_of_heads_ ? first_of_heads_ + position - 1 : index + 1;
    }

    // Begins to copy a piece of weights, if there is one: always counts as one copy.
    template <class Block>
    GGTTS_ANYWHERE void begin_piece(const Block &block, const Tiling &tiling, int index) const {
        if (index < tiling.pieces())
            begin_weights<Type>(block, tiling, index, weights_room(block));
        else
            begin_copies(block, 0, 0, [](int, int) { return Copy{}; });
    }

    // Multiplies all pieces of this block. The weights of the first one are on their way, and those of the
    // first of the next product will be.
    template <class Block>
    GGTTS_ANYWHERE void multiply(const Block &block, const Moment &now, int index) const {
        const TensorProduct &product = products_room(block)[index];
        const Tiling &tiling = product.tiling,
                     &next = products_room(block)[following(now.position, index)].tiling;
        const int own = block.index(), pieces = tiling.pieces();
        float *sums = sums_room(block);
        begin_squares(block, product.becomes != TensorProduct::Result::residual, now.columns);
        for (int number = own; number < pieces; number += block.blocks()) {
            if (number == own)
                finish_copies<1>(block);  // the squares may still be missing
            else
                finish_copies<0>(block);
            const Piece piece(tiling, number);
            multiply_piece<Type>(block, tiling, piece, weights_room(block), product.x, now.columns, sums);
            const bool more = number + block.blocks() < pieces;
            begin_piece(block, more ? tiling : next, more ? number + block.blocks() : own);
            finish_copies<1>(block);
            if (complete(block, tiling, piece, now.columns, sums, tensor_.meeting)) {
                block.each_task(now.columns / blocks_of_warp, [&](const auto &warp, int task) {
                    finish(block, warp, now, product, task * blocks_of_warp, piece.tile, sums);
                });
            }
        }
        if (own >= pieces)
            begin_piece(block, next, own);
    }

    // What becomes of the sums of a tile and of as many columns as a warp has blocks.
    template <class Block, class Warp>
    GGTTS_ANYWHERE void finish(const Block &block, const Warp &warp, const Moment &now,
                               const TensorProduct &product, int first_column, int tile,
                               const float *sums) const {
        Lanes<Warp, FourValues> all(warp);
        const int stride = sums_stride(product.tiling.rows());
        const auto place = [&](int lane) {
            return BlockPlace{tile, first_column + lane / lanes_of_block, true};
        };
        const auto sums_of = [&](int lane, int first) {
            return *reinterpret_cast<const Floats *>(sums + place(lane).column * stride + first);
        };
        if (product.becomes == TensorProduct::Result::residual) {
            all.each([&](int lane, FourValues &own) {
                own.values = residual(now, product, place(lane), first_of_lane(lane));
                const Floats more = sums_of(lane, first_of_lane(lane));
                for (int i = 0; i < 4; ++i)
                    own.values.at[i] += more.at[i];
            });
            return publish(all, residual_stream(now.columns), product.norm, place);
        }
        find_scales(all, sizes_.width, sizes_.norm_eps, [&](int lane, int index) {
            return squares_room(block)[place(lane).column * (sizes_.width / block_width) + index];
        });
        if (product.becomes == TensorProduct::Result::gated) {
            all.each([&](int lane, FourValues &own) {
                own.values = gated(sums_of(lane, 2 * first_of_lane(lane)),
                                   sums_of(lane, 2 * first_of_lane(lane) + 4), own.scale);
            });
            return split_blocks(all, tensor_.gated, now.columns, place);
        }
        const int rows = product.tiling.matrix.rows;
        all.each([&](int lane, const FourValues &own) {
            Floats values = sums_of(lane, first_of_lane(lane));
            for (int i = 0; i < 4; ++i)
                values.at[i] *= own.scale;
            const int row = (tile << tile_bits) + first_of_lane(lane);
            if (row < rows)
                *reinterpret_cast<Floats *>(product.result + place(lane).column * rows + row) = values;
        });
    }

    // What a product is added to.
    GGTTS_ANYWHERE Floats residual(const Moment &now, const TensorProduct &product, const BlockPlace &place,
                                   int first) const {
        const int row = place.block * block_width + first;
        if (product.adds)
            return fresh_floats(buffers_.x + (place.column + now.first_of_residual) * sizes_.width + row);
        return product.bias == nullptr ? Floats{} : *reinterpret_cast<const Floats *>(product.bias + row);
    }

    // What enters at the first two positions.
    template <class Block>
    GGTTS_ANYWHERE void enter(const Block &block, const Moment &now) const {
        if (now.position == first_position()) {
            block.each(first_of_heads_ + sizes_.codebooks - 1,
                       [&](int index) { products_room(block)[index] = product(index); });
            begin_piece(block, products_room(block)[0].tiling, block.index());
        }
        const int width = sizes_.talker_width;
        for (int column = block.index(); column < now.columns; column += block.blocks()) {
            const int frame = column % columns_,
                      position = tensor_.together ? column / columns_ : now.position;
            const float *row = buffers_.inputs + (2 * frame + position) * width;
            float *sums = buffers_.sums + frame * width;
            block.each(position == 0 ? 0 : width, [&](int i) { sums[i] = row[i]; });
            begin_position(block, now.columns, column,
                           [&](int i) { return *reinterpret_cast<const Floats *>(row + i); });
        }
    }

    // The entry of a position in halves, for the projection or the first layer: entry(i) are four values.
    template <class Block, class Entry>
    GGTTS_ANYWHERE void begin_position(const Block &block, int columns, int column, Entry entry) const {
        const int blocks = sizes_.talker_width / block_width;
        block.each_task((blocks + blocks_of_warp - 1) / blocks_of_warp, [&](const auto &warp, int task) {
            Lanes<std::decay_t<decltype(warp)>, FourValues> all(warp);
            const auto place = [&](int lane) {
                const int index = task * blocks_of_warp + lane / lanes_of_block;
                return BlockPlace{index, column, index < blocks};
            };
            all.each([&](int lane, FourValues &own) {
                const int first = place(lane).block * block_width + first_of_lane(lane);
                own.values = place(lane).exists ? entry(first) : Floats{};
            });
            if (first_of_layers_ == 0)
                publish(all, residual_stream(columns), model_.layers[0].attention_norm, place);
            else
                split_blocks(all, tensor_.entry, columns, place);
        });
    }

    GGTTS_ANYWHERE Residual<SplitActivations> residual_stream(int columns) const {
        return {buffers_.x, tensor_.squares, tensor_.normed, sizes_.width, columns};
    }

    // Sums of squares come to shared memory while products are made; they are complete when those are.
    template <class Block>
    GGTTS_ANYWHERE void begin_squares(const Block &block, bool needed, int columns) const {
        float *target = squares_room(block);
        const int words = needed ? (columns * (sizes_.width / block_width) + 3) / 4 : 0;
        begin_copies(block, 1, words,
                     [&](int, int word) { return Copy{target + 4 * word, tensor_.squares + 4 * word}; });
    }
    GGTTS_ANYWHERE float *logits_of(int code) const {
        return buffers_.logits + static_cast<int64_t>(code) * columns_ * sizes_.entries;
    }

    template <class Block>
    GGTTS_ANYWHERE void attend(const Block &block, int layer, const Moment &now) const {
        const int heads = columns_ * sizes_.heads, blocks = block.blocks();
        const int mine = block.index() < heads ? (heads - block.index() - 1) / blocks + 1 : 0;
        const int first = is_both(now.position) ? 0 : now.position;
        block.each_task(mine, [&](const auto &warp, int task) {
#pragma unroll 1
            for (int position = first; position <= now.position; ++position)
                attend_head(block, warp, block.index() + task * blocks, layer, position, now);
        });
    }

    // Of two positions the second sees what the same lanes kept of the first.
    template <class Block, class Warp>
    GGTTS_ANYWHERE void attend_head(const Block &block, const Warp &warp, int item, int layer, int position,
                                    const Moment &now) const {
        const Layer &weights = model_.layers[layer];
        const int frame = item / sizes_.heads, size = sizes_.head_dim;
        const bool both = is_both(now.position), is_last = position == now.position;
        const int row = both && is_last ? frame + columns_ : frame;
        Lanes<Warp, AttentionLane> all(warp);
        Head head = head_of(model_, buffers_, columns_, item, layer, nullptr);
        const int ahead = (row - frame) * weights.qkv.rows;
        head.query += ahead;
        head.key += ahead;
        head.value += ahead;
        head.adds |= both;
        attend_with(all, head, sums_room(block) + warp.index() * attention_room,
                    {weights.query_norm, weights.key_norm, model_.rotation + position * size, position, size,
                     sizes_.norm_eps});
        const int first = item % sizes_.heads * (size / block_width);
        const bool continues = is_last || now.phase != last_attention();
        split_blocks(all, tensor_.attended, now.columns, [&](int lane) {
            return BlockPlace{first + lane / lanes_of_block, now.columns == columns_ ? frame : row,
                              continues && 4 * lane < size};
        });
    }

    // Chooses code `position` of each column; its embedding enters at the next position.
    template <class Block>
    GGTTS_ANYWHERE void choose(const Block &block, const Moment &now) const {
        const int width = sizes_.talker_width, position = now.position;
        for (int column = block.index(); column < buffers_.columns; column += block.blocks()) {
            const BlockWithRoom<Block> sampling(block, sums_room(block));
            CodeSampler sampler(sampling, sizes_.entries);
            const float *logits = logits_of(position - 1) + static_cast<int64_t>(column) * sizes_.entries;
            const int code = sampler.choose(logits, buffers_.draws[column], static_cast<uint64_t>(position));
            const Matrix &table = model_.embeddings[position - 1];
            float *sums = buffers_.sums + column * width;
            begin_position(block, columns_, column, [&](int i) {
                const Floats values = weights_at<Type>(table, code < 0 ? 0 : code, i);
                auto &before = *reinterpret_cast<Floats *>(sums + i);
                for (int j = 0; j < 4; ++j)
                    before.at[j] += values.at[j];
                return values;
            });
            block.each(1,
                       [&](int) { buffers_.codes[column * (sizes_.codebooks - 1) + position - 1] = code; });
        }
    }

    Grid &grid_;
    const Model &model_;
    const Buffers &buffers_;
    const TensorBuffers &tensor_;
    const TensorRooms &rooms_;
    const Sizes &sizes_;
    int columns_, first_of_layers_, first_of_heads_;
};

}  // namespace ggtts::predictor
