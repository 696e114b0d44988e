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

// Begins to copy some rows, as locate(row) says.
template <class Locate>
void begin_rows(const EmulatedBlock &, int rows, Locate locate) {
    for (int row = 0; row < rows; ++row) {
        const RowCopy copy = locate(row);
        std::memcpy(copy.target, copy.source, static_cast<size_t>(copy.bytes));
        std::memset(copy.target + copy.bytes, 0, static_cast<size_t>(copy.room - copy.bytes));
    }
}

// Waits for all copies but those that were begun last by `newer` calls.
inline void wait_for_copies(const EmulatedBlock &, int) {}

// Whether a warp is the last of `count` to come here; it then sees what the others wrote before.
inline bool comes_last(const EmulatedWarp &, uint32_t *counter, int count) {
    *counter = (*counter + 1) % static_cast<uint32_t>(count);
    return *counter == 0;
}

}  // namespace ggtts::talker::batch
