// What the kernel for steps of several utterances asks of a GPU, as loops: for tests on machines without one.
#pragma once

#include <memory>

#include "batch_operands.hpp"
#include "emulated_tensor.hpp"

namespace ggtts::talker::batch {

using predictor::EmulatedBlock;
using predictor::EmulatedWarp;

// What the lanes of all warps of a block keep to themselves between two tasks.
template <class Block, class Own>
class AllWarps;

template <class Own>
class AllWarps<EmulatedBlock, Own> {
public:
    explicit AllWarps(int warps) {
        for (int index = 0; index < warps; ++index)
            warps_.push_back(std::make_unique<WarpWithLanes>(index));
    }
    predictor::Lanes<EmulatedWarp, Own> &of(const EmulatedWarp &warp) {
        return warps_[static_cast<size_t>(warp.index())]->all;
    }

private:
    struct WarpWithLanes {
        explicit WarpWithLanes(int index) : warp(index), all(warp) {}
        EmulatedWarp warp;
        predictor::Lanes<EmulatedWarp, Own> all;
    };
    std::vector<std::unique_ptr<WarpWithLanes>> warps_;
};

inline void make_arrivals(const EmulatedBlock &, uint64_t *, int) {}

// Begins to copy some rows, as locate(row) says, into a slot.
template <class Locate>
void begin_rows(const EmulatedBlock &, uint64_t *, int rows, Locate locate) {
    for (int row = 0; row < rows; ++row) {
        const RowCopy copy = locate(row);
        std::memcpy(copy.target, copy.source, static_cast<size_t>(copy.bytes));
        std::memset(copy.target + copy.bytes, 0, static_cast<size_t>(copy.room - copy.bytes));
    }
}

// Waits for the rows of a slot, which has been used for an odd number of times before or not; and for all
// threads.
inline void wait_for_rows(const EmulatedBlock &, uint64_t *, uint32_t) {}

// Copies that a warp begins: locate(lane, i) for i in [0, count).
template <class Own, class Locate>
void begin_pieces(predictor::Lanes<EmulatedWarp, Own> &all, int count, Locate locate) {
    all.each([&](int lane, const Own &) {
        for (int i = 0; i < count; ++i) {
            const PieceCopy copy = locate(lane, i);
            if (copy.exists)
                std::memcpy(copy.target, copy.source, sizeof(predictor::Words));
            else
                std::memset(copy.target, 0, sizeof(predictor::Words));
        }
    });
}

// As many as is known beforehand.
template <int count, class Own, class Locate>
void begin_all_pieces(predictor::Lanes<EmulatedWarp, Own> &all, Locate locate) {
    begin_pieces(all, count, locate);
}

// Waits for all copies of a warp but those that were begun last by `newer` calls.
template <int newer, class Own>
void wait_for_pieces(predictor::Lanes<EmulatedWarp, Own> &) {}

namespace detail {

// Each lane hands numbers to set(lane, own, numbers), combined with those of others: of lanes that differ by
// `first`, half of that, and so on to 1.
template <int count, class Own, class Get, class Combine, class Set>
void combine_lanes(predictor::Lanes<EmulatedWarp, Own> &all, int first, Get get, Combine combine, Set set) {
    float values[predictor::lanes][count], before[predictor::lanes][count];
    all.each([&](int lane, const Own &own) { get(own, values[lane]); });
    for (int step = first; step > 0; step /= 2) {
        std::memcpy(before, values, sizeof values);
        for (int lane = 0; lane < predictor::lanes; ++lane) {
            for (int i = 0; i < count; ++i)
                values[lane][i] = combine(before[lane][i], before[lane ^ step][i]);
        }
    }
    all.each([&](int lane, Own &own) { set(lane, own, values[lane]); });
}

}  // namespace detail

// What lanes tell each other: set(own, sums) is given the sums of what get(own, numbers) says.
template <int count, class Own, class Get, class Set>
void add_up(predictor::Lanes<EmulatedWarp, Own> &all, Get get, Set set) {
    detail::combine_lanes<count>(
        all, predictor::lanes / 2, get, [](float a, float b) { return a + b; },
        [&](int, Own &own, const float (&sums)[count]) { set(own, sums); });
}

// The largest of numbers that are not negative: set(lane, own, numbers).
template <int count, class Own, class Get, class Set>
void largest(predictor::Lanes<EmulatedWarp, Own> &all, Get get, Set set) {
    detail::combine_lanes<count>(
        all, predictor::lanes / 2, get, [](float a, float b) { return std::max(a, b); }, set);
}

// Combines what get(own) returns in each four neighbouring lanes, and hands it to set(own, value).
template <class Own, class Get, class Combine, class Set>
void combine_fours(predictor::Lanes<EmulatedWarp, Own> &all, Get get, Combine combine, Set set) {
    detail::combine_lanes<1>(
        all, 2, [&](const Own &own, float (&values)[1]) { values[0] = get(own); }, combine,
        [&](int, Own &own, const float (&values)[1]) { set(own, values[0]); });
}

// Gives each lane what another one has: set(lane, own, taken) of what get(own) returns in lane from(lane).
template <class Own, class From, class Get, class Set>
void exchange(predictor::Lanes<EmulatedWarp, Own> &all, From from, Get get, Set set) {
    predictor::Floats given[predictor::lanes];
    all.each([&](int lane, const Own &own) { given[lane] = get(own); });
    all.each([&](int lane, Own &own) { set(lane, own, given[from(lane)]); });
}

// Whether test(own) is true for a lane.
template <class Own, class Test>
bool any(predictor::Lanes<EmulatedWarp, Own> &all, Test test) {
    bool result = false;
    all.each([&](int, const Own &own) { result = result || test(own); });
    return result;
}

// Whether a warp is the last of `count` to come here; it then sees what the others wrote before.
inline bool comes_last(const EmulatedWarp &, uint32_t *counter, int count) {
    *counter = (*counter + 1) % static_cast<uint32_t>(count);
    return *counter == 0;
}

}  // namespace ggtts::talker::batch
