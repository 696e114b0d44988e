// The grid of a GPU as loops: for tests on machines without one. Sums are made in the order of the GPU's.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "weight_types.hpp"

namespace ggtts::predictor {

class EmulatedWarp {
public:
    explicit EmulatedWarp(int index) : index_(index) {}

    int index() const { return index_; }

    // Calls function(i) for i in [0, count).
    template <class Function>
    void each(int count, Function function) const {
        for (int i = 0; i < count; ++i)
            function(i);
    }

    // The sum of function(lane) over all lanes.
    template <class Function>
    float sum(Function function) const {
        float result = 0;
        sums<1>([&](int lane, float (&values)[1]) { values[0] = function(lane); },
                [&](int, float total) { result = total; });
        return result;
    }

    // The highest function(lane).
    template <class Function>
    float highest(Function function) const {
        float result = function(0);
        for (int lane = 1; lane < lanes; ++lane)
            result = std::max(result, function(lane));
        return result;
    }

    // Many sums at once: add(lane, values) adds to the values of a lane, take(index, total) is given each
    // sum.
    template <int count, class Add, class Take>
    void sums(Add add, Take take) const {
        float values[lanes][count] = {};
        for (int lane = 0; lane < lanes; ++lane)
            add(lane, values[lane]);
        for (int index = 0; index < count; ++index) {
            for (int step = lanes / 2; step > 0; step /= 2) {
                for (int lane = 0; lane < step; ++lane)
                    values[lane][index] += values[lane + step][index];
            }
            take(index, values[0][index]);
        }
    }

private:
    int index_;
};

class EmulatedBlock {
public:
    EmulatedBlock(int index, int blocks, int warps, float *shared)
        : index_(index), blocks_(blocks), warps_(warps), shared_(shared) {}

    int index() const { return index_; }
    int blocks() const { return blocks_; }
    float *shared() const { return shared_; }

    // Calls function(i) for i in [0, count), spread over the threads; all of them wait for the last.
    template <class Function>
    void each(int count, Function function) const {
        for (int i = 0; i < count; ++i)
            function(i);
    }

    // Calls function(warp, task) for each task, spread over the warps; all of them wait for the last.
    template <class Function>
    void each_task(int count, Function function) const {
        for (int task = 0; task < count; ++task)
            function(EmulatedWarp(task % warps_), task);
    }

    // The sum of function(i) for i in [0, count), given to all threads.
    template <class Number, class Function>
    Number total(int count, Function function) const {
        Number result = 0;
        for (int i = 0; i < count; ++i)
            result += function(i);
        return result;
    }

    // Several numbers at once: function(i, totals) adds to them. Given to all threads.
    template <int several, class Function>
    void counts(int count, Function function, int (&totals)[several]) const {
        std::fill(totals, totals + several, 0);
        for (int i = 0; i < count; ++i)
            function(i, totals);
    }

    // The highest function(i) for i in [0, count), given to all threads.
    template <class Number, class Function>
    Number highest(int count, Function function) const {
        Number result = function(0);
        for (int i = 1; i < count; ++i)
            result = std::max<Number>(result, function(i));
        return result;
    }

    // The first i at which the sum of function(0) .. function(i), which are not negative, reaches `part` of
    // the whole; -1: rounding hid it. Given to all threads.
    template <class Function>
    int place(int count, Function function, float part) const {
        const double target = static_cast<double>(part) * total<double>(count, function);
        double sum = 0.0;
        for (int i = 0; i < count; ++i) {
            sum += function(i);
            if (sum >= target && function(i) > 0.0F)
                return i;
        }
        return -1;
    }

    // Asks for memory that will be read soon.
    void prefetch(const uint8_t *, int64_t) const {}

private:
    int index_, blocks_, warps_;
    float *shared_;
};

class EmulatedGrid {
public:
    EmulatedGrid(int blocks, int warps, int64_t shared_floats)
        : blocks_(blocks), warps_(warps), shared_(static_cast<size_t>(shared_floats)) {}

    // Calls function(block) in each block; the next phase begins when all of them are done.
    template <class Function>
    void phase(Function function) {
        for (int index = 0; index < blocks_; ++index) {
            // What a block of a GPU would find there is anything.
            std::fill(shared_.begin(), shared_.end(), std::numeric_limits<float>::quiet_NaN());
            function(EmulatedBlock(index, blocks_, warps_, shared_.data()));
        }
    }

private:
    int blocks_, warps_;
    std::vector<float> shared_;
};

}  // namespace ggtts::predictor
