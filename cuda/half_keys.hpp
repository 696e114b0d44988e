// Attention of a warp to some keys and values of float16, on matrix units.
//
// An instruction multiplies 16 keys, or 16 elements of the values of 16 keys, with eight columns. Four of
// them are used: both queries, or their weights, in two parts each, so that nothing is lost of their 22 bits.
// Keys and values are read in the order in which instructions take them.
#pragma once

#include "batch_attention.hpp"

namespace ggtts::talker::batch {

inline constexpr int keys_of_tile = 16;
inline constexpr int tiles_at_once = 2;
inline constexpr int keys_at_once = tiles_at_once * keys_of_tile;
static_assert(keys_at_once == lanes);
inline constexpr int columns_used = predictor::parts_of_number * queries_of_task;
// Halves that a lane reads at once.
inline constexpr int halves_of_read = 8;
// Of a lane: reads of a key, of which four lanes have all; reads of a value, of which eight have all.
inline constexpr int reads_of_key = most_head_dim / (4 * halves_of_read);
inline constexpr int reads_of_value = most_head_dim / (8 * halves_of_read);
inline constexpr int rows_of_key_tile = 2, rows_of_value_tile = 4;
inline constexpr int mixed_tiles = most_head_dim / keys_of_tile;
// Weights are at most 1; times this power of two small ones keep their digits as halves, too.
inline constexpr float weight_power = 16384.0F;

struct HalfLane : ChunkLane {
    Words keys[tiles_at_once][rows_of_key_tile][reads_of_key];
    Words kept_values[tiles_at_once][rows_of_value_tile][reads_of_value];
    Words queries[reads_of_key];
    float factors[queries_of_task];
    float scores[4];
    float mixed[mixed_tiles][4];
    uint32_t left[4], right[2];
};

template <class AllLanes>
class HalfKeys : public ChunkAttention<HalfLane, AllLanes> {
    using Base = ChunkAttention<HalfLane, AllLanes>;
    using Own = HalfLane;
    using Base::all_, Base::task_, Base::with_, Base::size_, Base::has;

public:
    // In floats: heads, the halves of queries, and of the new key and value; scores; halves of weights.
    static constexpr GGTTS_EVERYWHERE int room(int head_dim) {
        return (queries_of_task + 1) * head_dim + columns_used * head_dim / 2 + head_dim +
               columns_used * lanes + columns_used * lanes / 2;
    }

    GGTTS_ANYWHERE HalfKeys(AllLanes &all, const ChunkTask &task, const ChunkWeights &with, float *room)
        : Base(all, task, with, room),
          means_(room),
          queries_(reinterpret_cast<uint16_t *>(room + (queries_of_task + 1) * with.head_dim)),
          new_key_(queries_ + columns_used * with.head_dim),
          new_value_(new_key_ + with.head_dim),
          scores_(reinterpret_cast<float *>(new_value_ + with.head_dim)),
          weights_(reinterpret_cast<uint16_t *>(scores_ + columns_used * lanes)) {}

    GGTTS_ANYWHERE void attend() {
        Base::load_inputs();
        load_keys(task_.begin);
        Base::norm_and_rotate_all();
        split_queries();
        if (task_.newest)
            keep_new();
        all_.meet();
        all_.each([&](int lane, Own &own) {
#pragma unroll
            for (int read = 0; read < reads_of_key; ++read) {
                const int at = element_of_key(lane, read);
                own.queries[read] = lane / 4 < columns_used && at < size_
                                        ? shared_words(queries_ + lane / 4 * size_ + at)
                                        : Words{};
            }
        });
        for (int begin = task_.begin; begin < task_.end; begin += keys_at_once) {
            if (begin > task_.begin)
                load_keys(begin);
            insert_new(begin);
            score();
#pragma unroll
            for (int head = 0; head < queries_of_task; ++head)
                weigh(head, begin);
            all_.meet();
            mix();
            all_.meet();
        }
        leave_mixed();
    }

    // Gives each lane four values of the mean of a head.
    GGTTS_ANYWHERE void take(int head) {
        all_.each([&](int lane, Own &own) {
            const float *first = means_ + head * size_ + 4 * lane;
            if (!has(lane))
                return;
            const float total = own.totals[head] * weight_power;
            for (int i = 0; i < 4; ++i)
                own.values.at[i] = (first[i] + first[i + queries_of_task * size_]) / total;
        });
    }

private:
    // Rows of a tile, and elements, that a lane reads.
    static GGTTS_ANYWHERE int row_of_key(int lane, int row) { return lane / 4 + 8 * row; }
    static GGTTS_ANYWHERE int element_of_key(int lane, int read) {
        return halves_of_read * (lane % 4 + 4 * read);
    }
    static GGTTS_ANYWHERE int row_of_value(int lane, int row) {
        return 2 * (lane % 4) + row % 2 + row / 2 * 8;
    }
    static GGTTS_ANYWHERE int element_of_value(int lane, int read) {
        return halves_of_read * (lane / 4 + 8 * read);
    }
    static GGTTS_ANYWHERE Words shared_words(const uint16_t *from) {
        return *reinterpret_cast<const Words *>(from);
    }

    // Calls function(words, row, element, is_value) for all that a lane has.
    template <class Function>
    GGTTS_ANYWHERE void each_read(int lane, Own &own, Function function) const {
#pragma unroll
        for (int tile = 0; tile < tiles_at_once; ++tile) {
#pragma unroll
            for (int row = 0; row < rows_of_key_tile; ++row) {
#pragma unroll
                for (int read = 0; read < reads_of_key; ++read)
                    function(own.keys[tile][row][read], tile * keys_of_tile + row_of_key(lane, row),
                             element_of_key(lane, read), false);
            }
        }
#pragma unroll
        for (int tile = 0; tile < tiles_at_once; ++tile) {
#pragma unroll
            for (int row = 0; row < rows_of_value_tile; ++row) {
#pragma unroll
                for (int read = 0; read < reads_of_value; ++read)
                    function(own.kept_values[tile][row][read], tile * keys_of_tile + row_of_value(lane, row),
                             element_of_value(lane, read), true);
            }
        }
    }

    // Those that the cache has; the others are zeros.
    GGTTS_ANYWHERE void load_keys(int begin) {
        const int count = Base::old_keys(begin);
        const int64_t first = static_cast<int64_t>(begin) * size_ * 2;
        all_.each([&](int lane, Own &own) {
            each_read(lane, own, [&](Words &words, int row, int element, bool is_value) {
                const uint8_t *from = (is_value ? with_.cache.values : with_.cache.keys) + first;
                words = row < count && element < size_
                            ? predictor::load_words(from + (row * size_ + element) * 2)
                            : Words{};
            });
        });
    }

    GGTTS_ANYWHERE void split_queries() {
#pragma unroll
        for (int head = 0; head < queries_of_task; ++head) {
            const float highest =
                all_.highest([&](int, const Own &own) { return predictor::size_of(own.heads[head]); });
            const predictor::BlockScale by = predictor::block_scale(highest);
            all_.each([&](int lane, Own &own) {
                own.factors[head] = by.factor / sqrtf(static_cast<float>(size_));
                if (!has(lane))
                    return;
                for (int i = 0; i < 4; ++i)
                    split_number(queries_ + head * size_ + 4 * lane + i, queries_of_task * size_,
                                 by.scale == 0.0F ? 0.0F : own.heads[head].at[i] * by.scale);
            });
        }
    }

    // Both parts of a number, some halves apart.
    static GGTTS_ANYWHERE void split_number(uint16_t *to, int apart, float value) {
        to[0] = half_of_float(value);
        to[apart] = half_of_float(value - float_of_half(to[0]));
    }

    // The new key and value as the cache keeps them.
    GGTTS_ANYWHERE void keep_new() {
        all_.each([&](int lane, const Own &own) {
            if (!has(lane))
                return;
            TwoWords both[2] = {};
            for (int i = 0; i < 4; ++i) {
                const int shift = i % 2 * 16;
                both[0].at[i / 2] |= static_cast<uint32_t>(half_of_float(own.heads[queries_of_task].at[i]))
                                     << shift;
                both[1].at[i / 2] |= static_cast<uint32_t>(half_of_float(own.value.at[i])) << shift;
            }
            *reinterpret_cast<TwoWords *>(new_key_ + 4 * lane) = both[0];
            *reinterpret_cast<TwoWords *>(new_value_ + 4 * lane) = both[1];
            const int64_t at = (static_cast<int64_t>(task_.position) * size_ + 4 * lane) * 2;
            if (task_.adds) {
                *reinterpret_cast<TwoWords *>(with_.cache.keys + at) = both[0];
                *reinterpret_cast<TwoWords *>(with_.cache.values + at) = both[1];
            }
        });
    }

    // They stand behind the others.
    GGTTS_ANYWHERE void insert_new(int begin) {
        const int place = task_.position - begin;
        if (!task_.newest || place >= keys_at_once)
            return;
        all_.each([&](int lane, Own &own) {
            each_read(lane, own, [&](Words &words, int row, int element, bool is_value) {
                if (row == place && element < size_)
                    words = shared_words((is_value ? new_value_ : new_key_) + element);
            });
        });
    }

    // Products of 16 keys with both parts of both queries.
    GGTTS_ANYWHERE void score() {
#pragma unroll
        for (int tile = 0; tile < tiles_at_once; ++tile) {
            all_.each([&](int, Own &own) {
                for (float &score : own.scores)
                    score = 0.0F;
            });
#pragma unroll
            for (int step = 0; step < 2 * reads_of_key; ++step) {
                const int read = step / 2, word = step % 2 * 2;
                all_.each([&](int, Own &own) {
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        own.left[i] = own.keys[tile][i % 2][read].at[word + i / 2];
                    own.right[0] = own.queries[read].at[word];
                    own.right[1] = own.queries[read].at[word + 1];
                });
                all_.multiply(
                    [](Own &own) { return predictor::TensorOperands{own.left, own.right, own.scores}; });
            }
            // A lane has the scores of two keys and two columns: of one part of both queries.
            all_.each([&](int lane, const Own &own) {
                const int part = lane % 4;
                float *to = scores_ + part * queries_of_task * lanes + tile * keys_of_tile + lane / 4;
                if (part >= predictor::parts_of_number)
                    return;
                for (int i = 0; i < 4; ++i)
                    to[i % 2 * lanes + i / 2 * 8] = own.scores[i] * own.factors[i % 2];
            });
        }
        all_.meet();
    }

    GGTTS_ANYWHERE void weigh(int head, int begin) {
        const float *scores = scores_ + head * lanes;
        const int left = task_.end - begin;
        const bool first = begin == task_.begin;
        Base::weigh(
            head, first, left < keys_at_once ? left : keys_at_once,
            [&](int lane) { return scores[lane] + scores[lane + queries_of_task * lanes]; },
            [&](Own &own, int lane, float kept) {
                split_number(weights_ + head * lanes + lane, queries_of_task * lanes,
                             own.score * weight_power);
#pragma unroll
                for (int tile = 0; tile < mixed_tiles; ++tile) {
                    for (int i = 0; i < 4; i += queries_of_task)
                        own.mixed[tile][i + head] = first ? 0.0F : own.mixed[tile][i + head] * kept;
                }
            });
    }

    // Products of 16 elements of the values of 16 keys with both parts of the weights of both heads.
    GGTTS_ANYWHERE void mix() {
#pragma unroll
        for (int tile = 0; tile < tiles_at_once; ++tile) {
            all_.each([&](int lane, Own &own) {
                const uint16_t *first = weights_ + lane / 4 * lanes + tile * keys_of_tile + 2 * (lane % 4);
                for (int i = 0; i < 2; ++i)
                    own.right[i] =
                        lane / 4 < columns_used ? *reinterpret_cast<const uint32_t *>(first + 8 * i) : 0U;
            });
#pragma unroll
            for (int index = 0; index < mixed_tiles; ++index) {
                const int read = index / 4, word = index % 4;
                all_.each([&](int, Own &own) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int row = i / 2 * 2;
                        own.left[i] = pair_of(own.kept_values[tile][row][read].at[word],
                                              own.kept_values[tile][row + 1][read].at[word], i % 2);
                    }
                });
                all_.multiply([&](Own &own) {
                    return predictor::TensorOperands{own.left, own.right, own.mixed[index]};
                });
            }
        }
    }

    // The halves `which` of two words.
    static GGTTS_ANYWHERE uint32_t pair_of(uint32_t low, uint32_t high, int which) {
#ifdef __CUDACC__
        return __byte_perm(low, high, which == 0 ? 0x5410 : 0x7632);
#else
        return which == 0 ? (low & 0xFFFFU) | high << 16 : low >> 16 | (high & 0xFFFF0000U);
#endif
    }

    // A lane has two elements and two columns: of one part of both heads.
    GGTTS_ANYWHERE void leave_mixed() {
        all_.each([&](int lane, const Own &own) {
            const int part = lane % 4;
            if (part >= predictor::parts_of_number)
                return;
#pragma unroll
            for (int index = 0; index < mixed_tiles; ++index) {
                const int element = element_of_value(lane, index / 4) + index % 4 * 2;
                float *to = means_ + part * queries_of_task * size_ + element;
                if (element >= size_)
                    continue;
                for (int i = 0; i < 4; ++i)
                    to[i % 2 * size_ + i / 2] = own.mixed[index][i];
            }
        });
        all_.meet();
    }

    float *means_;  // [parts][heads][head_dim], where heads and halves were before
    uint16_t *queries_, *new_key_, *new_value_;
    float *scores_;
    uint16_t *weights_;
};

}  // namespace ggtts::talker::batch
