// What the kernels of convolutions are told: layers, and one run of them for several streams.
//
// y[t] = bias + sum over taps k of W[k] x[t + (k - taps + 1) * dilation], channels-last; what came before x
// is in the memory of a stream. A transposed convolution whose stride divides its kernel is one of these with
// stride * channels outputs: its rows are stride rows of the next layer.
#pragma once

#include <cstdint>

#include "portable.hpp"

namespace ggtts::conv {

// A warp multiplies with chunks of so many inputs of one tap, which lie as its lanes read them:
// [chunk][tap][group of outputs][half of the chunk], and in there what each lane has in its registers.
inline constexpr int chunk_width = 32;
inline constexpr int halves_of_chunk = 2, half_width = chunk_width / halves_of_chunk;
inline constexpr int group_width = 16;  // outputs
inline constexpr int group_floats = chunk_width * group_width;

// Warps of a tile, and groups of outputs of a warp: 96 outputs divide those of most layers.
inline constexpr int lanes_of_warp = 32;
inline constexpr int warps_down = 2, warps_across = 2;
inline constexpr int tile_threads = warps_down * warps_across * lanes_of_warp;
inline constexpr int groups_of_warp = 3;
inline constexpr int groups_of_tile = warps_across * groups_of_warp;
inline constexpr int tile_outputs = groups_of_tile * group_width;
// Positions of a warp come in bands: an instruction takes the first eight of one or the others.
inline constexpr int band = 16;
// The results of an instruction in a lane, for a band.
inline constexpr int quads_of_band = 2 * groups_of_warp;

// Steps whose weights are on their way while others are multiplied with; rooms for them and the inputs.
inline constexpr int steps_ahead = 3, weight_rooms = steps_ahead + 1;

// What products are made of: float32 of which 10 bits of mantissa are read; float16; or all bits of float32,
// in three products. Weights, inputs and memory are stored as what is read.
enum class Kind { rounded, halves, exact };

constexpr int number_bytes(Kind kind) {
    return kind == Kind::halves ? 2 : 4;
}
constexpr int weight_room_floats(Kind kind) {
    return groups_of_tile * group_floats * number_bytes(kind) / 4;
}

// Blocks that a processor has registers for at once.
constexpr int resident_blocks(Kind kind, int bands) {
    if (kind == Kind::halves)
        return bands >= 4 ? 3 : 4;
    return kind == Kind::exact || bands >= 4 ? 2 : 3;
}

// Sums are made of segments of the inputs, of about so many steps (a chunk of a tap), whoever computes them.
inline constexpr int steps_of_segment = 24;

// The most tiles of a layer whose segments blocks share.
inline constexpr int most_shared_tiles = 1 << 16;

// The most outputs of a layer that no matrix unit computes.
inline constexpr int most_narrow_outputs = 4;
// Positions of a block, and threads that share the inputs of one.
inline constexpr int narrow_rows = 32, narrow_parts = 4, narrow_threads = narrow_rows * narrow_parts;

struct Layer {
    int inputs, outputs, taps, dilation, stride;
    int segment_chunks;                  // how many chunks are summed up by themselves
    bool limited;                        // to -1 .. 1; narrow layers only
    const uint8_t *weights;              // as above; of a narrow layer float32 [outputs][taps][padded inputs]
    const float *bias;                   // [outputs]
    const float *frequency, *magnitude;  // [outputs], of the snake behind it; null: none

    GGTTS_ANYWHERE constexpr int past() const { return (taps - 1) * dilation; }
    GGTTS_ANYWHERE constexpr int chunks() const { return (inputs + chunk_width - 1) / chunk_width; }
    GGTTS_ANYWHERE constexpr int groups() const { return (outputs + group_width - 1) / group_width; }
    GGTTS_ANYWHERE constexpr int segments() const { return (chunks() + segment_chunks - 1) / segment_chunks; }
    GGTTS_ANYWHERE constexpr int column_tiles() const {
        return (groups() + groups_of_tile - 1) / groups_of_tile;
    }
    GGTTS_ANYWHERE constexpr bool narrow() const { return outputs <= most_narrow_outputs && stride == 1; }
    // Floats between rows of a narrow layer's tile: eight lanes that read 16 bytes each meet all banks.
    GGTTS_ANYWHERE constexpr int narrow_width() const { return (inputs + 3) / 4 * 4; }
};

// One layer for several streams, `time` positions of each.
struct Pass {
    Layer layer;
    int streams, time;
    const void *x;         // [streams][time][inputs]
    const void *memory;    // [lanes][past][inputs]; null: zeros
    const int32_t *lanes;  // [streams], where each stream has its memory
    const float *trunk;    // [streams][time][outputs], added to the result; null: nothing
    float *raw;            // [streams][time][outputs], the result; null: not wanted. May be the trunk
    void *active;          // the same behind the snake, as the next layer reads it; null: not wanted
    float *results;        // the same for the host; null: not wanted
    float *partials;    // [tiles][segments][values of a tile], or [tiles][...] where one block has them all
    uint32_t *arrived;  // [tiles], zeros
    int split;          // how many blocks share the segments of a tile
    int row_room;       // rows of inputs that a tile needs, at most

    GGTTS_ANYWHERE constexpr int rows() const { return streams * time; }
};

// How a tile is computed: the `bands` of positions that are a warp's.
template <Kind kind_, int bands_>
struct Shape {
    static constexpr Kind kind = kind_;
    static constexpr bool exact = kind == Kind::exact;
    static constexpr int bands = bands_;
    static constexpr int rows = warps_down * bands * band;
    static constexpr int values = bands * quads_of_band * 4;  // of a lane
    static constexpr int group_bytes = group_floats * number_bytes(kind);
};

constexpr int row_tiles(int rows, int tile_rows) {
    return (rows + tile_rows - 1) / tile_rows;
}

// Inputs that a tile of so many positions needs, at most: each stream that it touches has a past.
constexpr int row_room(const Layer &layer, int streams, int time, int tile_rows) {
    int touched = tile_rows % time == 0   ? tile_rows / time
                  : time % tile_rows == 0 ? 1
                                          : (tile_rows - 2) / time + 2;
    touched = touched < streams ? touched : streams;
    const int all = streams * time;
    return (tile_rows < all ? tile_rows : all) + touched * layer.past();
}

// Chunks of inputs that are on their way or in use.
constexpr int input_rooms(int taps) {
    return (steps_ahead + taps - 1) / taps + 1;
}

// Floats between rows of results in shared memory: the lanes of a warp write to all banks.
inline constexpr int result_stride = tile_outputs + 4;

// Floats of shared memory for weights, inputs, and where the rows of inputs come from; later for the results.
constexpr int64_t working_floats(const Layer &layer, Kind kind, int tile_rows, int rows) {
    constexpr int pointer_floats = 2;
    const int64_t inputs =
        static_cast<int64_t>(weight_rooms) * weight_room_floats(kind) +
        static_cast<int64_t>(input_rooms(layer.taps)) * rows * chunk_width * number_bytes(kind) / 4 +
        (rows * pointer_floats + 3) / 4 * 4;
    const int64_t results = static_cast<int64_t>(tile_rows) * result_stride;
    return inputs > results ? inputs : results;
}
// Bias, frequency and magnitude are beside them.
constexpr int64_t shared_floats(const Layer &layer, Kind kind, int tile_rows, int rows) {
    return working_floats(layer, kind, tile_rows, rows) + 3 * tile_outputs;
}

constexpr int narrow_room(const Layer &layer) {
    return narrow_rows + layer.past();
}
constexpr int narrow_stride(const Layer &layer) {
    return (layer.narrow_width() + 31) / 32 * 32 + 4;
}
// Inputs, weights, and the sums of each part.
constexpr int64_t narrow_floats(const Layer &layer) {
    return static_cast<int64_t>(narrow_room(layer)) * narrow_stride(layer) +
           static_cast<int64_t>(layer.outputs) * (layer.taps * layer.narrow_width() + narrow_threads);
}

// What streams keep of a layer's inputs for their next run.
struct Keeping {
    const void *x;  // [streams][time][inputs]
    void *memory;   // [lanes][past][inputs]
    int inputs, past, time;

    bool operator==(const Keeping &) const = default;
};

}  // namespace ggtts::conv
