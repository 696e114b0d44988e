// A tile of a convolution on matrix units: some positions, some outputs, all inputs or a part of them.
//
// The inputs of a chunk of channels are copied to shared memory once and read at the places of all taps; the
// weights come step by step, a chunk of a tap at a time. The order in which a result is summed up depends on
// the layer only: neither on streams, positions, tiles or blocks.
#pragma once

#include "conv_numbers.hpp"
#include "conv_place.hpp"

namespace ggtts::conv {

// What one instruction multiplies: 16 outputs and 8 positions, and 8 inputs as float32 or 16 as float16 (PTX
// ISA, "Matrix fragments for mma.m16n8k8 with .tf32", "for mma.m16n8k16 with floating point type").
struct Operands {
    uint32_t outputs[4], positions[2];
    float *sums;
};

// What a lane of a warp has in registers. Of sixteen neighbouring inputs (a half of a chunk) it reads four,
// which are those of one instruction, or two of one and two of the next: which inputs meet is all that
// matters.
template <class Shape>
struct Registers {
    float sums[Shape::bands][quads_of_band][4];
    float totals[Shape::exact ? Shape::bands : 1][quads_of_band][4];
    Floats inputs[Shape::bands][2], weights[2];
    TwoWords input_halves[Shape::bands][2];
    Words weight_halves;
    uint32_t places[Shape::bands];  // two rows that it reads for the first tap, in 16 bits each
};

// `Tile` is what a GPU or its emulation does for the threads of a block: see cuda_conv.cuh.
template <class Shape, class Tile>
class TileProduct {
    using Numbers = Stored<Shape::kind>;
    using Number = typename Numbers::Number;

public:
    GGTTS_ANYWHERE TileProduct(Tile &tile, const Pass &pass, float *shared)
        : tile_(tile),
          pass_(pass),
          place_(TilePlace::of(pass, tile.block(), Shape())),
          results_(shared),
          weights_(reinterpret_cast<uint8_t *>(shared)),
          inputs_(reinterpret_cast<Number *>(shared + weight_rooms * weight_room_floats(Shape::kind))),
          sources_(
              reinterpret_cast<int *>(inputs_ + input_rooms(pass.layer.taps) * pass.row_room * chunk_width)),
          input_rows_(place_.inputs(pass, Shape::rows)) {}

    GGTTS_ANYWHERE void run() {
        const Layer &layer = pass_.layer;
        tile_.spread(input_rows_, [&](int row) { sources_[row] = place_.source_of(pass_, row); });
        tile_.start([&](int warp) { return first_row_of(warp) < pass_.rows(); });
        tile_.each([&](int warp, int lane, Registers<Shape> &own) {
#pragma unroll
            for (int index = 0; index < Shape::bands; ++index) {
                const int row = first_row_of(warp) + index * band + lane / 4;
                own.places[index] = static_cast<uint32_t>(place_.place_of(pass_, row)) |
                                    static_cast<uint32_t>(place_.place_of(pass_, row + 8)) << 16;
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
    static GGTTS_ANYWHERE void clear(float (&values)[groups][quads_of_band][4]) {
#pragma unroll
        for (int index = 0; index < groups; ++index) {
#pragma unroll
            for (int quad = 0; quad < quads_of_band; ++quad) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    values[index][quad][i] = 0.0F;
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
                multiply_step(room_of(now), now.tap * layer.dilation, weights_of(now));
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

    GGTTS_ANYWHERE uint8_t *weights_of(const Step &step) const {
        return weights_ + step.number % weight_rooms * groups_of_tile * Shape::group_bytes;
    }
    GGTTS_ANYWHERE Number *room_of(const Step &step) const {
        return inputs_ + step.room * pass_.row_room * chunk_width;
    }

    GGTTS_ANYWHERE void request_weights(const Step &step) {
        const Layer &layer = pass_.layer;
        const int first = place_.column_tile * groups_of_tile;
        const int groups = smaller(groups_of_tile, layer.groups() - first);
        const int64_t begin =
            static_cast<int64_t>(step.chunk * layer.taps + step.tap) * layer.groups() + first;
        const uint8_t *source = layer.weights + begin * Shape::group_bytes;
        uint8_t *target = weights_of(step);
        constexpr int words_of_group = Shape::group_bytes / 16;
        tile_.template spread_at_most<groups_of_tile * words_of_group>(
            groups * words_of_group,
            [&](int word) { tile_.copy_words(target + word * 16, source + word * 16, true); });
    }

    // The halves of some rows change places, so that those of rows that are read together lie in different
    // banks: neighbours of 128 bytes each, or four of 64.
    static GGTTS_ANYWHERE int swapped(int row) { return sizeof(Number) == 4 ? row & 1 : row >> 1 & 1; }

    GGTTS_ANYWHERE void request_inputs(const Step &step) {
        constexpr int word = 16 / sizeof(Number), words_of_row = chunk_width / word;
        const Layer &layer = pass_.layer;
        Number *room = room_of(step);
        const int first = step.chunk * chunk_width;
        if (layer.inputs % word == 0) {
            tile_.spread_in_fours(
                input_rows_ * words_of_row, [&](int index) { return sources_[index / words_of_row]; },
                [&](int index, int from) {
                    const int row = index / words_of_row, place = index % words_of_row;
                    const int channel = first + place * word;
                    const Number *source = input_row<Number>(pass_, from);
                    const bool exists = source != nullptr && channel < layer.inputs;
                    const int target = place ^ swapped(row) * (words_of_row / halves_of_chunk);
                    tile_.copy_words(room + row * chunk_width + target * word,
                                     exists ? source + channel : pass_.x, exists);
                });
        } else {
            tile_.spread(input_rows_ * chunk_width, [&](int index) {
                const int row = index / chunk_width, place = index % chunk_width, channel = first + place;
                const Number *source = input_row<Number>(pass_, sources_[row]);
                const bool exists = source != nullptr && channel < layer.inputs;
                room[row * chunk_width + (place ^ swapped(row) * half_width)] =
                    exists ? source[channel] : Number{};
            });
        }
    }

    GGTTS_ANYWHERE void multiply_step(const Number *inputs, int shift, const uint8_t *weights) {
#pragma unroll
        for (int half = 0; half < halves_of_chunk; ++half) {
            tile_.each([&](int, int lane, Registers<Shape> &own) {
#pragma unroll
                for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const int row = static_cast<int>(own.places[index] >> (16 * i) & 0xFFFFU) + shift;
                        load_inputs(
                            own, index, i,
                            inputs + row * chunk_width + (half ^ swapped(row)) * half_width + lane % 4 * 4);
                    }
                }
            });
#pragma unroll
            for (int group = 0; group < groups_of_warp; ++group) {
                tile_.each([&](int warp, int lane, Registers<Shape> &own) {
                    const int of_tile = warp % warps_across * groups_of_warp + group;
                    load_weights(own, lane, weights + (of_tile * halves_of_chunk + half) * half_bytes);
                });
                multiply_group(group);
            }
        }
    }

    static constexpr int half_bytes = Shape::group_bytes / halves_of_chunk;

    static GGTTS_ANYWHERE void load_inputs(Registers<Shape> &own, int index, int i, const Number *source) {
        if constexpr (Shape::kind == Kind::halves) {
            own.input_halves[index][i] = *reinterpret_cast<const TwoWords *>(source);
        } else {
            const Floats values = *reinterpret_cast<const Floats *>(source);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                own.inputs[index][i].at[j] = Shape::exact ? values.at[j] : rounded(values.at[j]);
        }
    }

    // As `packed_weights` has left them: sixteen bytes for each lane and instruction.
    static GGTTS_ANYWHERE void load_weights(Registers<Shape> &own, int lane, const uint8_t *source) {
        constexpr int bytes_of_lanes = half_bytes / (sizeof(Number) == 4 ? 2 : 1);
        if constexpr (Shape::kind == Kind::halves) {
            own.weight_halves = *reinterpret_cast<const Words *>(source + lane * 16);
        } else {
#pragma unroll
            for (int deep = 0; deep < 2; ++deep)
                own.weights[deep] =
                    *reinterpret_cast<const Floats *>(source + deep * bytes_of_lanes + lane * 16);
        }
    }

    // The instructions of a half. Exact products leave out only what the lower parts have in common.
    GGTTS_ANYWHERE void multiply_group(int group) {
#pragma unroll
        for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int quad = i * groups_of_warp + group;
                if constexpr (Shape::kind == Kind::halves) {
                    tile_.multiply([&](Registers<Shape> &own) {
                        const uint32_t (&weights)[4] = own.weight_halves.at;
                        const uint32_t (&inputs)[2] = own.input_halves[index][i].at;
                        return Operands{{weights[0], weights[1], weights[2], weights[3]},
                                        {inputs[0], inputs[1]},
                                        own.sums[index][quad]};
                    });
                } else {
                    multiply_floats(index, i, quad);
                }
            }
        }
    }

    GGTTS_ANYWHERE void multiply_floats(int index, int i, int quad) {
#pragma unroll
        for (int deep = 0; deep < 2; ++deep) {
            if constexpr (Shape::exact) {
                multiply_parts<true, false>(index, i, quad, deep);
                multiply_parts<false, true>(index, i, quad, deep);
            }
            multiply_parts<false, false>(index, i, quad, deep);
        }
    }

    template <bool lower_weights, bool lower_inputs>
    GGTTS_ANYWHERE void multiply_parts(int index, int i, int quad, int deep) {
        tile_.multiply([&](Registers<Shape> &own) {
            const auto weight = [&](int j) { return part<lower_weights>(own.weights[deep].at[j]); };
            const auto input = [&](int j) {
                return part<lower_inputs>(own.inputs[index][i].at[2 * deep + j]);
            };
            return Operands{
                {weight(0), weight(1), weight(2), weight(3)}, {input(0), input(1)}, own.sums[index][quad]};
        });
    }

    template <bool lower>
    static GGTTS_ANYWHERE uint32_t part(float value) {
        if constexpr (!Shape::exact)
            return bits_of_float(value);
        return bits_of_float(lower ? value - upper_part(value) : upper_part(value));
    }

    // Adds the sums of a few instructions to those of all others, rounded to the nearest: matrix units cut
    // off.
    static GGTTS_ANYWHERE void gather(Registers<Shape> &own) {
#pragma unroll
        for (int index = 0; index < (Shape::exact ? Shape::bands : 0); ++index) {
#pragma unroll
            for (int quad = 0; quad < quads_of_band; ++quad) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    own.totals[index][quad][i] += own.sums[index][quad][i];
                    own.sums[index][quad][i] = 0.0F;
                }
            }
        }
    }

    // The sums of a segment as the threads of a tile have them.
    GGTTS_ANYWHERE float *partial(int slot, int index, int quad, int thread) const {
        constexpr int values = Shape::values * tile_threads;
        return pass_.partials + static_cast<int64_t>(slot) * values +
               static_cast<int64_t>((index * quads_of_band + quad) * tile_threads + thread) * 4;
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
                    for (int quad = 0; quad < quads_of_band; ++quad) {
                        float *place = partial(slot, index, quad, warp * lanes_of_warp + lane);
                        auto &sums = own.sums[index][quad];
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
                    for (int quad = 0; quad < quads_of_band; ++quad) {
                        const Floats value = predictor::fresh_floats(partial(
                            place_.tile * segments + segment, index, quad, warp * lanes_of_warp + lane));
                        auto &sums = own.sums[index][quad];
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            sums[i] = segment == 0 ? value.at[i] : sums[i] + value.at[i];
                    }
                }
            }
        });
        return true;
    }

    // Bias, trunk and snake, once the results lie in shared memory: whole rows of them are written.
    GGTTS_ANYWHERE void leave() {
        tile_.meet();
        tile_.each([&](int warp, int lane, Registers<Shape> &own) {
            const int column = warp % warps_across * groups_of_warp * group_width + lane / 4;
            const int row = first_row_of(warp) - place_.first_row + lane % 4 * 2;
            float *target = results_ + row * result_stride + column;
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
        });
        tile_.meet();
        const int rows = smaller(Shape::rows, pass_.rows() - place_.first_row);
        if (pass_.layer.outputs % 4 == 0)
            leave_rows(rows);
        else
            leave_single(rows);
    }

    GGTTS_ANYWHERE void leave_rows(int rows) {
        constexpr int words = tile_outputs / 4;
        const Layer &layer = pass_.layer;
        const int first_column = place_.column_tile * tile_outputs;
        const auto place = [&](int index) {
            return static_cast<int64_t>(place_.first_row + index / words) * layer.outputs + first_column +
                   index % words * 4;
        };
        const auto exists = [&](int index) { return first_column + index % words * 4 < layer.outputs; };
        tile_.spread_in_fours(
            rows * words,
            [&](int index) {
                return pass_.trunk != nullptr && exists(index) ? load_four(pass_.trunk + place(index))
                                                               : Floats{};
            },
            [&](int index, const Floats &trunk) {
                if (!exists(index))
                    return;
                const int column = first_column + index % words * 4;
                const Floats sums = load_four(results_ + index / words * result_stride + index % words * 4);
                leave_four(sums, trunk, column, place(index));
            });
    }

    GGTTS_ANYWHERE void leave_four(const Floats &sums, const Floats &trunk, int column, int64_t at) const {
        const Layer &layer = pass_.layer;
        const Floats bias = load_four(layer.bias + column);
        Floats values;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            values.at[i] = sums.at[i] + bias.at[i];
            values.at[i] = pass_.trunk == nullptr ? values.at[i] : trunk.at[i] + values.at[i];
        }
        if (pass_.raw != nullptr)
            *reinterpret_cast<Floats *>(pass_.raw + at) = values;
        if (layer.frequency != nullptr) {
            const Floats frequency = load_four(layer.frequency + column);
            const Floats magnitude = load_four(layer.magnitude + column);
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
        tile_.spread(rows * tile_outputs, [&](int index) {
            const int row = index / tile_outputs,
                      column = place_.column_tile * tile_outputs + index % tile_outputs;
            if (column >= layer.outputs)
                return;
            const int64_t at = static_cast<int64_t>(place_.first_row + row) * layer.outputs + column;
            float value = results_[row * result_stride + index % tile_outputs] + layer.bias[column];
            if (pass_.trunk != nullptr)
                value = pass_.trunk[at] + value;
            if (pass_.raw != nullptr)
                pass_.raw[at] = value;
            if (layer.frequency != nullptr)
                value = snake(value, layer.frequency[column], layer.magnitude[column]);
            if (pass_.active != nullptr)
                static_cast<Number *>(pass_.active)[at] = Numbers::of(value);
            if (pass_.results != nullptr)
                pass_.results[at] = value;
        });
    }

    Tile &tile_;
    const Pass &pass_;
    const TilePlace place_;
    float *results_;
    uint8_t *weights_;
    Number *inputs_;
    int *sources_;
    const int input_rows_;
};

}  // namespace ggtts::conv
