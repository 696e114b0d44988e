// Attention of a warp to keys and values of float16, on matrix units.
//
// An instruction multiplies 16 rows with eight columns. Rows are queries, or their weights: the first part of
// up to eight heads, and then the second part of each, so that nothing is lost of their 22 bits and a lane
// has both parts of a sum. Columns are eight keys, or one element of each of eight units of the values. The
// scores of a tile lie in the lanes as the second product wants its weights, so they stay in registers.
#pragma once

#include "key_tiles.hpp"

namespace ggtts::talker::batch {

inline constexpr int parts_of_query = predictor::parts_of_number;
inline constexpr int keys_of_product = 8;
inline constexpr int products_of_tile = keys_of_tile / keys_of_product;
// Units that a lane reads of a key, of which four lanes have all, and of a value, of which eight have all.
inline constexpr int reads_of_key = units_of_row / 4;
inline constexpr int reads_of_value = units_of_row / 8;
// Weights are at most 1; times this power of two small ones keep their digits as halves, too.
inline constexpr float weight_power = 16384.0F;

struct HalfLane : ChunkLane {
    Words queries[reads_of_key][parts_of_query];
    float factor;  // of the scores of the lane's head
    Words read[4];
    float scores[products_of_tile][2][4];  // two sums each, one after the other would wait
    float weights[2 * products_of_tile];
    float top, highest, total;
    uint32_t left[4], right[2];
    float mixed[reads_of_value * halves_of_unit][4];
};

template <class AllLanes, class Tiles>
class HalfKeys : public ChunkAttention<HalfLane, AllLanes> {
    using Base = ChunkAttention<HalfLane, AllLanes>;
    using Own = HalfLane;
    using Base::all_, Base::size_, Base::has;

public:
    // In floats: means of the heads, before that the halves of queries; their softmax; the new key and value.
    static constexpr GGTTS_EVERYWHERE int room(int head_dim) {
        return queries_of_task * head_dim + 2 * queries_of_task + head_dim;
    }

    GGTTS_ANYWHERE HalfKeys(AllLanes &all, Tiles &tiles, int head_dim, float *room)
        : Base(all, head_dim),
          tiles_(tiles),
          means_(room),
          softmax_(room + queries_of_task * head_dim),
          queries_(reinterpret_cast<uint16_t *>(room)),
          new_key_(reinterpret_cast<uint16_t *>(softmax_ + 2 * queries_of_task)),
          new_value_(new_key_ + head_dim) {}

    GGTTS_ANYWHERE float *scratch() const { return means_; }

    // Computes the queries of a chunk, for it and those that follow with the same ones; and the new key where
    // one of them has it.
    GGTTS_ANYWHERE void prepare(const ChunkTask &task, const ChunkWeights &with, bool newest) {
        all_.meet();
        Base::load_inputs(task, with, newest);
        tiles_.start();
        Base::norm_and_rotate(with.epsilon);
        split_queries();
        if (newest)
            keep_new(task, with);
        all_.meet();
        all_.each([&](int lane, Own &own) {
#pragma unroll
            for (int read = 0; read < reads_of_key; ++read) {
#pragma unroll
                for (int part = 0; part < parts_of_query; ++part) {
                    const int head = lane / 4, at = key_unit(lane, read) * halves_of_unit;
                    const uint16_t *from = queries_ + (part * queries_of_task + head) * size_ + at;
                    own.queries[read][part] = head < queries_of_task && at < size_
                                                  ? *reinterpret_cast<const Words *>(from)
                                                  : Words{};
                }
            }
        });
    }

    GGTTS_ANYWHERE void attend(const ChunkTask &task, const Cache &) {
        all_.each([](int, Own &own) {
            own.top = float_of_bits(0xFF800000U);
            own.total = 0.0F;
#pragma unroll
            for (auto &mixed : own.mixed) {
#pragma unroll
                for (float &sum : mixed)
                    sum = 0.0F;
            }
        });
#pragma unroll 1
        for (int begin = task.begin; begin < task.end; begin += keys_of_tile) {
            uint8_t *tile = tiles_.next();
            insert_new(task, begin, tile);
            score(tile);
            weigh(task.end - begin);
            mix(tile + bytes_of_keys);
            tiles_.refill();
        }
        leave_mixed();
    }

    // Gives each lane four values of the mean of a head, and its softmax.
    GGTTS_ANYWHERE void take(int head) {
        all_.each([&](int lane, Own &own) {
            own.tops[head] = softmax_[2 * head];
            own.totals[head] = softmax_[2 * head + 1];
            if (!has(lane))
                return;
            const Floats sums = *reinterpret_cast<const Floats *>(means_ + head * size_ + 4 * lane);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                own.values.at[i] = sums.at[i] / (own.totals[head] * weight_power);
        });
    }

private:
    static GGTTS_ANYWHERE int key_unit(int lane, int read) { return lane % 4 + 4 * read; }
    static GGTTS_ANYWHERE int value_unit(int lane, int read) { return lane / 4 + 8 * read; }

    GGTTS_ANYWHERE Words unit_at(const uint8_t *place, int unit) const {
        return unit * halves_of_unit < size_ ? *reinterpret_cast<const Words *>(place) : Words{};
    }

    GGTTS_ANYWHERE void split_queries() {
        largest<queries_of_task>(
            all_,
            [](const Own &own, float (&sizes)[queries_of_task]) {
#pragma unroll
                for (int head = 0; head < queries_of_task; ++head)
                    sizes[head] = predictor::size_of(own.heads[head]);
            },
            [&](int lane, Own &own, const float (&sizes)[queries_of_task]) {
                own.factor = 0.0F;
#pragma unroll
                for (int head = 0; head < queries_of_task; ++head) {
                    const predictor::BlockScale by = predictor::block_scale(sizes[head]);
                    own.factor = lane / 4 == head ? by.factor / sqrtf(static_cast<float>(size_)) : own.factor;
                    if (has(lane))
                        split_query(own.heads[head], by.scale, queries_ + head * size_ + 4 * lane);
                }
            });
    }

    GGTTS_ANYWHERE void split_query(const Floats &query, float scale, uint16_t *to) const {
        uint32_t parts[parts_of_query][2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
            split_pair(query.at[2 * i] * scale, query.at[2 * i + 1] * scale, parts[0][i], parts[1][i]);
#pragma unroll
        for (int part = 0; part < parts_of_query; ++part)
            *reinterpret_cast<TwoWords *>(to + part * queries_of_task *
                                                   size_) = {{parts[part][0], parts[part][1]}};
    }

    // Both parts of two numbers.
    static GGTTS_ANYWHERE void split_pair(float low, float high, uint32_t &first, uint32_t &second) {
        const uint16_t parts[2] = {half_of_float(low), half_of_float(high)};
        first = parts[0] | static_cast<uint32_t>(parts[1]) << 16;
        second = predictor::pair_of_halves(low - float_of_half(parts[0]), high - float_of_half(parts[1]));
    }

    // The new key and value as the cache keeps them.
    GGTTS_ANYWHERE void keep_new(const ChunkTask &task, const ChunkWeights &with) {
        all_.each([&](int lane, const Own &own) {
            if (!has(lane))
                return;
            const auto halves_of = [](const Floats &four) {
                return TwoWords{{predictor::pair_of_halves(four.at[0], four.at[1]),
                                 predictor::pair_of_halves(four.at[2], four.at[3])}};
            };
            const TwoWords key = halves_of(own.heads[queries_of_task]), value = halves_of(own.value);
            *reinterpret_cast<TwoWords *>(new_key_ + 4 * lane) = key;
            *reinterpret_cast<TwoWords *>(new_value_ + 4 * lane) = value;
            const int64_t at = (static_cast<int64_t>(task.position) * size_ + 4 * lane) * 2;
            if (task.first_group) {
                *reinterpret_cast<TwoWords *>(with.cache.keys + at) = key;
                *reinterpret_cast<TwoWords *>(with.cache.values + at) = value;
            }
        });
    }

    // They stand behind the others.
    GGTTS_ANYWHERE void insert_new(const ChunkTask &task, int begin, uint8_t *tile) {
        const int row = task.position - begin;
        if (row >= keys_of_tile)
            return;
        all_.each([&](int lane, const Own &) {
            const int unit = lane % units_of_row, at = unit * halves_of_unit;
            if (at >= size_)
                return;
            const bool is_value = lane >= units_of_row;
            uint8_t *to = tile + (is_value ? bytes_of_keys + value_place(row, unit) : key_place(row, unit));
            *reinterpret_cast<Words *>(to) =
                *reinterpret_cast<const Words *>((is_value ? new_value_ : new_key_) + at);
        });
        all_.meet();
    }

    // Products of the queries with the keys of a tile.
    GGTTS_ANYWHERE void score(const uint8_t *keys) {
#pragma unroll
        for (int product = 0; product < products_of_tile; ++product) {
            all_.each([&](int lane, Own &own) {
                const int row = product * keys_of_product + lane / 4;
#pragma unroll
                for (int read = 0; read < reads_of_key; ++read) {
                    const int unit = key_unit(lane, read);
                    own.read[read] = unit_at(keys + key_place(row, unit), unit);
                }
#pragma unroll
                for (auto &chain : own.scores[product]) {
#pragma unroll
                    for (float &sum : chain)
                        sum = 0.0F;
                }
            });
#pragma unroll
            for (int read = 0; read < reads_of_key; ++read) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    all_.each([&](int, Own &own) {
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            own.left[i] = own.queries[read][i % 2].at[2 * half + i / 2];
                        own.right[0] = own.read[read].at[2 * half];
                        own.right[1] = own.read[read].at[2 * half + 1];
                    });
                    all_.multiply([&](Own &own) {
                        return predictor::TensorOperands{own.left, own.right, own.scores[product][half]};
                    });
                }
            }
        }
    }

    // Scores become weights, relative to the highest one so far. A lane has four keys of one head.
    GGTTS_ANYWHERE void weigh(int keys) {
        const float lowest = float_of_bits(0xFF800000U);
        all_.each([&](int lane, Own &own) {
            own.highest = own.top;
#pragma unroll
            for (int i = 0; i < 2 * products_of_tile; ++i) {
                const auto &sums = own.scores[i / 2];
                const float score =
                    ((sums[0][i % 2] + sums[1][i % 2]) + (sums[0][i % 2 + 2] + sums[1][i % 2 + 2])) *
                    own.factor;
                own.weights[i] = i / 2 * keys_of_product + lane % 4 * 2 + i % 2 < keys ? score : lowest;
                own.highest = fmaxf(own.highest, own.weights[i]);
            }
        });
        combine_fours(
            all_, [](const Own &own) { return own.highest; }, [](float a, float b) { return fmaxf(a, b); },
            [](Own &own, float highest) { own.highest = highest; });
        // Times 1 otherwise.
        if (any(all_, [](const Own &own) { return own.highest != own.top; }))
            lower_sums();
        all_.each([](int, Own &own) {
#pragma unroll
            for (float &weight : own.weights) {
                weight = expf(weight - own.top);
                own.total += weight;
            }
#pragma unroll
            for (int i = 0; i < products_of_tile; ++i)
                split_pair(own.weights[2 * i] * weight_power, own.weights[2 * i + 1] * weight_power,
                           own.left[2 * i], own.left[2 * i + 1]);
        });
    }

    GGTTS_ANYWHERE void lower_sums() {
        all_.each([](int, Own &own) {
            const float kept = expf(own.top - own.highest);
            own.top = own.highest;
            own.total *= kept;
#pragma unroll
            for (auto &mixed : own.mixed) {
#pragma unroll
                for (float &sum : mixed)
                    sum *= kept;
            }
        });
    }

    // Adds the values of a tile by their weights.
    GGTTS_ANYWHERE void mix(const uint8_t *values) {
#pragma unroll
        for (int read = 0; read < reads_of_value; ++read) {
            all_.each([&](int lane, Own &own) {
                const int unit = value_unit(lane, read);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int row = 2 * (lane % 4) + i % 2 + i / 2 * keys_of_product;
                    own.read[i] = unit_at(values + value_place(row, unit), unit);
                }
            });
#pragma unroll
            for (int element = 0; element < halves_of_unit; ++element) {
                all_.each([&](int, Own &own) {
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        own.right[i] = pair_of(own.read[2 * i].at[element / 2],
                                               own.read[2 * i + 1].at[element / 2], element % 2);
                });
                all_.multiply([&](Own &own) {
                    return predictor::TensorOperands{own.left, own.right,
                                                     own.mixed[read * halves_of_unit + element]};
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

    // Both parts of a sum are one lane's, that of an element of two units.
    GGTTS_ANYWHERE void leave_mixed() {
        combine_fours(
            all_, [](const Own &own) { return own.total; }, [](float a, float b) { return a + b; },
            [](Own &own, float total) { own.total = total; });
        all_.each([&](int lane, const Own &own) {
            const int head = lane / 4;
            if (head >= queries_of_task)
                return;
            if (lane % 4 == 0) {
                softmax_[2 * head] = own.top;
                softmax_[2 * head + 1] = own.total;
            }
#pragma unroll
            for (int i = 0; i < 2 * reads_of_value; ++i) {
                const int at = (lane % 4 * 2 + i % 2 + i / 2 * 8) * halves_of_unit;
                if (at >= size_)
                    continue;
                float *to = means_ + head * size_ + at;
#pragma unroll
                for (int first = 0; first < halves_of_unit; first += 4) {
                    Floats four;
#pragma unroll
                    for (int element = 0; element < 4; ++element) {
                        const auto &sums = own.mixed[i / 2 * halves_of_unit + first + element];
                        four.at[element] = sums[i % 2] + sums[i % 2 + 2];
                    }
                    *reinterpret_cast<Floats *>(to + first) = four;
                }
            }
        });
        all_.meet();
    }

    Tiles &tiles_;
    float *means_;    // [heads][head_dim]
    float *softmax_;  // [heads][highest score, sum]
    uint16_t *queries_, *new_key_, *new_value_;
};

}  // namespace ggtts::talker::batch
