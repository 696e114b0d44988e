// What a tile of a convolution multiplies: copied to shared memory while others are multiplied with.
#pragma once

#include "conv_place.hpp"
#include "conv_registers.hpp"

namespace ggtts::conv {

// Shared memory has rooms for the weights of some steps, for the inputs of some chunks, and where the rows of
// those come from.
template <class Shape, class Tile>
class Feed {
    using Number = typename Stored<Shape::kind>::Number;

public:
    GGTTS_ANYWHERE Feed(Tile &tile, const Pass &pass, const TilePlace &place, float *shared)
        : tile_(tile),
          pass_(pass),
          place_(place),
          rooms_(input_rooms(pass.layer.taps)),
          input_rows_(place.inputs(pass, Shape::rows)),
          weights_(reinterpret_cast<uint8_t *>(shared)),
          inputs_(reinterpret_cast<Number *>(shared + weight_rooms * weight_room_floats(Shape::kind))),
          sources_(reinterpret_cast<const Number **>(inputs_ + rooms_ * pass.row_room * chunk_width)) {}

    // Prepares `steps` steps that begin with a chunk, as far as nobody needs to be waited for: weights are
    // there before other kernels have left their results.
    GGTTS_ANYWHERE void begin(int chunk, int steps) {
        const Layer &layer = pass_.layer;
        const int first_group = place_.column_tile * groups_of_tile;
        wanted_ = {chunk, 0, 0, 0};
        steps_ = steps;
        const int left = layer.groups() - first_group;
        words_ = (left < groups_of_tile ? left : groups_of_tile) * words_of_group;
        const uint8_t *source =
            layer.weights +
            (static_cast<int64_t>(chunk) * layer.taps * layer.groups() + first_group) * Shape::group_bytes;
        tile_.all(
            [&](int thread, Registers<Shape> &own) { own.weights_to_come = source + thread * word_bytes; });
#pragma unroll 1
        for (int step = 0; step < steps_ahead && step < steps; ++step)
            request_weights(step);
        tile_.spread(input_rows_, [&](int row) {
            sources_[row] = input_row<Number>(pass_, place_.source_of(pass_, row));
        });
    }

    // Has the inputs of the next step copied if they are those of another chunk, and its weights unless they
    // are among the first.
    GGTTS_ANYWHERE void request(bool first) {
        if (wanted_.number < steps_) {
            if (!first)
                request_weights(wanted_.number);
            if (wanted_.tap == 0)
                request_inputs();
            wanted_.advance(pass_.layer.taps, rooms_);
        }
    }

    GGTTS_ANYWHERE int rooms() const { return rooms_; }
    GGTTS_ANYWHERE uint8_t *weights(int step) const {
        return weights_ + static_cast<unsigned>(step) % weight_rooms * groups_of_tile * Shape::group_bytes;
    }
    // A half of the inputs of a chunk: rows of 16, so that what lanes read together lies in all banks.
    GGTTS_ANYWHERE Number *inputs(int room, int half) const {
        return inputs_ + (room * halves_of_chunk + half) * pass_.row_room * half_width;
    }

private:
    static constexpr int word_bytes = 16, words_of_group = Shape::group_bytes / word_bytes;

    // What a thread copies lies in one place of each step.
    GGTTS_ANYWHERE void request_weights(int step) {
        uint8_t *room = weights(step);
        const int64_t next = static_cast<int64_t>(pass_.layer.groups()) * Shape::group_bytes;
        tile_.all([&](int thread, Registers<Shape> &own) {
#pragma unroll
            for (int turn = 0; turn < groups_of_tile * words_of_group / tile_threads; ++turn) {
                const int further = turn * tile_threads * word_bytes;
                if (thread + turn * tile_threads < words_)
                    tile_.copy_words(room + thread * word_bytes + further, own.weights_to_come + further,
                                     true);
            }
            own.weights_to_come += next;
        });
    }

    GGTTS_ANYWHERE void request_inputs() {
        const int channel = wanted_.chunk * chunk_width;
        if (pass_.layer.inputs % word == 0)
            copy_rows(channel);
        else
            copy_numbers(channel);
    }

    GGTTS_ANYWHERE Number *target(int half, int row) const {
        return inputs(wanted_.room, half) + row * half_width;
    }

    // A thread has the same part of every few rows.
    GGTTS_ANYWHERE void copy_rows(int first) {
        constexpr int words_of_half = half_width / word, words_of_row = chunk_width / word;
        constexpr int rows_apart = tile_threads / words_of_row;
        tile_.all([&](int thread, Registers<Shape> &) {
            const int part = thread % words_of_row, begin = thread / words_of_row;
            const int channel = first + part * word;
            Number *room = target(part / words_of_half, begin) + part % words_of_half * word;
            const bool exists = channel < pass_.layer.inputs;
#pragma unroll 2
            for (int row = begin; row < input_rows_; row += rows_apart, room += rows_apart * half_width) {
                const Number *source = sources_[row];
                const bool found = exists && source != nullptr;
                tile_.copy_words(room, found ? source + channel : pass_.x, found);
            }
        });
    }

    // The same where rows do not begin at a multiple of what is copied at once.
    GGTTS_ANYWHERE void copy_numbers(int first) {
        tile_.spread(input_rows_ * chunk_width, [&](int index) {
            const int row = index / chunk_width, place = index % chunk_width, channel = first + place;
            const Number *source = sources_[row];
            const bool exists = source != nullptr && channel < pass_.layer.inputs;
            target(place / half_width, row)[place % half_width] = exists ? source[channel] : Number{};
        });
    }

    static constexpr int word = word_bytes / static_cast<int>(sizeof(Number));  // numbers

    Tile &tile_;
    const Pass &pass_;
    const TilePlace place_;
    const int rooms_, input_rows_;
    uint8_t *weights_;
    Number *inputs_;
    const Number **sources_;
    Step wanted_{};
    int steps_ = 0, words_ = 0;
};

}  // namespace ggtts::conv
