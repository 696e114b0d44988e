// A tile of a convolution on matrix units: some positions, some outputs, all inputs or a part of them.
//
// The inputs of a chunk of channels are copied to shared memory once and read at the places of all taps; the
// weights come step by step, a chunk of a tap at a time. The order in which a result is summed up depends on
// the layer only: neither on streams, positions, tiles or blocks.
#pragma once

#include "conv_feed.hpp"
#include "conv_results.hpp"

namespace ggtts::conv {

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
          feed_(tile, pass, place_, shared),
          results_(tile, pass, place_, shared) {}

    GGTTS_ANYWHERE void run() {
        const int segments = pass_.layer.segments();
        const int first = segments * place_.part / pass_.split;
        const int last = segments * (place_.part + 1) / pass_.split;
        const int chunk = first * pass_.layer.segment_chunks;
        const int end = smaller(last * pass_.layer.segment_chunks, pass_.layer.chunks());
        const int steps = (end - chunk) * pass_.layer.taps;
        tile_.let_next_begin();
        feed_.begin(chunk, steps);
        results_.begin();
        find_places();
        tile_.meet();
        tile_.await_earlier();
        multiply({chunk, 0, 0, 0}, steps, first, last);
        if (pass_.split == 1 || complete(segments))
            results_.leave();
    }

private:
    GGTTS_ANYWHERE int first_row_of(int warp) const {
        return place_.first_row + warp / warps_across * Shape::bands * band;
    }

    GGTTS_ANYWHERE void find_places() {
        tile_.start([&](int warp) { return first_row_of(warp) < pass_.rows(); });
        tile_.each([&](int warp, int lane, Registers<Shape> &own) {
#pragma unroll
            for (int index = 0; index < Shape::bands; ++index) {
                const int row = first_row_of(warp) + index * band + lane / 4;
                const auto place = [&](int of) {
                    return static_cast<uint32_t>(place_.place_of(pass_, of) * half_width + lane % 4 * 4);
                };
                own.places[index] = place(row) | place(row + 8) << 16;
            }
            clear(own.sums);
            clear(own.totals);
        });
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

    // Steps of segments `first` .. `last` - 1. The first turns only ask for what comes later.
    GGTTS_ANYWHERE void multiply(Step now, int steps, int first, int last) {
        const Layer &layer = pass_.layer;
        int segment = first, chunks_left = layer.segment_chunks;
#pragma unroll 1
        for (int turn = -steps_ahead; turn < steps; ++turn) {
            if (turn >= 0) {
                tile_.template arrive<steps_ahead - 1>();
                if (tile_.busy())
                    multiply_step(now.room, now.tap * layer.dilation, feed_.weights(turn));
            }
            feed_.request(turn < 0);
            tile_.commit();
            if (turn < 0)
                continue;
            if constexpr (Shape::exact)
                tile_.each([&](int, int, Registers<Shape> &own) { gather(own); });
            now.advance(layer.taps, feed_.rooms());
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

    GGTTS_ANYWHERE void multiply_step(int room, int shift, const uint8_t *weights) {
#pragma unroll
        for (int half = 0; half < halves_of_chunk; ++half) {
            const Number *inputs = feed_.inputs(room, half) + shift * half_width;
            tile_.each([&](int, int, Registers<Shape> &own) {
#pragma unroll
                for (int index = 0; index < Shape::bands; ++index) {
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        load_inputs(own, index, i, inputs + (own.places[index] >> (16 * i) & 0xFFFFU));
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
                    const auto place = [&](int quad) {
                        return partial(slot, index, quad, warp * lanes_of_warp + lane);
                    };
                    if (alone && !begins)
                        add_before(place, own.sums[index]);
                    if (!alone || !ends)
                        put_away(place, own.sums[index]);
                }
            });
        }
    }

    // What the same thread has put away.
    template <class Place>
    static GGTTS_ANYWHERE void add_before(Place place, float (&sums)[quads_of_band][4]) {
        Floats before[quads_of_band];
#pragma unroll
        for (int quad = 0; quad < quads_of_band; ++quad)
            before[quad] = load_four(place(quad));
#pragma unroll
        for (int quad = 0; quad < quads_of_band; ++quad) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                sums[quad][i] = before[quad].at[i] + sums[quad][i];
        }
    }

    template <class Place>
    static GGTTS_ANYWHERE void put_away(Place place, float (&sums)[quads_of_band][4]) {
#pragma unroll
        for (int quad = 0; quad < quads_of_band; ++quad) {
            const auto &values = sums[quad];
            *reinterpret_cast<Floats *>(place(quad)) = {{values[0], values[1], values[2], values[3]}};
            sums[quad][0] = sums[quad][1] = sums[quad][2] = sums[quad][3] = 0.0F;
        }
    }

    // Whether all segments of the tile are there; the block that is last adds them up.
    GGTTS_ANYWHERE bool complete(int segments) {
        if (!tile_.arrives_last(pass_.arrived + place_.tile, pass_.split))
            return false;
        tile_.each([&](int warp, int lane, Registers<Shape> &own) {
            const int thread = warp * lanes_of_warp + lane;
#pragma unroll 1
            for (int segment = 0; segment < segments; segment += segments_together) {
                const int count = smaller(segments_together, segments - segment);
#pragma unroll
                for (int index = 0; index < Shape::bands; ++index)
                    add_segments(place_.tile * segments + segment, count, segment == 0, index, thread,
                                 own.sums[index]);
            }
        });
        return true;
    }

    // Nobody waits for one segment before the next, as far as there are registers.
    static constexpr int segments_together = Shape::bands == 1 ? 2 : 1;

    // What other blocks have put away.
    GGTTS_ANYWHERE void add_segments(int slot, int count, bool first, int index, int thread,
                                     float (&sums)[quads_of_band][4]) const {
        Floats values[segments_together][quads_of_band];
#pragma unroll
        for (int i = 0; i < segments_together; ++i) {
#pragma unroll
            for (int quad = 0; i < count && quad < quads_of_band; ++quad)
                values[i][quad] = predictor::fresh_floats(partial(slot + i, index, quad, thread));
        }
#pragma unroll
        for (int i = 0; i < segments_together; ++i) {
#pragma unroll
            for (int quad = 0; i < count && quad < quads_of_band; ++quad) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float value = values[i][quad].at[j];
                    sums[quad][j] = first && i == 0 ? value : sums[quad][j] + value;
                }
            }
        }
    }

    Tile &tile_;
    const Pass &pass_;
    const TilePlace place_;
    Feed<Shape, Tile> feed_;
    Results<Shape, Tile> results_;
};

}  // namespace ggtts::conv
