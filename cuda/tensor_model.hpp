// What the tensor kernel (tensor_frame.hpp) works on beside `Buffers`, in the memory of its device.
#pragma once

#include <cstdint>

namespace ggtts::predictor {

// Fewer columns than this are left to the kernel of flow_frame.hpp: they would not fill matrix units.
inline constexpr int least_tensor_columns = 5;
// Most columns that the tensor kernel takes, and what their number is a multiple of.
inline constexpr int most_tensor_columns = 64;
inline constexpr int tensor_columns_step = 8;

// Activations that share a power of two, and weights that share a scale.
inline constexpr int block_width = 32;
// A number is the sum of so many halves.
inline constexpr int parts_of_number = 2;

// Activations of all columns (see split_activations.hpp): halves [blocks][column][64], in the order of
// `place_in_block`; factors that undo the power of two [blocks][column], NaN where a value of the block is no
// finite number.
struct SplitActivations {
    static constexpr bool parts_alternate = true;
    uint16_t *halves = nullptr;
    float *factors = nullptr;
};

// The same with the second parts of four neighbours behind the first ones: for instructions that multiply
// with each part in turn.
struct PairedActivations : SplitActivations {
    static constexpr bool parts_alternate = false;
};

// Where the blocks that share a tile of rows leave their sums.
struct Meeting {
    float *joined;      // [tiles][parts][columns][rows]
    uint32_t *arrived;  // [tiles], zero between launches
};

struct TensorBuffers {
    int columns;              // that are computed
    bool together;            // whether the first two positions are, as twice the columns
    SplitActivations entry;   // what enters at a position, where a projection follows
    SplitActivations normed;  // the residual stream, times the weights of the next norm
    SplitActivations attended;
    SplitActivations gated;
    float *squares;  // [columns][blocks of the width], sums over each block of the residual stream
    Meeting meeting;
};

// Columns of the two first positions that are computed together, at most: the sums of more would leave little
// of the first-level cache.
inline constexpr int most_columns_together = 32;

// How many elements those have.
struct TensorNeeds {
    int64_t joined, tiles;
};

}  // namespace ggtts::predictor
