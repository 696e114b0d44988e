// A tile of a convolution on matrix units: some positions, some outputs, all inputs or a part of them.
//
// The inputs of a chunk of channels are copied to shared memory once and read at the places of all taps; the
// weights come step by step, a chunk of a tap at a time. The order in which a result is summed up depends on
// the layer only: neither on streams, positions, tiles or blocks.
#pragma once

#include "conv_model.hpp"

namespace ggtts::conv {

using predictor::bits_of_float;
using predictor::float_of_bits;
using predictor::Floats;

// Matrix units read 10 bits of mantissa and ignore the others: half of the last one makes that rounding.
inline constexpr uint32_t half_of_last_bit = 0x1000U, bits_read = 0xFFFFE000U;

GGTTS_ANYWHERE float rounded(float value) {
    return float_of_bits(bits_of_float(value) + half_of_last_bit);
}
GGTTS_ANYWHERE float upper_part(float value) {
    return float_of_bits((bits_of_float(value) + half_of_last_bit) & bits_read);
}

// sin^2, with a period of pi: what is left of x behind whole periods, and a Taylor polynomial.
GGTTS_ANYWHERE float squared_sine(float x) {
    const float periods = rintf(x * 0.318309886F);
    float rest = fmaf(periods, -3.14159274F, x);
    rest = fmaf(periods, 8.74227766e-8F, rest);
    const float square = rest * rest;
    float series = 1.6059044e-10F;
    series = fmaf(series, square, -2.50521084e-8F);
    series = fmaf(series, square, 2.75573192e-6F);
    series = fmaf(series, square, -1.98412698e-4F);
    series = fmaf(series, square, 8.33333333e-3F);
    series = fmaf(series, square, -1.66666667e-1F);
    const float sine = fmaf(rest * square, series, rest);
    return sine * sine;
}

GGTTS_ANYWHERE float snake(float x, float frequency, float magnitude) {
    return fmaf(squared_sine(x * frequency), magnitude, x);
}

// What one instruction multiplies: 16 positions and 8 outputs, 8 inputs deep (PTX ISA, "Matrix fragments for
// mma.m16n8k8 with .tf32").
struct Operands {
    float rows[4], columns[2];
    float *sums;
};

// What a lane of a warp has in registers. Of sixteen neighbouring inputs (a half of a chunk) it reads four;
// the first two are those of one instruction, the others of the next: which inputs meet is all that matters.
template <class Shape>
struct Registers {
    float sums[Shape::bands][groups_of_warp][4];
    float totals[Shape::exact ? Shape::bands : 1][groups_of_warp][4];
    Floats rows[Shape::bands][2], columns;
    int places[Shape::bands][2];  // where it reads in the inputs for the first tap
};

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
        const int further = row / pass.time - first_stream;
        if (further == 0)
            return row - first_row;
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
        return position >= past ? stream * pass.time + position - past : ~(pass.lanes[stream] * past + position);
    }
};

// Where a row of inputs begins; null: zeros.
GGTTS_ANYWHERE const float *input_row(const Pass &pass, int source) {
    if (source >= 0)
        return pass.x + static_cast<int64_t>(source) * pass.layer.inputs;
    return pass.memory == nullptr ? nullptr : pass.memory + static_cast<int64_t>(~source) * pass.layer.inputs;
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

// `Tile` is what a GPU or its emulation does for the threads of a block: see cuda_conv.cuh.
template <class Shape, class Tile>
class TileProduct {
public:
    GGTTS_ANYWHERE TileProduct(Tile &tile, const Pass &pass, float *shared)
        : tile_(tile),
          pass_(pass),
          place_(TilePlace::of(pass, tile.block(), Shape())),
          weights_(shared),
          inputs_(shared + weight_rooms * weight_room_floats),
          sources_(reinterpret_cast<int *>(inputs_ + input_rooms(pass.layer.taps) * pass.row_room * chunk_width)),
          input_rows_(place_.inputs(pass, Shape::rows)) {}

    GGTTS_ANYWHERE void run() {
        const Layer &layer = pass_.layer;
        tile_.spread(input_rows_, [&](int row) { sources_[row] = place_.source_of(pass_, row); });
        tile_.start([&](int warp) { return first_row_of(warp) < pass_.rows(); });
        tile_.each([&](int warp, int lane, Registers<Shape> &own) {
#pragma unroll
            for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int row = first_row_of(warp) + index * band + i * 8 + lane / 4;
                    const int at = place_.place_of(pass_, row);
                    own.places[index][i] = at * chunk_width + at % 2 * 16 + lane % 4 * 4;
                }
            }
            clear(own.sums);
            clear(own.totals);
        });
        tile_.meet();
        const int segments = layer.segments();
        const int first = segments * place_.part / pass_.split;
        const int last = segments * (place_.part + 1) / pass_.split;
        multiply(first, last);
        if (pass_.split == 1 || complete(segments))
            leave();
    }

private:
    GGTTS_ANYWHERE int first_row_of(int warp) const {
        return place_.first_row + warp / warps_across * Shape::bands * band;
    }

    template <int groups>
    static GGTTS_ANYWHERE void clear(float (&values)[groups][groups_of_warp][4]) {
#pragma unroll
        for (int index = 0; index < groups; ++index) {
#pragma unroll
            for (int group = 0; group < groups_of_warp; ++group) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    values[index][group][i] = 0.0F;
            }
        }
    }

    // Steps of segments `first` .. `last` - 1.
    GGTTS_ANYWHERE void multiply(int first, int last) {
        const Layer &layer = pass_.layer;
        const int last_chunk = smaller(last * layer.segment_chunks, layer.chunks());
        const int begin = first * layer.segment_chunks;
        const int steps = (last_chunk - begin) * layer.taps, rooms = input_rooms(layer.taps);
        Step now{begin, 0, 0, 0}, wanted = now;
#pragma unroll
        for (int i = 0; i < steps_ahead; ++i)
            request(wanted, steps);
        int segment = first, chunks_left = layer.segment_chunks;
#pragma unroll 1
        while (now.number < steps) {
            tile_.template arrive<steps_ahead - 1>();
            request(wanted, steps);
            if (tile_.busy()) {
                multiply_step(room_of(now), now.tap * layer.dilation,
                              weights_ + now.number % weight_rooms * weight_room_floats);
            }
            if constexpr (Shape::exact)
                tile_.each([&](int, int, Registers<Shape> &own) { gather(own); });
            now.advance(layer.taps, rooms);
            if (now.tap != 0)
                continue;
            if (--chunks_left == 0 || now.number == steps) {
                chunks_left = layer.segment_chunks;
                end_segment(segment, first, last);
                ++segment;
            }
        }
    }

    static GGTTS_ANYWHERE int smaller(int a, int b) { return a < b ? a : b; }

    // Has the weights of a step copied, and the inputs of its chunk if they are new.
    GGTTS_ANYWHERE void request(Step &wanted, int steps) {
        if (wanted.number < steps) {
            request_weights(wanted);
            if (wanted.tap == 0)
                request_inputs(wanted);
            wanted.advance(pass_.layer.taps, input_rooms(pass_.layer.taps));
        }
        tile_.commit();
    }

    GGTTS_ANYWHERE float *room_of(const Step &step) const {
        return inputs_ + step.room * pass_.row_room * chunk_width;
    }

    GGTTS_ANYWHERE void request_weights(const Step &step) {
        const Layer &layer = pass_.layer;
        const int first = place_.column_tile * groups_of_tile;
        const int groups = smaller(groups_of_tile, layer.groups() - first);
        const float *source =
            layer.weights +
            (static_cast<int64_t>(step.chunk * layer.taps + step.tap) * layer.groups() + first) * group_floats;
        float *target = weights_ + step.number % weight_rooms * weight_room_floats;
        tile_.spread(groups * group_floats / 4,
                     [&](int word) { tile_.copy_four(target + word * 4, source + word * 4, true); });
    }

    // Halves of odd rows change places, so that neighbouring rows lie in different banks.
    GGTTS_ANYWHERE void request_inputs(const Step &step) {
        constexpr int words_of_row = chunk_width / 4;
        const Layer &layer = pass_.layer;
        float *room = room_of(step);
        const int first = step.chunk * chunk_width;
        if (layer.inputs % 4 == 0) {
            tile_.spread(input_rows_ * words_of_row, [&](int index) {
                const int row = index / words_of_row, word = index % words_of_row, channel = first + word * 4;
                const float *source = input_row(pass_, sources_[row]);
                const bool exists = source != nullptr && channel < layer.inputs;
                tile_.copy_four(room + row * chunk_width + (word ^ row % 2 * 4) * 4,
                                exists ? source + channel : pass_.x, exists);
            });
        } else {
            tile_.spread(input_rows_ * chunk_width, [&](int index) {
                const int row = index / chunk_width, place = index % chunk_width, channel = first + place;
                const float *source = input_row(pass_, sources_[row]);
                const bool exists = source != nullptr && channel < layer.inputs;
                tile_.copy_one(room + row * chunk_width + (place ^ row % 2 * 16),
                               exists ? source + channel : pass_.x, exists);
            });
        }
    }

    GGTTS_ANYWHERE void multiply_step(const float *inputs, int shift, const float *weights) {
        const float *shifted = inputs + shift * chunk_width;
        const int swapped = shift % 2 * 16;
#pragma unroll
        for (int half = 0; half < halves_of_chunk; ++half) {
            tile_.each([&](int, int, Registers<Shape> &own) {
#pragma unroll
                for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const int at = own.places[index][i] ^ (half * 16 ^ swapped);
                        own.rows[index][i] = *reinterpret_cast<const Floats *>(shifted + at);
                    }
                }
                if constexpr (!Shape::exact)
                    round_rows(own);
            });
#pragma unroll
            for (int group = 0; group < groups_of_warp; ++group) {
                tile_.each([&](int warp, int lane, Registers<Shape> &own) {
                    const int column = warp % warps_across * groups_of_warp + group;
                    own.columns = *reinterpret_cast<const Floats *>(
                        weights + (column * halves_of_chunk + half) * group_floats / 2 + lane * 4);
                });
                multiply_group(group);
            }
        }
    }

    static GGTTS_ANYWHERE void round_rows(Registers<Shape> &own) {
#pragma unroll
        for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    own.rows[index][i].at[j] = rounded(own.rows[index][i].at[j]);
            }
        }
    }

    // Both instructions of a half. Exact products leave out only what the lower parts have in common.
    GGTTS_ANYWHERE void multiply_group(int group) {
#pragma unroll
        for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
            for (int deep = 0; deep < 2; ++deep) {
                if constexpr (Shape::exact) {
                    multiply_parts<true, false>(index, group, deep);
                    multiply_parts<false, true>(index, group, deep);
                }
                multiply_parts<false, false>(index, group, deep);
            }
        }
    }

    template <bool lower_row, bool lower_column>
    GGTTS_ANYWHERE void multiply_parts(int index, int group, int deep) {
        tile_.multiply([&](Registers<Shape> &own) {
            const auto row = [&](int i, int j) { return part<lower_row>(own.rows[index][i].at[2 * deep + j]); };
            const auto column = [&](int j) { return part<lower_column>(own.columns.at[2 * deep + j]); };
            return Operands{{row(0, 0), row(1, 0), row(0, 1), row(1, 1)},
                            {column(0), column(1)},
                            own.sums[index][group]};
        });
    }

    template <bool lower>
    static GGTTS_ANYWHERE float part(float value) {
        if constexpr (!Shape::exact)
            return value;
        return lower ? value - upper_part(value) : upper_part(value);
    }

    // Adds the sums of a few instructions to those of all others, rounded to the nearest: matrix units cut
    // off.
    static GGTTS_ANYWHERE void gather(Registers<Shape> &own) {
#pragma unroll
        for (int index = 0; index < (Shape::exact ? Shape::bands : 0); ++index) {
#pragma unroll
            for (int group = 0; group < groups_of_warp; ++group) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    own.totals[index][group][i] += own.sums[index][group][i];
                    own.sums[index][group][i] = 0.0F;
                }
            }
        }
    }

    // The sums of a segment as the threads of a tile have them.
    GGTTS_ANYWHERE float *partial(int slot, int index, int group, int thread) const {
        constexpr int values = Shape::values * tile_threads;
        return pass_.partials + static_cast<int64_t>(slot) * values +
               static_cast<int64_t>((index * groups_of_warp + group) * tile_threads + thread) * 4;
    }

    // A block that has all segments to itself adds them up; others leave each in a place of its own.
    GGTTS_ANYWHERE void end_segment(int segment, int first, int last) {
        if constexpr (Shape::exact) {
            return;
        } else {
            const bool alone = pass_.split == 1, begins = segment == first, ends = segment + 1 == last;
            if (alone && begins && ends)
                return;
            const int slot = alone ? place_.tile : place_.tile * pass_.layer.segments() + segment;
            tile_.each([&](int warp, int lane, Registers<Shape> &own) {
#pragma unroll
                for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
                    for (int group = 0; group < groups_of_warp; ++group) {
                        float *place = partial(slot, index, group, warp * lanes_of_warp + lane);
                        auto &sums = own.sums[index][group];
                        if (alone && !begins)
                            add_four(predictor::fresh_floats(place), sums);
                        if (!alone || !ends) {
                            *reinterpret_cast<Floats *>(place) = {{sums[0], sums[1], sums[2], sums[3]}};
                            sums[0] = sums[1] = sums[2] = sums[3] = 0.0F;
                        }
                    }
                }
            });
        }
    }

    static GGTTS_ANYWHERE void add_four(const Floats &before, float (&sums)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            sums[i] = before.at[i] + sums[i];
    }

    // Whether all segments of the tile are there; the block that is last adds them up.
    GGTTS_ANYWHERE bool complete(int segments) {
        if (!tile_.arrives_last(pass_.arrived + place_.tile, pass_.split))
            return false;
        tile_.each([&](int warp, int lane, Registers<Shape> &own) {
#pragma unroll 1
            for (int segment = 0; segment < segments; ++segment) {
#pragma unroll
                for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
                    for (int group = 0; group < groups_of_warp; ++group) {
                        const Floats value =
                            predictor::fresh_floats(partial(place_.tile * segments + segment, index, group,
                                                            warp * lanes_of_warp + lane));
                        auto &sums = own.sums[index][group];
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            sums[i] = segment == 0 ? value.at[i] : sums[i] + value.at[i];
                    }
                }
            }
        });
        return true;
    }

    // Bias, trunk and snake.
    GGTTS_ANYWHERE void leave() {
        tile_.each([&](int warp, int lane, Registers<Shape> &own) {
#pragma unroll
            for (int group = 0; group < groups_of_warp; ++group) {
                const int column = (place_.column_tile * groups_of_tile +
                                    warp % warps_across * groups_of_warp + group) *
                                       group_width +
                                   lane % 4 * 2;
                leave_columns(own, group, first_row_of(warp) + lane / 4, column);
            }
        });
    }

    GGTTS_ANYWHERE void leave_columns(Registers<Shape> &own, int group, int row, int column) const {
        const Layer &layer = pass_.layer;
        const bool paired = layer.outputs % 2 == 0;
        if (column >= layer.outputs)
            return;
#pragma unroll
        for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int at_row = row + index * band + i * 8;
                if (at_row >= pass_.rows())
                    continue;
                const auto &sums = Shape::exact ? own.totals[index] : own.sums[index];
                const Pair values{sums[group][2 * i], sums[group][2 * i + 1]};
                const int64_t at = static_cast<int64_t>(at_row) * layer.outputs + column;
                if (paired)
                    leave_pair(values, column, at);
                else
                    leave_apart(values, column, at);
            }
        }
    }

    struct alignas(8) Pair {
        float at[2];
    };
    static GGTTS_ANYWHERE Pair load_pair(const float *source) { return *reinterpret_cast<const Pair *>(source); }

    GGTTS_ANYWHERE void leave_pair(Pair values, int column, int64_t at) const {
        const Layer &layer = pass_.layer;
        const Pair bias = load_pair(layer.bias + column);
        values = {values.at[0] + bias.at[0], values.at[1] + bias.at[1]};
        if (pass_.trunk != nullptr) {
            const Pair trunk = load_pair(pass_.trunk + at);
            values = {trunk.at[0] + values.at[0], trunk.at[1] + values.at[1]};
        }
        if (pass_.raw != nullptr)
            *reinterpret_cast<Pair *>(pass_.raw + at) = values;
        if (pass_.active == nullptr)
            return;
        if (layer.frequency != nullptr) {
            const Pair frequency = load_pair(layer.frequency + column);
            const Pair magnitude = load_pair(layer.magnitude + column);
            values = {snake(values.at[0], frequency.at[0], magnitude.at[0]),
                      snake(values.at[1], frequency.at[1], magnitude.at[1])};
        }
        *reinterpret_cast<Pair *>(pass_.active + at) = values;
    }

    GGTTS_ANYWHERE void leave_apart(const Pair &values, int column, int64_t at) const {
        const Layer &layer = pass_.layer;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (column + i >= layer.outputs)
                continue;
            float value = values.at[i] + layer.bias[column + i];
            if (pass_.trunk != nullptr)
                value = pass_.trunk[at + i] + value;
            if (pass_.raw != nullptr)
                pass_.raw[at + i] = value;
            if (layer.frequency != nullptr)
                value = snake(value, layer.frequency[column + i], layer.magnitude[column + i]);
            if (pass_.active != nullptr)
                pass_.active[at + i] = value;
        }
    }

    Tile &tile_;
    const Pass &pass_;
    const TilePlace place_;
    float *weights_, *inputs_;
    int *sources_;
    const int input_rows_;
};

}  // namespace ggtts::conv
