// How convolutions are cut into work.
#pragma once

#include "conv_runner.hpp"

namespace ggtts::conv {

// Positions of a tile, in bands, and blocks that share the segments of one.
struct Cut {
    int bands, split;
};

// What is likely the fastest: large tiles read less, small ones and shared ones keep more processors busy.
// None of that changes a result. Throws std::runtime_error where the device has no room for any.
Cut cut_of(const Layer &layer, int streams, int time, Kind kind, const Runner &runner);

}  // namespace ggtts::conv
