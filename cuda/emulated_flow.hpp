// The grid of the kernel for few columns as loops. Whatever a GPU would read too early makes it throw, or is
// NaN.
#pragma once

#include <stdexcept>

#include "emulated_grid.hpp"
#include "letters.hpp"
#include "weight_feed.hpp"

namespace ggtts::predictor {

// The feeds of all warps of a block. What is copied becomes visible with the wait for it.
template <class Type>
class EmulatedFeed {
public:
    static constexpr size_t bytes = tile_bytes<Type>;

    EmulatedFeed(int warps, int depth, const std::vector<Portion> &portions) {
        for (int warp = 0; warp < warps; ++warp) {
            rings_.push_back({TileStream(portions.data(), static_cast<int>(portions.size()), warp, warps),
                              std::vector<Slot>(static_cast<size_t>(depth)), 0, 0});
            fill(rings_.back());
        }
    }

    // The tile that is next in the stream of a warp, complete.
    template <class Warp>
    const uint8_t *wait(const Warp &warp) {
        Ring &ring = rings_[static_cast<size_t>(warp.index())];
        if (ring.next == ring.asked)
            refill(ring);
        Slot &slot = ring.slots[ring.next % ring.slots.size()];
        if (slot.state != State::copying)
            throw std::logic_error("a block would wait forever: nothing is copied into this slot");
        slot.visible = slot.arriving;
        slot.state = State::ready;
        ++ring.next;
        return slot.visible.front().bytes;
    }

    // Begins to copy into all slots that were read.
    void refill() {
        for (Ring &ring : rings_)
            refill(ring);
    }

private:
    enum class State { empty, copying, ready };
    struct alignas(16) Line {
        uint8_t bytes[16];
    };
    using Lines = std::vector<Line>;
    struct Slot {
        Lines visible = Lines(bytes / sizeof(Line)), arriving = Lines(bytes / sizeof(Line));
        State state = State::empty;
    };
    struct Ring {
        TileStream stream;
        std::vector<Slot> slots;
        size_t next, asked;  // tiles
    };

    static void refill(Ring &ring) {
        for (Slot &slot : ring.slots)
            slot.state = slot.state == State::ready ? State::empty : slot.state;
        fill(ring);
    }

    static void fill(Ring &ring) {
        for (size_t i = 0; i < ring.slots.size(); ++i) {
            Slot &slot = ring.slots[ring.asked % ring.slots.size()];
            if (slot.state != State::empty)
                return;
            std::memset(slot.visible.data(), 0xFF, bytes);
            const uint8_t *tile = ring.stream.template next<static_cast<int>(bytes)>();
            if (tile == nullptr)
                return;
            std::memcpy(slot.arriving.data(), tile, bytes);
            slot.state = State::copying;
            ++ring.asked;
        }
    }

    std::vector<Ring> rings_;
};

// What lasts from phase to phase of a block.
template <class Type>
struct EmulatedMemory {
    std::vector<Portion> portions;
    std::vector<float> kept;
    EmulatedFeed<Type> feed;
};

template <class Type>
class EmulatedFlowBlock : public EmulatedBlock {
public:
    EmulatedFlowBlock(int index, int blocks, int warps, float *shared, EmulatedMemory<Type> &memory)
        : EmulatedBlock(index, blocks, warps, shared), memory_(memory) {}

    // The block's part of a step.
    const Portion &portion(int step) const { return memory_.portions[static_cast<size_t>(step)]; }
    // Memory that lasts until the end.
    float *kept() const { return memory_.kept.data(); }
    EmulatedFeed<Type> &feed() { return memory_.feed; }

    // All threads wait for the last.
    void join() const {}

    // `each` and `each_task` that nobody waits for.
    template <class Function>
    void spread(int count, Function function) const {
        each(count, function);
    }
    template <class Function>
    void spread_tasks(int count, Function function) const {
        each_task(count, function);
    }

    // Calls take(column, at, pair of values, prepare(at)) for all pairs of `columns` columns, zeros from
    // `width` up to `stride`: of letters [columns][width], or, without any, of kept [columns][kept_stride].
    // What `prepare` reads, it may read before the letters are there. All threads wait for the last.
    template <int columns, class Prepare, class Take>
    void receive_columns(const Letter *letters, const float *kept, int kept_stride, int width, int stride,
                         uint32_t time, Prepare prepare, Take take) const {
        for (int column = 0; column < columns; ++column) {
            for (int at = 0; at < stride; at += 2) {
                const Letter *const places[1] = {
                    letters != nullptr && at < width ? letters + column * width + at : nullptr};
                Pair pairs[1];
                receive_pairs<Forever>(places, time, pairs);
                if (letters == nullptr && at < width)
                    pairs[0] = {kept[column * kept_stride + at], kept[column * kept_stride + at + 1]};
                take(column, at, pairs[0], at < width ? prepare(at) : decltype(prepare(0)){});
            }
        }
    }

private:
    EmulatedMemory<Type> &memory_;
};

template <class Type>
class EmulatedFlowGrid {
public:
    EmulatedFlowGrid(int blocks, int warps, int depth, int64_t kept_floats, int64_t shared_floats,
                     const Step *steps, int step_count)
        : warps_(warps), shared_(static_cast<size_t>(shared_floats)) {
        const float unknown = std::numeric_limits<float>::quiet_NaN();
        for (int block = 0; block < blocks; ++block) {
            std::vector<Portion> portions;
            for (int step = 0; step < step_count; ++step)
                portions.push_back(portion_of<Type>(steps[step], block, blocks));
            EmulatedFeed<Type> feed(warps, depth, portions);
            memory_.push_back({std::move(portions),
                               std::vector<float>(static_cast<size_t>(kept_floats), unknown),
                               std::move(feed)});
        }
    }

    // Of any block.
    const Portion &portion(int step) const { return memory_.front().portions[static_cast<size_t>(step)]; }

    // Calls function(block) in each block.
    template <class Function>
    void phase(Function function) {
        const int blocks = static_cast<int>(memory_.size());
        for (int index = 0; index < blocks; ++index) {
            std::fill(shared_.begin(), shared_.end(), std::numeric_limits<float>::quiet_NaN());
            EmulatedFlowBlock<Type> block(index, blocks, warps_, shared_.data(),
                                          memory_[static_cast<size_t>(index)]);
            function(block);
        }
    }

private:
    int warps_;
    std::vector<float> shared_;
    std::vector<EmulatedMemory<Type>> memory_;
};

}  // namespace ggtts::predictor
