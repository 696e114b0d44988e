// Which weights a block multiplies, and in which order: so that they can be copied into its shared memory
// long before the activations are known.
//
// A tile is one chunk of a group of rows. Each warp has a stream of tiles of its own - of each step the tiles
// w, w + warps, ... of the block's portion - and a ring of slots in shared memory through which they come. It
// waits for the tile that is next, which is valid until it waits again, and asks for later ones when it is
// done:
//     const uint8_t *tile = feed.wait(warp);  // for 0 or more tiles, then
//     feed.refill();
#pragma once

#include "products.hpp"

namespace ggtts::predictor {

// A step as one block sees it: its neighbouring groups of rows.
struct Portion {
    const uint8_t *data;  // of the first tile
    int32_t first;        // group
    int32_t rows;         // of the whole matrix
    uint16_t groups, chunks;
    uint16_t index;
    Product product;
    uint8_t enters;

    GGTTS_ANYWHERE int tiles() const { return groups * chunks; }
};

template <class Type>
constexpr int tile_bytes = rows_together * Type::chunk_bytes;

template <class Type>
GGTTS_ANYWHERE Portion portion_of(const Step &step, int block, int blocks) {
    const Share share = share_of(step.matrix, block, blocks);
    return {step.matrix.data + static_cast<int64_t>(share.first) * step.matrix.chunks * tile_bytes<Type>,
            share.first,
            step.matrix.rows,
            static_cast<uint16_t>(share.count),
            static_cast<uint16_t>(step.matrix.chunks),
            step.index,
            step.product,
            step.enters};
}

// Where the stream of one warp stands.
class TileStream {
public:
    GGTTS_ANYWHERE TileStream(const Portion *portions, int count, int warp, int warps)
        : portions_(portions), count_(count), warp_(warp), warps_(warps), tile_(warp) {}

    // The next tile, null at the end.
    template <int bytes>
    GGTTS_ANYWHERE const uint8_t *next() {
        while (step_ < count_ && tile_ >= portions_[step_].tiles()) {
            tile_ = warp_;
            ++step_;
        }
        if (step_ == count_)
            return nullptr;
        const uint8_t *found = portions_[step_].data + static_cast<int64_t>(tile_) * bytes;
        tile_ += warps_;
        return found;
    }

private:
    const Portion *portions_;
    int count_, warp_, warps_, tile_;
    int step_ = 0;
};

}  // namespace ggtts::predictor
