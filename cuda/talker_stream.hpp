// The weights of all matrix products of a step, on their way through shared memory.
//
// What a warp multiplies is known from the beginning: its share of every matrix, one after the other. So it
// asks for it well ahead, across the ends of phases, and memory is read while blocks wait for each other.
#pragma once

#include "talker_copies.hpp"
#include "talker_weights.hpp"

namespace ggtts::talker {

inline constexpr int row_room = most_piece_bytes + 2 * copy_bytes;
inline constexpr int slot_bytes = most_rows_together * row_room;
inline constexpr int most_slots = 4;

GGTTS_ANYWHERE const uint8_t *row_of(const Matrix &matrix, int row) {
    if (matrix.alternating)
        return matrix.parts[row % 2] + static_cast<int64_t>(row / 2) * matrix.row_bytes;
    const int part = row < matrix.ends[0] ? 0 : row < matrix.ends[1] ? 1 : 2;
    const int first = part == 0 ? 0 : matrix.ends[part - 1];
    return matrix.parts[part] + static_cast<int64_t>(row - first) * matrix.row_bytes;
}

// One of many.
struct Place {
    int index, count;
};

// The groups of rows of a block.
struct Share {
    int first_group, groups;

    GGTTS_ANYWHERE Share(const Matrix &matrix, Place block) {
        const int all = (matrix.rows + matrix.together - 1) / matrix.together;
        first_group = all * block.index / block.count;
        groups = all * (block.index + 1) / block.count - first_group;
    }
};

// Work of a warp on a matrix. A task is one piece of a group of rows; those of a block are counted piece by
// piece, and each warp has some that follow each other.
struct Tasks {
    int first_row, groups;  // of the block
    int first, count;       // of the warp
    int group, piece;       // of the first one

    GGTTS_ANYWHERE Tasks(const Matrix &matrix, const Share &share, Place warp) {
        const int all = share.groups * matrix.pieces;
        first_row = share.first_group * matrix.together;
        groups = share.groups;
        first = all * warp.index / warp.count;
        count = all * (warp.index + 1) / warp.count - first;
        piece = groups == 0 ? 0 : first / groups;
        group = first - piece * groups;
    }
};

// The last row of a group may be missing: the one before stands for it.
GGTTS_ANYWHERE int existing_row(const Matrix &matrix, int row) {
    return row < matrix.rows ? row : matrix.rows - 1;
}

// What lies in a slot beside the weights, and does not have to be waited for.
struct Note {
    int matrix;  // beyond all others when nothing is left
    int task;
    int piece;
    int misalignments;  // of both rows: where they begin behind a multiple of 16 bytes, in two halves
};
inline constexpr int notes_at = row_room - static_cast<int>(sizeof(Note));
static_assert(most_piece_bytes + copy_bytes <= notes_at);

// Kinds of matrices: those of a layer, and the codec head.
inline constexpr int matrix_kinds = matrices_of_layer + 1;

GGTTS_ANYWHERE int kind_of(const Model &model, int matrix) {
    return matrix + 1 == model.matrix_count ? matrices_of_layer : matrix % matrices_of_layer;
}

// The tasks of a warp on a kind of matrix, which is of one shape in all layers.
GGTTS_ANYWHERE Tasks tasks_of(const Model &model, int kind, Place block, Place warp) {
    const Matrix &matrix = model.matrices[kind == matrices_of_layer ? model.matrix_count - 1 : kind];
    return {matrix, Share(matrix, block), warp};
}

// What one warp multiplies, in its order.
template <class Type>
class WeightStream {
public:
    // `tasks` are those of this warp, by kind; `memory` has `slots` slots, and there is a barrier for each.
    GGTTS_ANYWHERE WeightStream(const Model &model, const Tasks *tasks, uint8_t *memory, uint64_t *barriers,
                                int slots)
        : model_(&model), tasks_(tasks), memory_(memory), slots_(slots), arrivals_(barriers, slots) {
        enter(0);
    }

    template <class Warp>
    GGTTS_ANYWHERE void start(const Warp &warp) {
        arrivals_.begin(warp);
        free_ = slots_;
        refill(warp);
    }

    // Asks for what there is room for: when nobody waits for this warp.
    template <class Warp>
    GGTTS_ANYWHERE void refill(const Warp &warp) {
        GGTTS_SHORT_LOOP
        for (; free_ > 0; --free_) {
            ask(warp);
            if (++asked_ == slots_)
                asked_ = 0;
        }
    }

    // What the next task is.
    GGTTS_ANYWHERE Note note() const { return *reinterpret_cast<const Note *>(slot(current_) + notes_at); }

    // Its weights, row by row, each where it would lie behind a multiple of 16 bytes.
    template <class Warp>
    GGTTS_ANYWHERE const uint8_t *front(const Warp &warp) const {
        arrivals_.wait(warp, current_, slots_ - 1 - free_);
        return slot(current_);
    }

    // Gives them back. Not each of them is asked for anew at once: while others wait for the results of this
    // warp, it has something better to do.
    template <class Warp>
    GGTTS_ANYWHERE void next(const Warp &warp) {
        if (++current_ == slots_) {
            current_ = 0;
            arrivals_.next_round();
        }
        if (++free_ > slots_ / 2)
            refill(warp);
    }

private:
    GGTTS_ANYWHERE uint8_t *slot(int index) const { return memory_ + index * slot_bytes; }

    // Goes to the first task of a matrix, or of one after it.
    GGTTS_ANYWHERE void enter(int matrix) {
        GGTTS_SHORT_LOOP
        for (matrix_ = matrix; matrix_ < model_->matrix_count; ++matrix_) {
            const Tasks &tasks = tasks_[kind_of(*model_, matrix_)];
            if (tasks.count == 0)
                continue;
            groups_ = tasks.groups;
            first_row_ = tasks.first_row;
            task_ = tasks.first;
            left_ = tasks.count;
            group_ = tasks.group;
            piece_ = tasks.piece;
            found_ = false;
            return;
        }
    }

    GGTTS_ANYWHERE void find_rows() {
        const Matrix &matrix = model_->matrices[matrix_];
        const int row = first_row_ + group_ * matrix.together;
        together_ = matrix.together;
        stride_ = matrix.stride;
        const int left = matrix.row_bytes - piece_ * Type::piece_bytes;
        count_ = left < Type::piece_bytes ? left : Type::piece_bytes;
        for (int i = 0; i < most_rows_together; ++i)
            rows_[i] = row_of(matrix, existing_row(matrix, row + i)) + piece_ * Type::piece_bytes;
    }

    template <class Warp>
    GGTTS_ANYWHERE void ask(const Warp &warp) {
        Note note{matrix_, task_, piece_, 0};
        if (matrix_ < model_->matrix_count) {
            if (!found_)
                find_rows();
            const Bytes bytes[most_rows_together] = {{rows_[0], count_}, {rows_[1], count_}};
            note.misalignments = misalignment(rows_[0]) | misalignment(rows_[1]) << 16;
            arrivals_.ask(warp, asked_, slot(asked_), row_room, bytes, together_);
            advance();
        }
        warp.each(1, [&](int) { *reinterpret_cast<Note *>(slot(asked_) + notes_at) = note; });
    }

    GGTTS_ANYWHERE void advance() {
        if (--left_ == 0)
            return enter(matrix_ + 1);
        ++task_;
        ++group_;
        if (group_ == groups_) {
            group_ = 0;
            ++piece_;
        }
        found_ = group_ != 0 && group_ + 1 != groups_ && stride_ != 0;
        for (int i = 0; i < most_rows_together; ++i)
            rows_[i] += stride_;
    }

    const Model *model_;
    const Tasks *tasks_;
    uint8_t *memory_;
    int slots_, current_ = 0, asked_ = 0, free_ = 0;
    Arrivals arrivals_;
    // The task to ask for next.
    int matrix_ = 0, task_ = 0, left_ = 0, first_row_ = 0, groups_ = 0, group_ = 0, piece_ = 0;
    int together_ = 0, stride_ = 0, count_ = 0;
    const uint8_t *rows_[most_rows_together] = {};
    bool found_ = false;
};

}  // namespace ggtts::talker
