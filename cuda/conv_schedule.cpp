#include "conv_schedule.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ggtts::conv {
namespace {

// What everything in the room begins at a multiple of, in floats.
constexpr int64_t alignment = 64;

void require(bool holds, const std::string &what) {
    if (!holds)
        throw std::invalid_argument(what);
}

// Hands out parts of the memory for intermediate results; without memory it counts what they need.
class Room {
public:
    explicit Room(float *begin) : begin_(begin) {}

    float *take(int64_t floats) {
        float *place = begin_ == nullptr ? nullptr : begin_ + used_;
        used_ += (floats + alignment - 1) / alignment * alignment;
        return place;
    }
    int64_t used() const { return used_; }

private:
    float *begin_;
    int64_t used_ = 0;
};

// The links of a run, one after the other.
class Planner {
public:
    Planner(const std::vector<Link> &links, Kind kind, const std::vector<Cut> &cuts, const Places &places,
            int streams)
        : links_(links), kind_(kind), cuts_(cuts), places_(places), streams_(streams), room_(places.room) {}

    Schedule plan(int time) {
        // Always in one place: counters are zero at first, and whenever a run is over.
        arrived_ = reinterpret_cast<uint32_t *>(room_.take(most_shared_tiles));
        take_shared(static_cast<int64_t>(streams_) * time);
        const void *x = places_.x;
        for (size_t i = 0; i < links_.size(); ++i) {
            schedule_.passes.push_back(pass_of(i, x, time));
            note_kept(i);
            x = schedule_.passes.back().active;
            time *= links_[i].layer.stride;
        }
        cut();
        schedule_.room_floats = room_.used();
        return std::move(schedule_);
    }

private:
    // Whether nobody needs the result of a layer once the next one has read it.
    bool passes_on(size_t i) const { return i + 1 < links_.size() && links_[i + 1].layer.past() == 0; }

    int64_t floats_of(int64_t numbers) const { return (numbers * number_bytes(kind_) + 3) / 4; }

    void take_shared(int64_t rows) {
        int64_t trunk = 0, passing = 0;
        for (size_t i = 0; i < links_.size(); ++i) {
            const int64_t size = rows * links_[i].layer.outputs;
            trunk = std::max(trunk, links_[i].trunk_lasts ? size : 0);
            passing = std::max(passing, passes_on(i) ? size : 0);
            rows *= links_[i].layer.stride;
        }
        trunk_ = room_.take(trunk);
        passing_ = room_.take(floats_of(passing));
    }

    // Inputs that streams keep a part of stay until the end.
    Pass pass_of(size_t i, const void *x, int time) {
        const Link &link = links_[i];
        const int64_t size = static_cast<int64_t>(streams_) * time * link.layer.outputs;
        const bool last = i + 1 == links_.size();
        Pass pass{};
        pass.layer = link.layer;
        pass.streams = streams_;
        pass.time = time;
        pass.x = x;
        pass.memory = i < places_.memory.size() ? places_.memory[i] : nullptr;
        pass.lanes = places_.lanes;
        pass.trunk = link.trunk == Trunk::joins ? trunk_ : nullptr;
        pass.raw = link.trunk_lasts ? trunk_ : nullptr;
        pass.results = last ? room_.take(size) : nullptr;
        pass.active = last ? nullptr : passes_on(i) ? passing_ : room_.take(floats_of(size));
        pass.split = 1;
        return pass;
    }

    void note_kept(size_t i) {
        const Pass &pass = schedule_.passes[i];
        const Layer &layer = pass.layer;
        if (layer.past() == 0 || i >= places_.memory.size())
            return;
        schedule_.kept.push_back({pass.x, places_.memory[i], layer.inputs, layer.past(), pass.time});
        schedule_.most_inputs = std::max(schedule_.most_inputs, layer.inputs);
    }

    // Layers follow one another: their partial sums share memory.
    void cut() {
        int64_t most = 0;
        for (size_t i = 0; i < links_.size(); ++i) {
            Pass &pass = schedule_.passes[i];
            schedule_.bands.push_back(cuts_[i].bands);
            if (!pass.layer.narrow())
                most = std::max(most, cut_pass(pass, cuts_[i]));
        }
        float *partials = room_.take(most);
        for (Pass &pass : schedule_.passes) {
            pass.partials = partials;
            pass.arrived = arrived_;
        }
    }

    // Returns how many floats its partial sums need.
    static int64_t cut_pass(Pass &pass, const Cut &cut) {
        const Layer &layer = pass.layer;
        const int rows = warps_down * cut.bands * band, segments = layer.segments();
        pass.split = cut.split;
        pass.row_room = row_room(layer, pass.streams, pass.time, rows);
        const int64_t tiles = static_cast<int64_t>(row_tiles(pass.rows(), rows)) * layer.column_tiles();
        const int64_t slots = segments == 1 ? 0 : cut.split == 1 ? tiles : tiles * segments;
        return slots * rows * tile_outputs;
    }

    const std::vector<Link> &links_;
    Kind kind_;
    const std::vector<Cut> &cuts_;
    const Places &places_;
    int streams_;
    Room room_;
    uint32_t *arrived_ = nullptr;
    float *trunk_ = nullptr, *passing_ = nullptr;
    Schedule schedule_;
};

}  // namespace

void append(std::vector<Link> &links, const Link &link) {
    const Layer &layer = link.layer;
    require(layer.taps > 0 && layer.inputs > 0 && layer.outputs > 0 && layer.dilation > 0 && layer.stride > 0,
            "a convolution without taps, inputs, outputs, dilation or stride");
    require(layer.outputs % layer.stride == 0, "outputs that the stride does not divide");
    require(links.empty() || links.back().channels() == layer.inputs,
            "a layer of " + std::to_string(layer.inputs) + " inputs where " +
                std::to_string(links.empty() ? 0 : links.back().channels()) + " come");
    require(!layer.limited || layer.narrow(), "only layers of few outputs are limited");
    if (link.trunk == Trunk::joins) {
        const auto begin = std::find_if(links.rbegin(), links.rend(),
                                        [](const Link &other) { return other.trunk != Trunk::apart; });
        const auto keeps_rate = [](const Link &other) { return other.layer.stride == 1; };
        require(begin != links.rend() && begin->channels() == layer.outputs && keeps_rate(link) &&
                    std::all_of(links.rbegin(), begin, keeps_rate),
                "a layer that joins a trunk of another shape");
        begin->trunk_lasts = true;
    }
    links.push_back(link);
}

std::vector<Cut> cuts_of(const std::vector<Link> &links, Kind kind, const Runner &runner, int streams,
                         int time) {
    std::vector<Cut> cuts;
    for (const Link &link : links) {
        const Layer &layer = link.layer;
        cuts.push_back(layer.narrow() ? Cut{1, 1} : cut_of(layer, streams, time, kind, runner));
        time *= layer.stride;
    }
    return cuts;
}

Schedule schedule_of(const std::vector<Link> &links, Kind kind, const std::vector<Cut> &cuts,
                     const Places &places, int streams, int time) {
    return Planner(links, kind, cuts, places, streams).plan(time);
}

void launch(const Schedule &schedule, Runner &runner, const Keeping *kept) {
    const Pass &first = schedule.passes.front();
    runner.begin();
    for (size_t i = 0; i < schedule.passes.size(); ++i) {
        const Pass &pass = schedule.passes[i];
        if (pass.layer.narrow())
            runner.run_narrow(pass);
        else
            runner.run(pass, schedule.bands[i]);
    }
    if (!schedule.kept.empty())
        runner.keep(kept, static_cast<int>(schedule.kept.size()), schedule.most_inputs, first.streams,
                    first.lanes);
}

}  // namespace ggtts::conv
