// A run of a chain of convolutions: what each layer reads and writes, and how it is cut into work.
#pragma once

#include <vector>

#include "conv_runner.hpp"

namespace ggtts::conv {

// How a layer is cut into work: positions of a tile, and blocks that share the segments of one.
struct Cut {
    int bands, split;
};

// Large tiles where they keep the processors busy, and smaller ones where not; blocks share tiles where there
// are too few. None of that changes a result. Bands are 0 where the device has no room.
Cut cut_of(const Layer &layer, int streams, int time, Kind kind, const Runner &runner);

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

// `time` positions of each of some streams. Throws std::runtime_error where a layer does not fit the device.
Schedule schedule_of(const std::vector<Link> &links, Kind kind, const Runner &runner, const Places &places,
                     int streams, int time);

// Begins a run; `kept` is the list of the schedule on the device.
void launch(const Schedule &schedule, Runner &runner, const Keeping *kept);

}  // namespace ggtts::conv
