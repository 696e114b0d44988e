// Keys and values of float16 on their way from where GGML keeps them into shared memory.
//
// A warp knows all its chunks from the beginning, so it asks for the next tile of keys while it attends to
// one, also where that belongs to another utterance. In shared memory, lanes that read together find their
// rows in different banks: see `key_place` and `value_place`.
#pragma once

#include "batch_attention.hpp"

namespace ggtts::talker::batch {

inline constexpr int keys_of_tile = 16;
// Tiles that have come or are on their way.
inline constexpr int tiles_of_warp = 2;
// Halves that a lane reads or copies at once: a unit.
inline constexpr int halves_of_unit = 8;
inline constexpr int unit_bytes = 2 * halves_of_unit;
inline constexpr int units_of_row = most_head_dim / halves_of_unit;
inline constexpr int row_bytes_of_tile = units_of_row * unit_bytes;
// Of the keys of a tile; the values follow.
inline constexpr int bytes_of_keys = keys_of_tile * row_bytes_of_tile;
inline constexpr int tile_bytes = 2 * bytes_of_keys;
static_assert(lanes % units_of_row == 0 && keys_of_tile * units_of_row % lanes == 0);

// Where a unit of a row lies. Two rows of keys are read together, in four neighbouring units;
GGTTS_ANYWHERE int key_place(int row, int unit) {
    return row * row_bytes_of_tile + (unit ^ row % 2 * 4) * unit_bytes;
}
// and every second one of eight rows of values, in two.
GGTTS_ANYWHERE int value_place(int row, int unit) {
    return row * row_bytes_of_tile + (unit ^ row / 2 % 4 * 2) * unit_bytes;
}

// task_at(number) describes a chunk, cache_of(task) says where its keys are.
template <class AllLanes, class TaskAt, class CacheOf>
class KeyTiles {
public:
    GGTTS_ANYWHERE KeyTiles(AllLanes &all, const OwnTasks &tasks, int head_dim, uint8_t *room, TaskAt task_at,
                            CacheOf cache_of)
        : all_(all),
          room_(room),
          size_(head_dim),
          next_(tasks.first),
          last_(tasks.last),
          task_at_(task_at),
          cache_of_(cache_of) {}

    // Asks for the first ones, if that has not been done.
    GGTTS_ANYWHERE void start() {
        GGTTS_SHORT_LOOP
        for (; missing_ > 0; --missing_)
            ask();
    }

    // The next tile, which has come: keys that the cache has, and zeros in the place of others.
    GGTTS_ANYWHERE uint8_t *next() {
        wait_for_pieces<tiles_of_warp - 1>(all_);
        return room_ + place_ * tile_bytes;
    }

    // Asks for another one in its place, as soon as no lane needs it any more: once for each `next`.
    GGTTS_ANYWHERE void refill() {
        all_.meet();
        ask();
    }

private:
    GGTTS_ANYWHERE void ask() {
        if (left_ <= 0 && next_ < last_) {
            const ChunkTask task = task_at_(next_++);
            const Cache cache = cache_of_(task);
            const int64_t begin = static_cast<int64_t>(task.begin) * size_ * 2;
            keys_ = cache.keys + begin;
            values_ = cache.values + begin;
            left_ = task.end - task.begin;
            old_ = task.old_keys(task.begin);
        }
        if (size_ == most_head_dim && old_ >= keys_of_tile)
            copy_whole();
        else
            copy_some();
        const int bytes = keys_of_tile * size_ * 2;
        keys_ += bytes;
        values_ += bytes;
        left_ -= keys_of_tile;
        old_ -= keys_of_tile;
        place_ = place_ + 1 == tiles_of_warp ? 0 : place_ + 1;
    }

    static constexpr int rows_at_once = lanes / units_of_row;

    // A tile of long rows that lie side by side: most of them.
    GGTTS_ANYWHERE void copy_whole() const {
        constexpr int pieces = keys_of_tile / rows_at_once, apart = rows_at_once * row_bytes_of_tile;
        uint8_t *to = room_ + place_ * tile_bytes;
        const uint8_t *sources[2] = {keys_, values_};
        begin_all_pieces<2 * pieces>(all_, [&](int lane, int piece) {
            const int row = piece % pieces * rows_at_once + lane / units_of_row, unit = lane % units_of_row;
            const int place = piece >= pieces ? bytes_of_keys + value_place(row, unit) : key_place(row, unit);
            return PieceCopy{to + place, sources[piece / pieces] + lane * unit_bytes + piece % pieces * apart,
                             true};
        });
    }

    // Nothing behind the last tile.
    GGTTS_ANYWHERE void copy_some() const {
        uint8_t *to = room_ + place_ * tile_bytes;
        const int pieces = left_ > 0 ? 2 * keys_of_tile / rows_at_once : 0;
        begin_pieces(all_, pieces, [&](int lane, int piece) {
            const bool is_value = piece >= keys_of_tile / rows_at_once;
            const int row = piece * rows_at_once % keys_of_tile + lane / units_of_row,
                      unit = lane % units_of_row;
            const int place = is_value ? bytes_of_keys + value_place(row, unit) : key_place(row, unit);
            const int from = (row * size_ + unit * halves_of_unit) * 2;
            return PieceCopy{to + place, (is_value ? values_ : keys_) + from,
                             row < old_ && unit * halves_of_unit < size_};
        });
    }

    AllLanes &all_;
    uint8_t *room_;
    int size_, next_, last_;
    TaskAt task_at_;
    CacheOf cache_of_;
    int place_ = 0;  // of the tile to be read and, as soon as it has been, of the one to ask for
    // What to ask for next: of the chunk, how many keys are left, and how many of those the cache has.
    const uint8_t *keys_ = nullptr, *values_ = nullptr;
    int left_ = 0, old_ = 0;
    int missing_ = tiles_of_warp;  // of the first ones
};

}  // namespace ggtts::talker::batch
