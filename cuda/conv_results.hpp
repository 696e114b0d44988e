// What a tile of a convolution does with its sums: bias, trunk and snake, and whole rows are written.
#pragma once

#include "conv_place.hpp"
#include "conv_registers.hpp"

namespace ggtts::conv {

template <class Shape, class Tile>
class Results {
    using Numbers = Stored<Shape::kind>;
    using Number = typename Numbers::Number;

public:
    // Sums lie where other things were before; what columns need lies beside both.
    GGTTS_ANYWHERE Results(Tile &tile, const Pass &pass, const TilePlace &place, float *shared)
        : tile_(tile),
          pass_(pass),
          place_(place),
          sums_(shared),
          bias_(shared + working_floats(pass.layer, Shape::kind, Shape::rows, pass.row_room)),
          frequency_(bias_ + tile_outputs),
          magnitude_(frequency_ + tile_outputs) {}

    // Has what columns need at hand.
    GGTTS_ANYWHERE void begin() {
        const Layer &layer = pass_.layer;
        const int first = place_.column_tile * tile_outputs;
        tile_.spread(smaller(tile_outputs, layer.outputs - first), [&](int column) {
            bias_[column] = layer.bias[first + column];
            if (layer.frequency != nullptr) {
                frequency_[column] = layer.frequency[first + column];
                magnitude_[column] = layer.magnitude[first + column];
            }
        });
    }

    GGTTS_ANYWHERE void leave() {
        tile_.meet();
        tile_.each([&](int warp, int lane, Registers<Shape> &own) { gather(warp, lane, own); });
        tile_.meet();
        const int rows = smaller(Shape::rows, pass_.rows() - place_.first_row);
        if (pass_.layer.outputs % 4 == 0)
            leave_rows(rows);
        else
            leave_single(rows);
    }

private:
    static GGTTS_ANYWHERE int smaller(int a, int b) { return a < b ? a : b; }

    // An instruction leaves a lane two neighbouring positions of two outputs.
    GGTTS_ANYWHERE void gather(int warp, int lane, const Registers<Shape> &own) {
        const int column = warp % warps_across * groups_of_warp * group_width + lane / 4;
        const int row = warp / warps_across * Shape::bands * band + lane % 4 * 2;
        float *target = sums_ + row * result_stride + column;
#pragma unroll
        for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
            for (int quad = 0; quad < quads_of_band; ++quad) {
                const auto &sums = Shape::exact ? own.totals[index][quad] : own.sums[index][quad];
                const int group = quad % groups_of_warp, eight = quad / groups_of_warp;
                float *place = target + (index * band + eight * 8) * result_stride + group * group_width;
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    place[i % 2 * result_stride + i / 2 * 8] = sums[i];
            }
        }
    }

    GGTTS_ANYWHERE void leave_rows(int rows) {
        constexpr int words = tile_outputs / 4;
        const int outputs = pass_.layer.outputs, first_column = place_.column_tile * tile_outputs;
        const auto place = [&](int index) {
            return static_cast<int64_t>(place_.first_row + index / words) * outputs + first_column +
                   index % words * 4;
        };
        const auto exists = [&](int index) { return first_column + index % words * 4 < outputs; };
        const auto sums = [&](int index) {
            return sums_ + index / words * result_stride + index % words * 4;
        };
        if (pass_.trunk != nullptr) {
            tile_.template spread_together<words_together>(
                rows * words,
                [&](int index) { return exists(index) ? load_four(pass_.trunk + place(index)) : Floats{}; },
                [&](int index, const Floats &trunk) { add_four(trunk, index % words * 4, sums(index)); });
        }
        tile_.spread(rows * words, [&](int index) {  // each thread what it has added to
            if (exists(index))
                leave_four(load_four(sums(index)), index % words * 4, place(index));
        });
    }

    GGTTS_ANYWHERE void add_four(const Floats &trunk, int column, float *place) const {
        const Floats sums = load_four(place), bias = load_four(bias_ + column);
        Floats values;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            values.at[i] = trunk.at[i] + (sums.at[i] + bias.at[i]);
        store_four(values, place);
    }

    GGTTS_ANYWHERE void leave_four(Floats values, int column, int64_t at) const {
        const Layer &layer = pass_.layer;
        if (pass_.trunk == nullptr) {
            const Floats bias = load_four(bias_ + column);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                values.at[i] += bias.at[i];
        }
        if (pass_.raw != nullptr)
            store_four(values, pass_.raw + at);
        if (layer.frequency != nullptr) {
            const Floats frequency = load_four(frequency_ + column);
            const Floats magnitude = load_four(magnitude_ + column);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                values.at[i] = snake(values.at[i], frequency.at[i], magnitude.at[i]);
        }
        if (pass_.active != nullptr)
            store_four(values, static_cast<Number *>(pass_.active) + at);
        if (pass_.results != nullptr)
            store_four(values, pass_.results + at);
    }

    // The same for rows of any length.
    GGTTS_ANYWHERE void leave_single(int rows) {
        const Layer &layer = pass_.layer;
        const int first_column = place_.column_tile * tile_outputs;
        tile_.spread(rows * tile_outputs, [&](int index) {
            const int row = index / tile_outputs, column = index % tile_outputs;
            if (first_column + column >= layer.outputs)
                return;
            const int64_t at =
                static_cast<int64_t>(place_.first_row + row) * layer.outputs + first_column + column;
            float value = sums_[row * result_stride + column] + bias_[column];
            if (pass_.trunk != nullptr)
                value = pass_.trunk[at] + value;
            if (pass_.raw != nullptr)
                pass_.raw[at] = value;
            if (layer.frequency != nullptr)
                value = snake(value, frequency_[column], magnitude_[column]);
            if (pass_.active != nullptr)
                static_cast<Number *>(pass_.active)[at] = Numbers::of(value);
            if (pass_.results != nullptr)
                pass_.results[at] = value;
        });
    }

    // Loads of a trunk that are on their way at once: all of a narrow tile.
    static constexpr int words_together = 6;

    Tile &tile_;
    const Pass &pass_;
    const TilePlace place_;
    float *sums_, *bias_, *frequency_, *magnitude_;
};

}  // namespace ggtts::conv
