// The attention of the new positions of several utterances, each over its own keys and values where GGML
// keeps them.
//
// A warp has some of the keys of one key head of one utterance, and up to two of the query heads that share
// it: see half_keys.hpp and single_keys.hpp. What the chunks of a head have found is put together by the warp
// that is done last (Dao et al., "Flash-Decoding", 2023). How keys are divided depends on the position of
// their utterance only, and so do all sums.
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

// What a warp attends to, and who shares it.
struct ChunkTask {
    int column, span, chunk, chunks, first_of_span;  // tasks
    int kv_head, first_head, heads;
    int begin, end, position;
    bool newest;  // whether the new position is among the keys, at their end
    bool adds;    // whether it is added to the cache here

    GGTTS_ANYWHERE ChunkTask(const Sizes &sizes, const Column *each, int columns, int task) {
        // The last column that begins no later; those without tasks begin where the next one does.
        column = 0;
        for (int half = most_columns / 2; half > 0; half /= 2) {
            const int middle = column + half;
            if (middle < columns && each[middle].first_task <= task)
                column = middle;
        }
        const Column &of = each[column];
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

// What each lane has of the inputs of a chunk, and of what comes out: four neighbours of a head.
struct ChunkLane : FourValues {
    Floats heads[queries_of_task + 1];  // queries, the new key
    Floats value;                       // the new one
    Floats norms[2];                    // of queries and key
    Floats turns[2];                    // cosine and sine of four angles, one after the other
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

// Queries and the new key of a chunk, and the softmax of scores: what does not depend on the type of the
// keys.
template <class Own, class AllLanes>
class ChunkAttention {
public:
    // `room` has head_dim for each head.
    GGTTS_ANYWHERE ChunkAttention(AllLanes &all, const ChunkTask &task, const ChunkWeights &with, float *room)
        : all_(all), task_(task), with_(with), size_(with.head_dim), heads_(room) {}

protected:
    GGTTS_ANYWHERE bool has(int lane) const { return 4 * lane < size_; }

    GGTTS_ANYWHERE Floats vector_at(const float *vector, int lane) const {
        return has(lane) ? *reinterpret_cast<const Floats *>(vector + 4 * lane) : Floats{};
    }

    // All at once, so that nothing is waited for twice.
    GGTTS_ANYWHERE void load_inputs() {
        all_.each([&](int lane, Own &own) {
            const auto head = [&](int index) {
                return has(lane) ? predictor::fresh_floats(with_.inputs + index * size_ + 4 * lane)
                                 : Floats{};
            };
            const int half = size_ / 2, at = has(lane) ? 4 * lane : 0, pair = at < half ? at : at - half;
            own.norms[0] = vector_at(with_.norms.query, lane);
            own.norms[1] = vector_at(with_.norms.key, lane);
            for (int i = 0; i < 2; ++i)
                own.turns[i] = *reinterpret_cast<const Floats *>(with_.rotation + 2 * pair + 4 * i);
            for (int query = 0; query < queries_of_task; ++query)
                own.heads[query] = query < task_.heads ? head(task_.first_head + query) : Floats{};
            if (task_.newest) {
                own.heads[queries_of_task] = head(with_.query_heads + task_.kv_head);
                own.value = head(with_.query_heads + with_.kv_heads + task_.kv_head);
            }
        });
    }

    // Of those keys that are attended to together, how many the cache has.
    GGTTS_ANYWHERE int old_keys(int begin) const {
        return (task_.end < task_.position ? task_.end : task_.position) - begin;
    }

    GGTTS_ANYWHERE void norm_and_rotate_all() {
#pragma unroll
        for (int head = 0; head < queries_of_task; ++head)
            norm_and_rotate(head, 0);
        if (task_.newest)
            norm_and_rotate(queries_of_task, 1);
    }

    // Scores become weights, relative to the highest one so far: score_of(lane) is that of the key which is
    // the lane's, and take(own, lane, kept) is told by what earlier sums are multiplied.
    template <class ScoreOf, class Take>
    GGTTS_ANYWHERE void weigh(int head, bool first, int keys, ScoreOf score_of, Take take) {
        const float lowest = float_of_bits(0xFF800000U);
        all_.each([&](int lane, Own &own) { own.score = lane < keys ? score_of(lane) : lowest; });
        const float highest = all_.highest([](int, const Own &own) { return own.score; });
        all_.each([&](int lane, Own &own) {
            const float before = first ? lowest : own.tops[head];
            const float top = fmaxf(before, highest), kept = first ? 0.0F : expf(before - top);
            own.score = lane < keys ? expf(own.score - top) : 0.0F;
            own.tops[head] = top;
            own.totals[head] = first ? 0.0F : own.totals[head] * kept;
            take(own, lane, kept);
        });
        const float total = all_.sum([](int, const Own &own) { return own.score; });
        all_.each([&](int, Own &own) { own.totals[head] += total; });
    }

private:
    // RMSNorm of a head, then its rotation (Su et al., "RoFormer", 2021, in the rotate-half form).
    GGTTS_ANYWHERE void norm_and_rotate(int head, int norm) {
        const float squares =
            all_.sum([&](int, const Own &own) { return predictor::sum_of_squares(own.heads[head]); });
        const float scale = 1.0F / sqrtf(squares / static_cast<float>(size_) + with_.epsilon);
        float *shared = heads_ + head * size_;
        all_.each([&](int lane, Own &own) {
            if (!has(lane))
                return;
            for (int i = 0; i < 4; ++i)
                own.heads[head].at[i] = own.heads[head].at[i] * own.norms[norm].at[i] * scale;
            *reinterpret_cast<Floats *>(shared + 4 * lane) = own.heads[head];
        });
        all_.meet();
        all_.each([&](int lane, Own &own) {
            if (!has(lane))
                return;
            const int half = size_ / 2, at = 4 * lane;
            const bool upper = at >= half;
            const Floats other = *reinterpret_cast<const Floats *>(shared + (upper ? at - half : at + half));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float cosine = own.turns[i / 2].at[i % 2 * 2];
                const float turned = other.at[i] * own.turns[i / 2].at[i % 2 * 2 + 1];
                own.heads[head].at[i] = own.heads[head].at[i] * cosine + (upper ? turned : -turned);
            }
        });
    }

protected:
    AllLanes &all_;
    const ChunkTask &task_;
    const ChunkWeights &with_;
    int size_;

private:
    float *heads_;
};

}  // namespace ggtts::talker::batch
