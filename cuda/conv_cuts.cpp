#include "conv_cuts.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace ggtts::conv {
namespace {

// Microseconds on an H200 with float16 factors, fitted to what all cuts of the layers of a 12 Hz codec took;
// only proportions matter. A step of a tile that a processor has to itself, and of each where several get
// into each other's way:
struct StepTimes {
    double alone, crowded;
};
constexpr StepTimes step_times(int bands) {
    return bands == 1 ? StepTimes{0.36, 0.13} : bands == 2 ? StepTimes{0.54, 0.07} : StepTimes{0.74, 0.23};
}
// A segment that is fetched from another block, and a million of its sums on the way; a million of those that
// a block puts away itself; a million results.
constexpr double segment_time = 0.26, shared_million = 3.0, kept_million = 0.9, result_million = 3.2;

constexpr int64_t reserved_shared_bytes = 1024;  // of each block, by CUDA

// One way to cut a layer.
class Candidate {
public:
    Candidate(const Layer &layer, int streams, int time, Kind kind, int bands)
        : layer_(layer), kind_(kind), bands_(bands) {
        const int rows = warps_down * bands * band;
        tiles_ = row_tiles(streams * time, rows) * layer.column_tiles();
        bytes_ = shared_floats(layer, kind, rows, row_room(layer, streams, time, rows)) *
                 static_cast<int64_t>(sizeof(float));
    }

    bool fits(const Runner &runner) const { return bytes_ <= runner.shared_limit(); }
    bool may_share() const { return tiles_ <= most_shared_tiles; }

    // Blocks are given to processors in turns. A launch takes the same time however it is cut.
    double time(int split, const Runner &runner) const {
        const int64_t shared = runner.shared_limit() + reserved_shared_bytes;
        const int together = static_cast<int>(
            std::min<int64_t>(resident_blocks(kind_, bands_), shared / (bytes_ + reserved_shared_bytes)));
        const int of_processor = row_tiles(tiles_ * split, runner.processors());
        const int turns = of_processor / together, rest = of_processor % together;
        return turns * time_of_turn(split, together) + time_of_turn(split, rest) + time_of_sums(split);
    }

private:
    // The steps of some blocks that a processor computes at once.
    double time_of_turn(int split, int blocks) const {
        const int chunks = row_tiles(layer_.segments(), split) * layer_.segment_chunks;
        const int steps = std::min(chunks, layer_.chunks()) * layer_.taps;
        const StepTimes times = step_times(bands_);
        return blocks == 0 ? 0.0 : steps * std::max(times.alone, blocks * times.crowded);
    }

    // What is done with sums behind the steps.
    double time_of_sums(int split) const {
        const int segments = layer_.segments();
        const double millions = 1e-6 * tiles_ * warps_down * bands_ * band * tile_outputs;
        const double results = result_million * millions;
        return split > 1 ? results + segments * (segment_time + shared_million * millions)
                         : results + (segments - 1) * kept_million * millions;
    }

    const Layer &layer_;
    Kind kind_;
    int bands_, tiles_;
    int64_t bytes_;
};

}  // namespace

Cut cut_of(const Layer &layer, int streams, int time, Kind kind, const Runner &runner) {
    std::optional<Cut> best;
    double least = 0;
    for (int bands = 1; bands <= most_bands(kind); bands *= 2) {
        const Candidate candidate(layer, streams, time, kind, bands);
        const int most = candidate.may_share() ? layer.segments() : 1;
        for (int split = 1; candidate.fits(runner) && split <= most; ++split) {
            const double time_needed = candidate.time(split, runner);
            if (!best || time_needed < least) {
                best = Cut{bands, split};
                least = time_needed;
            }
        }
    }
    if (!best)
        throw std::runtime_error("a convolution does not fit the shared memory of the device");
    return *best;
}

}  // namespace ggtts::conv
