// How much memory steps of several utterances need, for those who launch them.
#pragma once

#include <algorithm>
#include <array>

#include "batch_step.hpp"

namespace ggtts::talker::batch {

// Whether the kernel knows such sizes: everything it splits comes in blocks.
inline bool fits_batch(const Sizes &sizes) {
    return sizes.width % block_width == 0 && sizes.ffn_width % block_width == 0 &&
           sizes.head_dim % block_width == 0 && sizes.head_dim <= most_head_dim &&
           sizes.heads % sizes.kv_heads == 0 && sizes.vocabulary % 4 == 0;
}

// Tiles that are left when all processors of a large GPU have had as many are cut into parts for more of
// them.
constexpr Tiling with_rest_cut(Tiling tiling) {
    const int rest = tiling.tiles % predictor::wanted_pieces;
    if (tiling.tiles < predictor::wanted_pieces || rest == 0)
        return tiling;
    tiling.whole = tiling.tiles - rest;
    while (tiling.part_bits < predictor::most_part_bits &&
           2 * (rest << tiling.part_bits) <= predictor::wanted_pieces)
        ++tiling.part_bits;
    return tiling;
}

// The shapes of the matrices, by kind.
inline std::array<Tiling, product_kinds> tilings_of(const Sizes &sizes) {
    const int attended = sizes.heads * sizes.head_dim, kept = sizes.kv_heads * sizes.head_dim;
    const auto tiling = [](int kind, int rows, int width) {
        return with_rest_cut(
            predictor::tiling_of({nullptr, rows, predictor::whole_chunks(width)}, bits_of_kind(kind)));
    };
    return {tiling(inputs_matrix, attended + 2 * kept, sizes.width),
            tiling(output_matrix, sizes.width, attended),
            tiling(gate_up_matrix, 2 * sizes.ffn_width, sizes.width),
            tiling(down_matrix, sizes.width, sizes.ffn_width),
            tiling(matrices_of_layer, sizes.vocabulary, sizes.width)};
}

// The shared memory of a block with so many slots, of whose warps so many attend.
template <class Type>
BatchRoom room_for(const Sizes &sizes, int columns, int stage_units, int slots, int attending) {
    BatchRoom room{stage_units, slots, 0, attending, 0, 0, 0};
    int64_t sums = static_cast<int64_t>(attending) * room_of_attention(sizes.head_dim);
    for (const int bits : {predictor::tile_bits, predictor::gated_tile_bits}) {
        const int units = units_of_stage(stage_units, bits), rows = 1 << bits;
        room.slot_bytes = std::max(room.slot_bytes, rows * Type::room_of(units));
        sums = std::max(sums, static_cast<int64_t>(units) * columns * predictor::sums_stride(rows));
    }
    const int64_t bytes = bytes_of_arrivals + static_cast<int64_t>(slots) * room.slot_bytes;
    room.scales = bytes / static_cast<int64_t>(sizeof(float));
    room.sums = room.scales + columns;
    room.end = room.sums + sums;
    return room;
}

// Warps that attend, at least.
inline constexpr int least_attending = 2;
// Half of them where that is enough: each then is alone with the instructions of a quarter of its processor.
constexpr int attending_warps(int tasks, int blocks) {
    return tasks <= blocks * (batch_warps / 2) ? batch_warps / 2 : batch_warps;
}
// Stages on their way, at least: one is multiplied, and another one comes.
inline constexpr int least_slots = 2;
// Units of the width in a stage of 32 rows, at least: those of 64 rows have half as many.
inline constexpr int least_stage_units = 2;
// More take the room of warps that attend.
inline constexpr int most_slots_of_batch = 2;
static_assert(most_slots_of_batch <= most_slots);

}  // namespace ggtts::talker::batch
