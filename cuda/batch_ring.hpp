// The weights of all products of a step, on their way through shared memory.
//
// What a block multiplies is known from the beginning: its pieces of every matrix, one after the other, each
// in stages of the width. So it asks for them well ahead, across the barriers of the grid.
#pragma once

#include "batch_model.hpp"
#include "batch_rows.hpp"

namespace ggtts::talker::batch {

using predictor::Piece;

// A piece in the units of batch_rows.hpp, of which a matrix has as many as of those of tensor_weights.hpp.
inline constexpr int bits_of_task = 5;  // of the rows that a warp multiplies at once

// Slots at most, of which shared memory begins with a word each.
inline constexpr int most_slots = 8;
inline constexpr int bytes_of_arrivals = most_slots * static_cast<int>(sizeof(uint64_t));

// Units that each row of a stage has, at most, where tiles have 2^bits rows.
constexpr GGTTS_EVERYWHERE int units_of_stage(int stage_units, int bits) {
    return stage_units >> (bits - bits_of_task);
}

constexpr GGTTS_EVERYWHERE int bits_of_kind(int kind) {
    return kind == gate_up_matrix ? predictor::gated_tile_bits : predictor::tile_bits;
}

struct Stage {
    int first_unit, units;

    GGTTS_ANYWHERE Stage(const Piece &piece, int index, int most)
        : first_unit(piece.first_unit + index * most),
          units(piece.units - index * most < most ? piece.units - index * most : most) {}
};

GGTTS_ANYWHERE int stages_of(const Piece &piece, int most) {
    return (piece.units + most - 1) / most;
}

template <class Type, class Block>
class WeightRing {
public:
    GGTTS_ANYWHERE WeightRing(const Block &block, const Model &model, const BatchTables &tables,
                              const BatchRoom &room)
        : block_(block),
          model_(model),
          tables_(tables),
          memory_(reinterpret_cast<uint8_t *>(block.shared()) + bytes_of_arrivals),
          arrivals_(reinterpret_cast<uint64_t *>(block.shared())),
          slots_(room.slots),
          slot_bytes_(room.slot_bytes),
          stage_units_(room.stage_units),
          free_(room.slots),
          piece_(block.index()) {
        make_arrivals(block, arrivals_, slots_);
        find_piece();
    }

    // The weights of the next stage, which have come. Nobody needs those of the one before any more. What is
    // free is filled first where this piece needs it: that takes a microsecond.
    GGTTS_ANYWHERE const uint8_t *next(bool fills) {
        if (fills)
            fill();
        wait_for_rows(block_, arrivals_ + current_, turn_);
        const uint8_t *result = memory_ + current_ * slot_bytes_;
        if (++current_ == slots_) {
            current_ = 0;
            turn_ ^= 1;
        }
        return result;
    }

    // The slot of the last stage is free.
    GGTTS_ANYWHERE void release() { ++free_; }

    // Asks for stages in the place of those that nobody needs: between phases, when others are waited for
    // anyway.
    GGTTS_ANYWHERE void fill() {
        GGTTS_SHORT_LOOP
        for (; free_ > 0; --free_)
            ask();
    }

    // Whether a piece of so many stages needs one that has not been asked for, when it comes to stage
    // `index`.
    GGTTS_ANYWHERE bool needs_more(int index, int stages) const { return index + slots_ - 1 < stages; }

private:
    GGTTS_ANYWHERE const Tiling &tiling() const { return tables_.tilings[kind_of(model_, matrix_)]; }
    GGTTS_ANYWHERE int most_units() const { return units_of_stage(stage_units_, tiling().bits); }

    // Goes on to a matrix of which this block has a piece.
    GGTTS_ANYWHERE void find_piece() {
        while (matrix_ < model_.matrix_count && piece_ >= tiling().pieces()) {
            ++matrix_;
            piece_ = block_.index();
        }
    }

    GGTTS_ANYWHERE void ask() {
        if (matrix_ >= model_.matrix_count)
            return;
        const Piece piece(tiling(), piece_);
        copy_stage(tables_.matrices[matrix_], piece, Stage(piece, stage_, most_units()));
        asked_ = asked_ + 1 == slots_ ? 0 : asked_ + 1;
        if (++stage_ < stages_of(piece, most_units()))
            return;
        stage_ = 0;
        piece_ += block_.blocks();
        find_piece();
    }

    GGTTS_ANYWHERE void copy_stage(const Matrix &matrix, const Piece &piece, const Stage &stage) const {
        uint8_t *slot = memory_ + asked_ * slot_bytes_;
        const int first_row = piece.tile << tiling().bits, left = matrix.rows - first_row;
        const int rows = left < tiling().rows() ? left : tiling().rows();
        const int begin = stage.first_unit * unit_width, missing = matrix.width - begin;
        const int all = stage.units * unit_width;
        const int width = missing < 0 ? 0 : missing < all ? missing : all;
        const int row_room = Type::room_of(most_units());
        begin_rows(block_, arrivals_ + asked_, rows, [&](int row) {
            return RowCopy{slot + row * row_room, row_of(matrix, first_row + row) + Type::bytes_of(begin),
                           Type::bytes_of(width), Type::bytes_of(all)};
        });
    }

    const Block &block_;
    const Model &model_;
    const BatchTables &tables_;
    uint8_t *memory_;
    uint64_t *arrivals_;  // of the slots
    int slots_, slot_bytes_, stage_units_;
    int current_ = 0, asked_ = 0, free_;
    uint32_t turn_ = 0;  // whether a slot is read for an odd number of times before
    // The stage to ask for next.
    int matrix_ = 0, piece_, stage_ = 0;
};

}  // namespace ggtts::talker::batch
