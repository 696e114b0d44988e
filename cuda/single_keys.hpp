// Attention of a warp to some keys and values of float32.
#pragma once

#include "batch_attention.hpp"

namespace ggtts::talker::batch {

// Keys and values of the new position, each four neighbours of a lane, and of those that come before it.
struct SingleLane : ChunkLane {
    static constexpr int keys_at_once = 8;
    Words keys[keys_at_once], kept_values[keys_at_once];
    Floats mixed[queries_of_task];
};

template <class AllLanes>
class SingleKeys : public ChunkAttention<SingleLane, AllLanes> {
    using Base = ChunkAttention<SingleLane, AllLanes>;
    using Own = SingleLane;
    using Base::all_, Base::size_, Base::has;
    static constexpr int keys_at_once = Own::keys_at_once;
    static constexpr int scores_at_once = keys_at_once * queries_of_task;

public:
    // In floats: what puts chunks together needs the most.
    static constexpr GGTTS_EVERYWHERE int room() { return queries_of_task * lanes; }

    GGTTS_ANYWHERE SingleKeys(AllLanes &all, int head_dim, float *room)
        : Base(all, head_dim), scores_(room) {}

    GGTTS_ANYWHERE float *scratch() const { return scores_; }

    // As those of HalfKeys.
    GGTTS_ANYWHERE void prepare(const ChunkTask &task, const ChunkWeights &with, bool newest) {
        Base::load_inputs(task, with, newest);
        Base::norm_and_rotate(with.epsilon);
        if (newest && task.first_group)
            keep_new(task, with);
        all_.meet();
    }

    GGTTS_ANYWHERE void attend(const ChunkTask &task, const Cache &cache) {
        for (int begin = task.begin; begin < task.end; begin += keys_at_once) {
            load_keys(cache, begin, task.old_keys(begin));
            insert_new(task.position - begin);
            score();
#pragma unroll
            for (int head = 0; head < queries_of_task; ++head)
                weigh(head, begin == task.begin, task.end - begin);
            all_.meet();
            mix();
            all_.meet();
        }
    }

    // Gives each lane four values of the mean of a head.
    GGTTS_ANYWHERE void take(int head) {
        all_.each([&](int, Own &own) {
            for (int i = 0; i < 4; ++i)
                own.values.at[i] = own.mixed[head].at[i] / own.totals[head];
        });
    }

private:
    // Those that the cache has; the others are zeros.
    GGTTS_ANYWHERE void load_keys(const Cache &cache, int begin, int count) {
        const int row = size_ * static_cast<int>(sizeof(float));
        all_.each([&](int lane, Own &own) {
            const int64_t first = (static_cast<int64_t>(begin) * size_ + 4 * lane) * sizeof(float);
#pragma unroll
            for (int n = 0; n < keys_at_once; ++n) {
                const bool exists = n < count && has(lane);
                own.keys[n] = exists ? predictor::load_words(cache.keys + first + n * row) : Words{};
                own.kept_values[n] = exists ? predictor::load_words(cache.values + first + n * row) : Words{};
            }
        });
    }

    static GGTTS_ANYWHERE Words words_of(const Floats &values) {
        Words words;
        for (int i = 0; i < 4; ++i)
            words.at[i] = bits_of_float(values.at[i]);
        return words;
    }
    static GGTTS_ANYWHERE Floats floats_of(const Words &words) {
        Floats values;
        for (int i = 0; i < 4; ++i)
            values.at[i] = float_of_bits(words.at[i]);
        return values;
    }

    GGTTS_ANYWHERE void keep_new(const ChunkTask &task, const ChunkWeights &with) {
        all_.each([&](int lane, const Own &own) {
            if (!has(lane))
                return;
            const int64_t at = (static_cast<int64_t>(task.position) * size_ + 4 * lane) * sizeof(float);
            *reinterpret_cast<Floats *>(with.cache.keys + at) = own.heads[queries_of_task];
            *reinterpret_cast<Floats *>(with.cache.values + at) = own.value;
        });
    }

    // The new key and value stand behind the others.
    GGTTS_ANYWHERE void insert_new(int place) {
        if (place >= keys_at_once)
            return;
        all_.each([&](int, Own &own) {
#pragma unroll
            for (int n = 0; n < keys_at_once; ++n) {
                if (n == place) {
                    own.keys[n] = words_of(own.heads[queries_of_task]);
                    own.kept_values[n] = words_of(own.value);
                }
            }
        });
    }

    GGTTS_ANYWHERE void score() {
        const float scale = 1.0F / sqrtf(static_cast<float>(size_));
        all_.template sums<scores_at_once>(
            [&](int, const Own &own, float (&sums)[scores_at_once]) {
#pragma unroll
                for (int n = 0; n < keys_at_once; ++n) {
                    const Floats key = floats_of(own.keys[n]);
#pragma unroll
                    for (int head = 0; head < queries_of_task; ++head) {
                        float &sum = sums[head * keys_at_once + n];
                        for (int i = 0; i < 4; ++i)
                            sum = fmaf(own.heads[head].at[i], key.at[i], sum);
                    }
                }
            },
            [&](int i, float sum) { scores_[i / keys_at_once * lanes + i % keys_at_once] = sum * scale; });
        all_.meet();
    }

    // Scores become weights, relative to the highest one so far.
    GGTTS_ANYWHERE void weigh(int head, bool first, int keys) {
        float *scores = scores_ + head * lanes;
        const float lowest = float_of_bits(0xFF800000U);
        all_.each([&](int lane, Own &own) {
            own.score = lane < keys_at_once && lane < keys ? scores[lane] : lowest;
        });
        const float highest = all_.highest([](int, const Own &own) { return own.score; });
        all_.each([&](int lane, Own &own) {
            const float before = first ? lowest : own.tops[head];
            const float top = fmaxf(before, highest), kept = first ? 0.0F : expf(before - top);
            own.score = expf(own.score - top);
            own.tops[head] = top;
            own.totals[head] = first ? 0.0F : own.totals[head] * kept;
            scores[lane] = own.score;
            for (float &value : own.mixed[head].at)
                value = first ? 0.0F : value * kept;
        });
        const float total = all_.sum([](int, const Own &own) { return own.score; });
        all_.each([&](int, Own &own) { own.totals[head] += total; });
    }

    GGTTS_ANYWHERE void mix() {
        all_.each([&](int, Own &own) {
#pragma unroll
            for (int n = 0; n < keys_at_once; ++n) {
                const Floats values = floats_of(own.kept_values[n]);
#pragma unroll
                for (int head = 0; head < queries_of_task; ++head) {
                    for (int i = 0; i < 4; ++i)
                        own.mixed[head].at[i] =
                            fmaf(scores_[head * lanes + n], values.at[i], own.mixed[head].at[i]);
                }
            }
        });
    }

    float *scores_;
};

}  // namespace ggtts::talker::batch
