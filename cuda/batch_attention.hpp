// The attention of the new positions of several utterances, each over its own keys and values where GGML
// keeps them.
//
// A chunk is some of the keys of one key head of one utterance, for up to two of the query heads that share
// it. A warp has neighbouring chunks: see half_keys.hpp and single_keys.hpp. What the chunks of a head have
// found is put together by the warp that is done last (Dao et al., "Flash-Decoding", 2023). How keys are
// divided depends on the position of their utterance only, and so do all sums.
#pragma once

#include "batch_model.hpp"
#include "batch_operands.hpp"
#include "split_activations.hpp"
#include "talker_attention.hpp"

namespace ggtts::talker::batch {

using predictor::BlockPlace;
using predictor::FourValues;
using predictor::TwoWords;

// Chunks of a head, at most: a lane for each puts them together.
inline constexpr int most_chunks = lanes;
// Groups of query heads that share a key head.
constexpr GGTTS_EVERYWHERE int groups_of(const Sizes &sizes) {
    return (sizes.heads / sizes.kv_heads + queries_of_task - 1) / queries_of_task;
}
constexpr GGTTS_EVERYWHERE int spans_of(const Sizes &sizes) {
    return sizes.kv_heads * groups_of(sizes);
}

// Neighbouring tasks: those of one of so many workers.
struct OwnTasks {
    int first, last;  // the last is not among them

    GGTTS_ANYWHERE OwnTasks(int all, int worker, int workers)
        : first(static_cast<int>(static_cast<int64_t>(all) * worker / workers)),
          last(static_cast<int>(static_cast<int64_t>(all) * (worker + 1) / workers)) {}
};

// What a warp attends to, and who shares it.
struct ChunkTask {
    int column, span, chunks, first_of_span;  // tasks
    int kv_head, first_head, heads;
    int begin, end, position;
    bool newest;       // whether the new position is among the keys, at their end
    bool first_group;  // of the query heads that share these keys

    GGTTS_ANYWHERE ChunkTask(const BatchStep &step, const Column *each, int task) {
        // The last column that begins no later; those without tasks begin where the next one does.
        column = 0;
        GGTTS_SHORT_LOOP
        for (int half = most_columns / 2; half > 0; half /= 2) {
            const int middle = column + half;
            if (middle < step.columns && each[middle].first_task <= task)
                column = middle;
        }
        const Column &of = each[column];
        const int inside = task - of.first_task;
        chunks = of.chunks;
        span = inside / chunks;
        const int chunk = inside - span * chunks;
        first_of_span = task - chunk;
        kv_head = step.groups == 1 ? span : span / step.groups;
        const int group = span - kv_head * step.groups;
        first_head = kv_head * step.sharing + group * queries_of_task;
        const int left = step.sharing - group * queries_of_task;
        heads = left < queries_of_task ? left : queries_of_task;
        position = of.position;
        begin = chunk * of.chunk;
        end = begin + of.chunk <= position ? begin + of.chunk : position + 1;
        newest = end == position + 1;
        first_group = group == 0;
    }

    // Of the keys from one on, how many the cache has.
    GGTTS_ANYWHERE int old_keys(int from) const { return (end < position ? end : position) - from; }
};

// Four neighbours of each head that a lane has, of what comes in and of what comes out.
struct ChunkLane : FourValues {
    Floats heads[queries_of_task + 1];  // queries, the new key
    Floats value;                       // the new one
    Floats norms[2];                    // of queries and key
    Floats turns[2];                    // cosine and sine of four angles, one after the other
    float tops[queries_of_task], totals[queries_of_task];
    float score;
};

// What belongs to the model and the position.
struct ChunkWeights {
    const Norms &norms;
    const float *rotation;  // of the position
    Cache cache;            // of the key head
    const float *inputs;    // of the column
    int query_heads, kv_heads;
    float epsilon;
};

// The queries of the keys that a warp attends to, and the new key: what does not depend on the type of keys.
template <class Own, class AllLanes>
class ChunkAttention {
public:
    GGTTS_ANYWHERE ChunkAttention(AllLanes &all, int head_dim) : all_(all), size_(head_dim) {}

protected:
    static constexpr int heads_of_lane = queries_of_task + 1;
    using Numbers = float[heads_of_lane];

    GGTTS_ANYWHERE bool has(int lane) const { return 4 * lane < size_; }

    GGTTS_ANYWHERE Floats vector_at(const float *vector, int lane) const {
        return has(lane) ? *reinterpret_cast<const Floats *>(vector + 4 * lane) : Floats{};
    }

    // All at once, so that nothing is waited for twice.
    GGTTS_ANYWHERE void load_inputs(const ChunkTask &task, const ChunkWeights &with, bool newest) {
        all_.each([&](int lane, Own &own) {
            const auto head = [&](int index, bool exists) {
                return exists && has(lane) ? predictor::fresh_floats(with.inputs + index * size_ + 4 * lane)
                                           : Floats{};
            };
            const int half = size_ / 2, at = has(lane) ? 4 * lane : 0, pair = at < half ? at : at - half;
#pragma unroll
            for (int query = 0; query < queries_of_task; ++query)
                own.heads[query] = head(task.first_head + query, query < task.heads);
            own.heads[queries_of_task] = head(with.query_heads + task.kv_head, newest);
            own.value = head(with.query_heads + with.kv_heads + task.kv_head, newest);
            own.norms[0] = vector_at(with.norms.query, lane);
            own.norms[1] = vector_at(with.norms.key, lane);
#pragma unroll
            for (int i = 0; i < 2; ++i)
                own.turns[i] = *reinterpret_cast<const Floats *>(with.rotation + 2 * pair + 4 * i);
        });
    }

    // RMSNorm of each head, then its rotation (Su et al., "RoFormer", 2021, in the rotate-half form).
    GGTTS_ANYWHERE void norm_and_rotate(float epsilon) {
        add_up<heads_of_lane>(
            all_,
            [](const Own &own, Numbers &squares) {
#pragma unroll
                for (int head = 0; head < heads_of_lane; ++head)
                    squares[head] = predictor::sum_of_squares(own.heads[head]);
            },
            [&](Own &own, const Numbers &squares) {
#pragma unroll
                for (int head = 0; head < heads_of_lane; ++head) {
                    const Floats &norm = own.norms[head / queries_of_task];
                    const float scale = 1.0F / sqrtf(squares[head] / static_cast<float>(size_) + epsilon);
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        own.heads[head].at[i] = own.heads[head].at[i] * norm.at[i] * scale;
                }
            });
        const int half = size_ / 8;  // of the lanes
#pragma unroll
        for (int head = 0; head < heads_of_lane; ++head) {
            exchange(
                all_, [&](int lane) { return lane < half ? lane + half
                                             : has(lane) ? lane - half
                                                         : lane; },
                [&](const Own &own) { return own.heads[head]; },
                [&](int lane, Own &own, const Floats &other) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float cosine = own.turns[i / 2].at[i % 2 * 2];
                        const float turned = other.at[i] * own.turns[i / 2].at[i % 2 * 2 + 1];
                        own.heads[head].at[i] =
                            own.heads[head].at[i] * cosine + (lane < half ? -turned : turned);
                    }
                });
        }
    }

    AllLanes &all_;
    int size_;
};

}  // namespace ggtts::talker::batch
