// What the tensor kernel asks of a GPU, as loops: for tests on machines without one.
#pragma once

#include <cstring>
#include <limits>
#include <vector>

#include "emulated_grid.hpp"
#include "tensor_operands.hpp"

namespace ggtts::predictor {

template <class Own>
class Lanes<EmulatedWarp, Own> {
public:
    explicit Lanes(const EmulatedWarp &warp) : warp_(warp) {}

    // Calls function(lane, own) for each lane.
    template <class Function>
    void each(Function function) {
        for (int lane = 0; lane < lanes; ++lane)
            function(lane, own_[lane]);
    }
    template <class Function>
    float sum(Function function) {
        return warp_.sum([&](int lane) { return function(lane, own_[lane]); });
    }
    template <class Function>
    float highest(Function function) {
        return warp_.highest([&](int lane) { return function(lane, own_[lane]); });
    }
    // As those of a warp, with what the lanes have.
    template <int count, class Add, class Take>
    void sums(Add add, Take take) {
        warp_.template sums<count>([&](int lane, float (&values)[count]) { add(lane, own_[lane], values); },
                                   take);
    }
    // Two sums at once.
    template <class Function>
    Pair two_sums(Function function) {
        return {{sum([&](int lane, const Own &own) { return function(lane, own).at[0]; }),
                 sum([&](int lane, const Own &own) { return function(lane, own).at[1]; })}};
    }
    // Hands set(own, values) what get(own) returns in lane from(lane).
    template <class Get, class From, class Set>
    void exchange(Get get, From from, Set set) {
        Floats values[lanes];
        for (int lane = 0; lane < lanes; ++lane)
            values[lane] = get(own_[lane]);
        for (int lane = 0; lane < lanes; ++lane)
            set(own_[lane], values[from(lane)]);
    }
    // Combines what get(own) returns in each eight neighbouring lanes, and hands it to set(own, value).
    template <class Get, class Combine, class Set>
    void combine_eights(Get get, Combine combine, Set set) {
        float values[lanes];
        for (int lane = 0; lane < lanes; ++lane)
            values[lane] = get(own_[lane]);
        for (int step = 4; step > 0; step /= 2) {
            float before[lanes];
            std::copy(values, values + lanes, before);
            for (int lane = 0; lane < lanes; ++lane)
                values[lane] = combine(before[lane], before[lane ^ step]);
        }
        for (int lane = 0; lane < lanes; ++lane)
            set(own_[lane], values[lane]);
    }

    // Waits until all lanes have come here, and makes them see what the others wrote.
    void meet() const {}

    // Adds a product of 16 columns with 8 rows, 16 deep. operands(own) are those of a lane as the instruction
    // wants them (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type").
    template <class Function>
    void multiply(Function operands) {
        float columns[16][16], rows[8][16];
        for (int lane = 0; lane < lanes; ++lane) {
            const TensorOperands of_lane = operands(own_[lane]);
            const int group = lane / 4, member = lane % 4;
            for (int i = 0; i < 8; ++i) {
                const int column = group + i / 2 % 2 * 8, depth = 2 * member + i % 2 + i / 4 * 8;
                columns[column][depth] = half_at(of_lane.columns[i / 2], i % 2);
            }
            for (int i = 0; i < 4; ++i)
                rows[group][2 * member + i % 2 + i / 2 * 8] = half_at(of_lane.rows[i / 2], i % 2);
        }
        for (int lane = 0; lane < lanes; ++lane) {
            const TensorOperands of_lane = operands(own_[lane]);
            for (int i = 0; i < 4; ++i) {
                const int column = lane / 4 + i / 2 * 8, row = 2 * (lane % 4) + i % 2;
                of_lane.sums[i] += dot(columns[column], rows[row]);
            }
        }
    }

private:
    static float half_at(uint32_t pair, int index) {
        return float_of_half(static_cast<uint16_t>(pair >> (16 * index)));
    }
    static float dot(const float (&left)[16], const float (&right)[16]) {
        double sum = 0;
        for (int i = 0; i < 16; ++i)
            sum += static_cast<double>(left[i]) * right[i];
        return static_cast<float>(sum);
    }

    const EmulatedWarp &warp_;
    Own own_[lanes] = {};
};

// Copies 16 bytes for each word of each run, from and to where locate(run, word) says; all of it is there
// after `finish_copies`.
template <class Locate>
void begin_copies(const EmulatedBlock &, int runs, int words, Locate locate) {
    for (int run = 0; run < runs; ++run) {
        for (int word = 0; word < words; ++word) {
            const Copy copy = locate(run, word);
            std::memcpy(copy.target, copy.source, sizeof(Words));
        }
    }
}

// Waits for all copies but those that were begun last by `newer` calls.
template <int newer>
void finish_copies(const EmulatedBlock &) {}

// Whether a block is the last of `count` to come here; it then sees what the others wrote before.
inline bool arrives_last(const EmulatedBlock &, uint32_t *counter, int count) {
    *counter = (*counter + 1) % static_cast<uint32_t>(count);
    return *counter == 0;
}

// A grid whose blocks keep the first part of their shared memory from phase to phase.
class EmulatedTensorGrid {
public:
    EmulatedTensorGrid(int blocks, int warps, int64_t lasting_floats, int64_t shared_floats)
        : blocks_(blocks), warps_(warps), lasting_(lasting_floats) {
        const auto nothing = std::numeric_limits<float>::quiet_NaN();
        shared_.assign(static_cast<size_t>(blocks), std::vector<float>(shared_floats, nothing));
    }

    template <class Function>
    void phase(Function function) {
        for (int index = 0; index < blocks_; ++index) {
            std::vector<float> &shared = shared_[static_cast<size_t>(index)];
            std::fill(shared.begin() + lasting_, shared.end(), std::numeric_limits<float>::quiet_NaN());
            function(EmulatedBlock(index, blocks_, warps_, shared.data()));
        }
    }

private:
    int blocks_, warps_;
    int64_t lasting_;
    std::vector<std::vector<float>> shared_;
};

}  // namespace ggtts::predictor
