// How much memory the tensor kernel needs, for those who launch it.
#pragma once

#include <algorithm>

#include "tensor_frame.hpp"

namespace ggtts::predictor {

// The shapes of a model's matrices: what is stored in them does not matter.
struct TensorShapes {
    Tiling qkv, output, gate_up, down, head, projection;

    explicit TensorShapes(const Sizes &sizes) {
        const int attended = sizes.heads * sizes.head_dim, kept = sizes.kv_heads * sizes.head_dim;
        const auto shape = [](int rows, int width, int bits = tile_bits) {
            return tiling_of({nullptr, rows, whole_chunks(width)}, bits);
        };
        qkv = shape(attended + 2 * kept, sizes.width);
        output = shape(sizes.width, attended);
        gate_up = shape(2 * sizes.ffn_width, sizes.width, gated_tile_bits);
        down = shape(sizes.width, sizes.ffn_width);
        head = shape(sizes.entries, sizes.width);
        projection = shape(sizes.width, sizes.talker_width);
    }

    template <class Function>
    int64_t most(Function function) const {
        return std::max({function(qkv), function(output), function(gate_up), function(down), function(head),
                         function(projection)});
    }
};

// Whether the kernel knows such sizes: everything it splits comes in blocks.
inline bool fits_tensor(const Sizes &sizes) {
    return sizes.width % block_width == 0 && sizes.ffn_width % block_width == 0 &&
           sizes.head_dim % block_width == 0 && sizes.head_dim <= most_head_dim &&
           sizes.codebooks <= keys_together && sizes.talker_width % block_width == 0 &&
           sizes.entries % 4 == 0;
}

template <class Type>
TensorRooms tensor_rooms(const Sizes &sizes, int columns) {
    const TensorShapes shapes(sizes);
    const int64_t weights = shapes.most([](const Tiling &tiling) { return piece_bytes<Type>(tiling); });
    const int64_t products = shapes.most(
        [&](const Tiling &tiling) { return sums_size(tiling.most_units(), columns, tiling.rows()); });
    const int64_t table = most_products(sizes) * static_cast<int64_t>(sizeof(TensorProduct));
    return {(table + 15) / 16 * 4, weights / static_cast<int64_t>(sizeof(float)),
            std::max({products, static_cast<int64_t>(tensor_warps * attention_room),
                      sampling_scratch(sizes.entries)}),
            (static_cast<int64_t>(columns) * sizes.width / block_width + 3) / 4 * 4};
}

// Columns that some phases compute at once.
inline int most_columns_of(const TensorBuffers &tensor) {
    return tensor.together ? 2 * tensor.columns : tensor.columns;
}

// What the blocks that meet need for so many columns.
inline TensorNeeds tensor_needs(const Sizes &sizes, int columns) {
    const TensorShapes shapes(sizes);
    return {shapes.most([&](const Tiling &tiling) {
                return tiling.part_bits == 0
                           ? 0
                           : static_cast<int64_t>(tiling.pieces()) * columns * tiling.rows();
            }),
            shapes.most([](const Tiling &tiling) { return static_cast<int64_t>(tiling.tiles); })};
}

}  // namespace ggtts::predictor
