// The weights of a convolution as its kernel reads them.
#pragma once

#include <cstdint>
#include <vector>

#include "conv_model.hpp"

namespace ggtts::conv {

// From matrices [taps][outputs][inputs], as products of a kind read them.
std::vector<uint8_t> packed_weights(const Layer &layer, const float *matrices, Kind kind);

// How many chunks of inputs are summed up by themselves; exact products have one sum.
int segment_chunks_of(const Layer &layer, Kind kind);

}  // namespace ggtts::conv
