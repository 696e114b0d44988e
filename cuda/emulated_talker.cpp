#include <algorithm>
#include <limits>
#include <vector>

#include "emulated_grid.hpp"
#include "talker_runner.hpp"
#include "talker_step.hpp"

namespace ggtts::talker {
namespace {

class EmulatedWarp : public predictor::EmulatedWarp {
public:
    using predictor::EmulatedWarp::EmulatedWarp;

    template <class Function>
    Pair highest_of_pairs(Function function) const {
        Pair result = function(0);
        for (int lane = 1; lane < lanes; ++lane) {
            const Pair values = function(lane);
            for (int i = 0; i < 2; ++i)
                result.at[i] = std::max(result.at[i], values.at[i]);
        }
        return result;
    }
    template <class Function>
    Pair sum_of_pairs(Function function) const {
        Pair result{};
        for (int lane = 0; lane < lanes; ++lane) {
            const Pair values = function(lane);
            for (int i = 0; i < 2; ++i)
                result.at[i] += values.at[i];
        }
        return result;
    }

    // find(lane, turn) says what to bring in all turns. When all of that has come, store(lane, turn, brought,
    // top) takes it, where `top` is the highest of 16 lanes, if it is wanted. Returns the sum of what `store`
    // returns.
    template <int turns, bool with_top, class Brought, class Find, class Store>
    float bring(uint32_t time, Find find, Store store) const {
        float total = 0;
        for (int turn = 0; turn < turns; ++turn) {
            Brought brought[lanes];
            uint32_t tops[2] = {};
            for (int lane = 0; lane < lanes; ++lane) {
                brought[lane] = find(lane, turn);
                brought[lane].look();
                if (!brought[lane].has_come(time))
                    predictor::Seconds::turn(0);
                tops[lane / 16] = std::max(tops[lane / 16], brought[lane].top());
            }
            for (int lane = 0; lane < lanes; ++lane)
                total += store(lane, turn, brought[lane], with_top ? tops[lane / 16] : 0);
        }
        return total;
    }
};

class EmulatedBlock : public predictor::EmulatedBlock {
public:
    EmulatedBlock(int index, int blocks, int warps, float *shared)
        : predictor::EmulatedBlock(index, blocks, warps, shared), warps_(warps) {}

    template <class Function>
    void spread(int count, Function function) const {
        each(count, function);
    }

    template <class Function>
    void each_task(int count, Function function) const {
        for (int task = 0; task < count; ++task)
            function(EmulatedWarp(task % warps_), task);
    }

private:
    int warps_;
};

// The weights of a block's warps.
template <class Type>
struct Streams {
    std::vector<WeightStream<Type>> warps;

    WeightStream<Type> &of(int warp) { return warps[static_cast<size_t>(warp)]; }
    void refill() {
        for (WeightStream<Type> &stream : warps)
            stream.refill(EmulatedWarp(0));
    }
};

constexpr int emulated_slots = most_slots;

// A block with its memory: unlike blocks of the code predictor, it keeps things there from section to
// section.
template <class Type>
class EmulatedWorker {
public:
    EmulatedWorker(int index, int blocks, int warps, const Model &model, const Step &step)
        : shared_(static_cast<size_t>(Room(model.sizes, blocks, warps).end),
                  std::numeric_limits<float>::quiet_NaN()),
          slots_(static_cast<size_t>(warps * emulated_slots * slot_bytes)),
          tasks_(all_tasks(index, blocks, warps, model)),
          block_(index, blocks, warps, shared_.data()),
          step_(block_, warps, streams_, tasks_.data(), model, step) {
        for (int warp = 0; warp < warps; ++warp) {
            streams_.warps.emplace_back(model, tasks_.data() + warp * matrix_kinds,
                                        slots_.data() + warp * emulated_slots * slot_bytes, nullptr,
                                        emulated_slots);
            streams_.of(warp).start(EmulatedWarp(warp));
        }
        step_.begin();
    }
    EmulatedWorker(const EmulatedWorker &) = delete;
    EmulatedWorker &operator=(const EmulatedWorker &) = delete;

    void section(int index) { step_.section(index); }

private:
    static std::vector<Tasks> all_tasks(int index, int blocks, int warps, const Model &model) {
        std::vector<Tasks> tasks;
        for (int warp = 0; warp < warps; ++warp) {
            for (int kind = 0; kind < matrix_kinds; ++kind)
                tasks.push_back(tasks_of(model, kind, {index, blocks}, {warp, warps}));
        }
        return tasks;
    }

    std::vector<float> shared_;
    std::vector<uint8_t> slots_;
    std::vector<Tasks> tasks_;  // [warps][kinds]
    Streams<Type> streams_;
    EmulatedBlock block_;
    TalkerStep<Type, EmulatedBlock, Streams<Type>> step_;
};

class EmulatedRunner : public Runner {
public:
    EmulatedRunner(WeightKind kind, int blocks, int warps) : kind_(kind), blocks_(blocks), warps_(warps) {}

    int blocks() const override { return blocks_; }

    void run(const Model &model, const Step &step) override {
        switch (kind_) {
            case WeightKind::q8_0:
                return run_as<EightBits>(model, step);
            case WeightKind::f16:
                return run_as<Halves>(model, step);
            case WeightKind::bf16:
                return run_as<BrainHalves>(model, step);
            case WeightKind::f32:
                return run_as<Singles>(model, step);
        }
    }

private:
    template <class Type>
    void run_as(const Model &model, const Step &step) {
        std::vector<std::unique_ptr<EmulatedWorker<Type>>> workers;
        for (int block = 0; block < blocks_; ++block)
            workers.push_back(std::make_unique<EmulatedWorker<Type>>(block, blocks_, warps_, model, step));
        for (int section = 0; section < section_count(model.sizes); ++section) {
            for (const auto &worker : workers)
                worker->section(section);
        }
    }

    WeightKind kind_;
    int blocks_, warps_;
};

// Up to so many keys one block attends to each key head: to put chunks together costs more than it brings.
// Measured on an H200.
constexpr int keys_of_one_chunk = 192;
constexpr int keys_of_a_chunk = 64;

int most_chunks(const Sizes &sizes, int blocks) {
    return std::max(1, blocks / span_count(sizes, 1));
}

}  // namespace

std::unique_ptr<Runner> emulated_runner(WeightKind kind, int blocks, int warps) {
    return std::make_unique<EmulatedRunner>(kind, blocks, warps);
}

int piece_width(WeightKind kind) {
    switch (kind) {
        case WeightKind::q8_0:
            return EightBits::piece_width;
        case WeightKind::f32:
            return Singles::piece_width;
        default:
            return Halves::piece_width;
    }
}

int width_multiple(WeightKind kind) {
    switch (kind) {
        case WeightKind::q8_0:
            return EightBits::width_multiple;
        case WeightKind::f32:
            return Singles::width_multiple;
        default:
            return Halves::width_multiple;
    }
}

int most_keys(const Sizes &sizes, int blocks) {
    return most_chunks(sizes, blocks) * Room::roomy_chunk;
}

Chunks chunks_for(const Sizes &sizes, int keys, int blocks) {
    const int most = most_chunks(sizes, blocks);
    const int wanted = keys <= keys_of_one_chunk ? 1 : (keys + keys_of_a_chunk - 1) / keys_of_a_chunk;
    const int count = std::min(wanted, most);
    const int size = ((keys + count - 1) / count + keys_together - 1) / keys_together * keys_together;
    return {size, (keys + size - 1) / size};
}

#ifndef GGTTS_CUDA
std::unique_ptr<Runner> cuda_runner(int, predictor::Machine &, WeightKind, const Sizes &) {
    return nullptr;
}
#endif

}  // namespace ggtts::talker
