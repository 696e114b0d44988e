// The weights of a convolution as its kernel reads them.
#pragma once

#include <vector>

#include "conv_model.hpp"

namespace ggtts::conv {

// From matrices [taps][outputs][inputs]. Products that are not exact read 10 bits of mantissa: all others are
// rounded away here.
std::vector<float> packed_weights(const Layer &layer, const float *matrices, bool exact);

// How many chunks of inputs are summed up by themselves; exact products have one sum.
int segment_chunks_of(const Layer &layer, bool exact);

}  // namespace ggtts::conv
