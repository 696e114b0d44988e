// Where a tile of a convolution is: its positions and outputs, and where its inputs come from.
#pragma once

#include "conv_model.hpp"

namespace ggtts::conv {

// Which positions and outputs a block computes, of which segments.
struct TilePlace {
    int row_tile, column_tile, tile, part;
    int first_row, first_stream, first_time, rows_of_first;

    template <class Shape>
    static GGTTS_ANYWHERE TilePlace of(const Pass &pass, int block, const Shape &) {
        TilePlace place;
        const int columns = pass.layer.column_tiles();
        place.tile = block / pass.split;
        place.part = block % pass.split;
        place.row_tile = place.tile / columns;
        place.column_tile = place.tile % columns;
        place.first_row = place.row_tile * Shape::rows;
        place.first_stream = place.first_row / pass.time;
        place.first_time = place.first_row % pass.time;
        const int left = pass.time - place.first_time;
        place.rows_of_first = (left < Shape::rows ? left : Shape::rows) + pass.layer.past();
        return place;
    }

    // The rows of inputs that it needs: those of one stream after the other, each behind its past.
    GGTTS_ANYWHERE int inputs(const Pass &pass, int tile_rows) const {
        const int end = first_row + tile_rows < pass.rows() ? first_row + tile_rows : pass.rows();
        return end - first_row + ((end - 1) / pass.time - first_stream + 1) * pass.layer.past();
    }
    // Which of them a position reads at the first tap.
    GGTTS_ANYWHERE int place_of(const Pass &pass, int row) const {
        row = row < pass.rows() ? row : pass.rows() - 1;
        if (first_time + row - first_row < pass.time)
            return row - first_row;
        const int further = row / pass.time - first_stream;
        return rows_of_first + (further - 1) * (pass.time + pass.layer.past()) + row % pass.time;
    }
    // Where one of them comes from: a row of x, or ~ a row of the memory.
    GGTTS_ANYWHERE int source_of(const Pass &pass, int input) const {
        const int past = pass.layer.past(), extent = pass.time + past;
        int stream = first_stream, position = first_time + input;
        if (input >= rows_of_first) {
            stream += 1 + (input - rows_of_first) / extent;
            position = (input - rows_of_first) % extent;
        }
        return position >= past ? stream * pass.time + position - past
                                : ~(pass.lanes[stream] * past + position);
    }
};

// Where a row of inputs begins; null: zeros.
template <class Number>
GGTTS_ANYWHERE const Number *input_row(const Pass &pass, int source) {
    const auto *x = static_cast<const Number *>(pass.x), *memory = static_cast<const Number *>(pass.memory);
    if (source >= 0)
        return x + static_cast<int64_t>(source) * pass.layer.inputs;
    return memory == nullptr ? nullptr : memory + static_cast<int64_t>(~source) * pass.layer.inputs;
}

// A step: a chunk of inputs at a tap.
struct Step {
    int chunk, tap, number, room;  // where the inputs of the chunk are

    GGTTS_ANYWHERE void advance(int taps, int rooms) {
        ++number;
        if (++tap == taps) {
            tap = 0;
            ++chunk;
            room = room + 1 == rooms ? 0 : room + 1;
        }
    }
};

}  // namespace ggtts::conv
