// A run of a chain of convolutions: what each layer reads and writes, and how it is cut into work.
#pragma once

#include <vector>

#include "conv_cuts.hpp"

namespace ggtts::conv {

// What a layer has to do with the values that later ones are added to.
enum class Trunk { apart, begins, joins };

// A layer of a chain on a device.
struct Link {
    Layer layer;
    Trunk trunk;
    bool trunk_lasts = false;  // a later one joins it

    int channels() const { return layer.outputs / layer.stride; }
};

// Adds a link. Throws std::invalid_argument where it does not go with those before.
void append(std::vector<Link> &links, const Link &link);

// Where a run finds things on the device. Without a room, a schedule only says how large that has to be.
struct Places {
    const void *x;
    std::vector<void *> memory;  // by layer, null where it keeps nothing
    const int32_t *lanes;
    float *room;  // zeros at first
};

struct Schedule {
    std::vector<Pass> passes;
    std::vector<int> bands;
    std::vector<Keeping> kept;
    int most_inputs = 0;  // of those
    int64_t room_floats = 0;

    const float *results() const { return passes.back().results; }
};

// How each layer is cut for `time` positions of each of some streams. Throws std::runtime_error where one
// does not fit the device.
std::vector<Cut> cuts_of(const std::vector<Link> &links, Kind kind, const Runner &runner, int streams,
                         int time);

// A run of that many positions and streams.
Schedule schedule_of(const std::vector<Link> &links, Kind kind, const std::vector<Cut> &cuts,
                     const Places &places, int streams, int time);

// Begins a run; `kept` is the list of the schedule on the device.
void launch(const Schedule &schedule, Runner &runner, const Keeping *kept);

}  // namespace ggtts::conv
