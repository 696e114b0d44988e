// The attention of the new positions of several utterances, each over its own keys and values where GGML
// keeps them.
//
// A warp has some of the keys of one key head of one utterance, and up to two of the query heads that share
// it. What the chunks of a head have found is put together by the warp that is done last (Dao et al.,
// "Flash-Decoding", 2023). How keys are divided depends on the position of their utterance only, and so do
// all sums.
#pragma once

#include "batch_model.hpp"
#include "batch_operands.hpp"
#include "talker_attention.hpp"
#include "split_activations.hpp"

namespace ggtts::talker::batch {

using predictor::BlockPlace;
using predictor::FourValues;
using predictor::TwoWords;

// Chunks of a head, at most: a lane for each puts them together.
inline constexpr int most_chunks = lanes;
// Sums that a warp makes at once.
inline constexpr int keys_scored = 16;
inline constexpr int scores_at_once = keys_scored * queries_of_task;

// Four neighbours of a key or a value as a cache keeps them; as many of those as fit the registers are asked
// for at once.
struct HalfCache {
    static constexpr int keys_at_once = 32;
    static constexpr int bytes = 2;
    using Four = TwoWords;

    static GGTTS_ANYWHERE Four load(const uint8_t *from) { return predictor::load_two_words(from); }
    static GGTTS_ANYWHERE Floats floats(const Four &four) {
        Floats result;
        for (int i = 0; i < 4; ++i)
            result.at[i] = float_of_half(static_cast<uint16_t>(four.at[i / 2] >> (i % 2 * 16)));
        return result;
    }
    static GGTTS_ANYWHERE Four of(const Floats &values) {
        Four result{};
        for (int i = 0; i < 4; ++i)
            result.at[i / 2] |= static_cast<uint32_t>(half_of_float(values.at[i])) << (i % 2 * 16);
        return result;
    }
};

struct SingleCache {
    static constexpr int keys_at_once = 16;
    static constexpr int bytes = 4;
    using Four = Words;

    static GGTTS_ANYWHERE Four load(const uint8_t *from) { return predictor::load_words(from); }
    static GGTTS_ANYWHERE Floats floats(const Four &four) {
        Floats result;
        for (int i = 0; i < 4; ++i)
            result.at[i] = float_of_bits(four.at[i]);
        return result;
    }
    static GGTTS_ANYWHERE Four of(const Floats &values) {
        Four result;
        for (int i = 0; i < 4; ++i)
            result.at[i] = bits_of_float(values.at[i]);
        return result;
    }
};

// Groups of query heads that share a key head.
constexpr GGTTS_EVERYWHERE int groups_of(const Sizes &sizes) {
    return (sizes.heads / sizes.kv_heads + queries_of_task - 1) / queries_of_task;
}
constexpr GGTTS_EVERYWHERE int spans_of(const Sizes &sizes) {
    return sizes.kv_heads * groups_of(sizes);
}

// What a warp attends to, and who shares it.
struct ChunkTask {
    int column, span, chunk, chunks, first_of_span;  // tasks
    int kv_head, first_head, heads;
    int begin, end, position;
    bool newest;  // whether the new position is among the keys, at their end
    bool adds;    // whether it is added to the cache here

    GGTTS_ANYWHERE ChunkTask(const Sizes &sizes, const BatchStep &step, int task) {
        // The last column that begins no later; those without tasks begin where the next one does.
        column = 0;
        for (int half = most_columns / 2; half > 0; half /= 2) {
            const int middle = column + half;
            if (middle < step.columns && step.each[middle].first_task <= task)
                column = middle;
        }
        const Column &of = step.each[column];
        const int inside = task - of.first_task, groups = groups_of(sizes);
        chunks = of.chunks;
        span = inside / chunks;
        chunk = inside - span * chunks;
        first_of_span = task - chunk;
        kv_head = span / groups;
        const int group = span - kv_head * groups, sharing = sizes.heads / sizes.kv_heads;
        first_head = kv_head * sharing + group * queries_of_task;
        const int left = sharing - group * queries_of_task;
        heads = left < queries_of_task ? left : queries_of_task;
        position = of.position;
        begin = chunk * of.chunk;
        end = begin + of.chunk <= position ? begin + of.chunk : position + 1;
        newest = end == position + 1;
        adds = newest && group == 0;
    }
};

// Of a warp, in shared memory, in floats.
constexpr GGTTS_EVERYWHERE int room_of_attention(int head_dim) {
    return ((queries_of_task + 1) * head_dim + queries_of_task * lanes + 3) / 4 * 4;
}

template <class Cached>
struct ChunkLane : FourValues {
    typename Cached::Four old_keys[Cached::keys_at_once], old_values[Cached::keys_at_once];
    Floats heads[queries_of_task + 1];  // queries, the new key
    Floats value;                        // the new one
    Floats mixed[queries_of_task];
    float tops[queries_of_task], totals[queries_of_task];
    float score;  // of the key that is the lane's
};

// What belongs to the model and the position.
struct ChunkWeights {
    const Norms &norms;
    const float *rotation;  // of the position
    Cache cache;            // of the key head
    const float *inputs;    // of the column
    int head_dim, query_heads, kv_heads;
    float epsilon;
};

// The attention of one warp to one chunk.
template <class Cached, class AllLanes>
class ChunkAttention {
    using Own = ChunkLane<Cached>;

public:
    GGTTS_ANYWHERE ChunkAttention(AllLanes &all, const ChunkTask &task, const ChunkWeights &with, float *room)
        : all_(all),
          task_(task),
          with_(with),
          size_(with.head_dim),
          heads_(room),
          scores_(room + (queries_of_task + 1) * with.head_dim) {}

    // Afterwards each lane has four values of the mean of each head, and the logarithm of its weights' sum.
    GGTTS_ANYWHERE void attend() {
        load_inputs();
        load_keys(task_.begin);
#pragma unroll
        for (int head = 0; head < queries_of_task; ++head)
            norm_and_rotate(head, with_.norms.query);
        if (task_.newest) {
            norm_and_rotate(queries_of_task, with_.norms.key);
            keep_new();
        }
        for (int begin = task_.begin; begin < task_.end; begin += Cached::keys_at_once) {
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
        all_.each([&](int, Own &own) {
            for (int head = 0; head < queries_of_task; ++head) {
                for (float &value : own.mixed[head].at)
                    value = value / own.totals[head];
                own.tops[head] += logf(own.totals[head]);
            }
        });
    }

private:
    GGTTS_ANYWHERE bool has(int lane) const { return 4 * lane < size_; }

    GGTTS_ANYWHERE void load_inputs() {
        all_.each([&](int lane, Own &own) {
            const auto head = [&](int index) {
                return has(lane) ? predictor::fresh_floats(with_.inputs + index * size_ + 4 * lane) : Floats{};
            };
            for (int query = 0; query < queries_of_task; ++query)
                own.heads[query] = query < task_.heads ? head(task_.first_head + query) : Floats{};
            if (task_.newest) {
                own.heads[queries_of_task] = head(with_.query_heads + task_.kv_head);
                own.value = head(with_.query_heads + with_.kv_heads + task_.kv_head);
            }
        });
    }

    // Those that the cache has, of those that are attended to together; the others are zeros.
    GGTTS_ANYWHERE void load_keys(int begin) {
        all_.each([&](int lane, Own &own) {
            const int count = (task_.end < task_.position ? task_.end : task_.position) - begin;
            const int64_t first = (static_cast<int64_t>(begin) * size_ + 4 * lane) * Cached::bytes;
            const uint8_t *keys = with_.cache.keys + first, *values = with_.cache.values + first;
            const int row = size_ * Cached::bytes;
#pragma unroll
            for (int n = 0; n < Cached::keys_at_once; ++n)
                own.old_keys[n] = n < count && has(lane) ? Cached::load(keys + n * row) : typename Cached::Four{};
#pragma unroll
            for (int n = 0; n < Cached::keys_at_once; ++n)
                own.old_values[n] = n < count && has(lane) ? Cached::load(values + n * row) : typename Cached::Four{};
        });
    }

    // RMSNorm of a head, then its rotation (Su et al., "RoFormer", 2021, in the rotate-half form).
    GGTTS_ANYWHERE void norm_and_rotate(int head, const float *weights) {
        const float squares =
            all_.sum([&](int, const Own &own) { return predictor::sum_of_squares(own.heads[head]); });
        const float scale = 1.0F / sqrtf(squares / static_cast<float>(size_) + with_.epsilon);
        float *shared = heads_ + head * size_;
        all_.each([&](int lane, Own &own) {
            if (!has(lane))
                return;
            const Floats norm = *reinterpret_cast<const Floats *>(weights + 4 * lane);
            for (int i = 0; i < 4; ++i)
                own.heads[head].at[i] = own.heads[head].at[i] * norm.at[i] * scale;
            *reinterpret_cast<Floats *>(shared + 4 * lane) = own.heads[head];
        });
        all_.meet();
        all_.each([&](int lane, Own &own) {
            if (!has(lane))
                return;
            const int half = size_ / 2, at = 4 * lane;
            const bool upper = at >= half;
            const int pair = upper ? at - half : at;
            const Floats other = *reinterpret_cast<const Floats *>(shared + (upper ? pair : at + half));
            for (int i = 0; i < 4; ++i) {
                const float cosine = with_.rotation[2 * (pair + i)], sine = with_.rotation[2 * (pair + i) + 1];
                const float turned = other.at[i] * sine;
                own.heads[head].at[i] = own.heads[head].at[i] * cosine + (upper ? turned : -turned);
            }
        });
    }

    GGTTS_ANYWHERE void keep_new() {
        if (!task_.adds)
            return;
        all_.each([&](int lane, const Own &own) {
            if (!has(lane))
                return;
            const int64_t at = (static_cast<int64_t>(task_.position) * size_ + 4 * lane) * Cached::bytes;
            using Four = typename Cached::Four;
            *reinterpret_cast<Four *>(with_.cache.keys + at) = Cached::of(own.heads[queries_of_task]);
            *reinterpret_cast<Four *>(with_.cache.values + at) = Cached::of(own.value);
        });
    }

    // The new key and value stand behind the others as the cache keeps them.
    GGTTS_ANYWHERE void insert_new(int begin) {
        const int place = task_.position - begin;
        if (!task_.newest || place >= Cached::keys_at_once)
            return;
        all_.each([&](int, Own &own) {
            const auto key = Cached::of(own.heads[queries_of_task]), value = Cached::of(own.value);
#pragma unroll
            for (int n = 0; n < Cached::keys_at_once; ++n) {
                own.old_keys[n] = n == place ? key : own.old_keys[n];
                own.old_values[n] = n == place ? value : own.old_values[n];
            }
        });
    }

    GGTTS_ANYWHERE void score() {
        const float scale = 1.0F / sqrtf(static_cast<float>(size_));
#pragma unroll
        for (int first = 0; first < Cached::keys_at_once; first += keys_scored) {
            all_.template sums<scores_at_once>(
                [&](int, const Own &own, float (&sums)[scores_at_once]) {
#pragma unroll
                    for (int n = 0; n < keys_scored; ++n) {
                        const Floats key = Cached::floats(own.old_keys[first + n]);
#pragma unroll
                        for (int head = 0; head < queries_of_task; ++head) {
                            for (int i = 0; i < 4; ++i)
                                sums[head * keys_scored + n] =
                                    fmaf(own.heads[head].at[i], key.at[i], sums[head * keys_scored + n]);
                        }
                    }
                },
                [&](int i, float sum) {
                    scores_[i / keys_scored * lanes + first + i % keys_scored] = sum * scale;
                });
        }
        all_.meet();
    }

    // Scores become weights, relative to the highest one so far.
    GGTTS_ANYWHERE void weigh(int head, int begin) {
        const float lowest = float_of_bits(0xFF800000U);
        const bool first = begin == task_.begin;
        float *scores = scores_ + head * lanes;
        all_.each([&](int lane, Own &own) {
            const bool exists = lane < Cached::keys_at_once && begin + lane < task_.end;
            own.score = exists ? scores[lane] : lowest;
        });
        const float highest = all_.highest([](int, const Own &own) { return own.score; });
        all_.each([&](int lane, Own &own) {
            const float before = first ? lowest : own.tops[head];
            const float top = fmaxf(before, highest);
            const float kept = first ? 0.0F : expf(before - top);
            const bool exists = begin + lane < task_.end;
            own.score = exists && lane < Cached::keys_at_once ? expf(own.score - top) : 0.0F;
            scores[lane] = own.score;
            own.tops[head] = top;
            own.totals[head] = first ? 0.0F : own.totals[head] * kept;
            for (float &value : own.mixed[head].at)
                value = first ? 0.0F : value * kept;
        });
        const float total = all_.sum([](int, const Own &own) { return own.score; });
        all_.each([&](int, Own &own) { own.totals[head] += total; });
    }

    GGTTS_ANYWHERE void mix() {
        all_.each([&](int, Own &own) {
#pragma unroll
            for (int first = 0; first < Cached::keys_at_once; first += 4) {
                Floats weights[queries_of_task];
#pragma unroll
                for (int head = 0; head < queries_of_task; ++head)
                    weights[head] = *reinterpret_cast<const Floats *>(scores_ + head * lanes + first);
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                    const Floats values = Cached::floats(own.old_values[first + n]);
#pragma unroll
                    for (int head = 0; head < queries_of_task; ++head) {
                        for (int i = 0; i < 4; ++i)
                            own.mixed[head].at[i] =
                                fmaf(weights[head].at[n], values.at[i], own.mixed[head].at[i]);
                    }
                }
            }
        });
    }

    AllLanes &all_;
    const ChunkTask &task_;
    const ChunkWeights &with_;
    int size_;
    float *heads_, *scores_;
};

}  // namespace ggtts::talker::batch
