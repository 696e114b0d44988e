// The attention of one new position for all heads that share keys and values, by one block. Only this block
// ever reads these keys and values, so they are kept without telling anybody.
#pragma once

#include "messages.hpp"
#include "self_attention.hpp"

namespace ggtts::predictor {

// Queries, keys and values in shared memory, and the weights of each query.
struct GroupScratch {
    float *queries, *keys, *values, *weights;

    GGTTS_ANYWHERE GroupScratch(float *memory, int sharing, int head_dim, int positions)
        : queries(memory),
          keys(queries + sharing * head_dim),
          values(keys + positions * head_dim),
          weights(values + positions * head_dim) {}

    static constexpr int64_t size(int sharing, int head_dim, int positions) {
        return static_cast<int64_t>(sharing + 2 * positions) * head_dim +
               static_cast<int64_t>(sharing) * ((positions + 3) / 4 * 4);
    }
};

// Heads of one column that share keys and values.
struct HeadGroup {
    const Word *queries, *key, *value;  // of the new position; queries [sharing][head_dim]
    float *keys, *values;               // [positions][head_dim]
    Word *results;                      // [sharing][head_dim]
    int sharing, head_dim, position;
};

// A vector that others tell, in two halves: so that a lane has what it rotates.
template <class Warp>
GGTTS_ANYWHERE void hear_vector(const Warp &warp, const Word *words, int size, uint32_t version, float *result) {
    const int half = size / 2;
    warp.each(half / 2, [&](int i) {
        const Word *const places[2] = {words + 2 * i, words + half + 2 * i};
        Pair pairs[2];
        hear(places, version, pairs);
        for (int part = 0; part < 2; ++part) {
            for (int j = 0; j < 2; ++j)
                result[part * half + 2 * i + j] = pairs[part].at[j];
        }
    });
}

// RMSNorm of a head, then its rotation (Su et al., "RoFormer", 2021, in the rotate-half form), in place.
template <class Warp>
GGTTS_ANYWHERE void norm_and_rotate(const Warp &warp, float *head, const float *weight, const float *rotation,
                                    int head_dim, float epsilon) {
    const float squares = warp.sum([&](int lane) {
        float squared = 0;
        for (int i = lane; i < head_dim; i += lanes)
            squared = fmaf(head[i], head[i], squared);
        return squared;
    });
    const float scale = norm_scale(squares, head_dim, epsilon);
    const int half = head_dim / 2;
    warp.each(half, [&](int i) {
        const float first = head[i] * scale * weight[i];
        const float second = head[half + i] * scale * weight[half + i];
        const float cosine = rotation[2 * i], sine = rotation[2 * i + 1];
        head[i] = first * cosine - second * sine;
        head[half + i] = second * cosine + first * sine;
    });
}

// Keys and values of the positions before. Nobody waits for them.
template <class Block>
GGTTS_ANYWHERE void fetch_kept(const Block &block, const HeadGroup &group, const GroupScratch &scratch) {
    const int quads = group.position * group.head_dim / 4;
    block.spread(2 * quads, [&](int i) {
        const bool of_values = i >= quads;
        const int at = 4 * (of_values ? i - quads : i);
        const Floats found = fresh_floats((of_values ? group.values : group.keys) + at);
        *reinterpret_cast<Floats *>((of_values ? scratch.values : scratch.keys) + at) = found;
    });
}

struct HeadNorms {
    const float *query, *key, *rotation;
    float epsilon;
};

// The new position: one warp for each query, one for the key, one for the value.
template <class Block>
GGTTS_ANYWHERE void hear_group(const Block &block, const HeadGroup &group, const GroupScratch &scratch,
                               const HeadNorms &norms, uint32_t version) {
    const int size = group.head_dim, here = group.position * size;
    block.each_task(group.sharing + 2, [&](const auto &warp, int part) {
        if (part == group.sharing + 1) {
            hear_vector(warp, group.value, size, version, scratch.values + here);
            warp.each(size, [&](int i) { group.values[here + i] = scratch.values[here + i]; });
            return;
        }
        const bool is_key = part == group.sharing;
        float *head = is_key ? scratch.keys + here : scratch.queries + part * size;
        hear_vector(warp, is_key ? group.key : group.queries + part * size, size, version, head);
        norm_and_rotate(warp, head, is_key ? norms.key : norms.query, norms.rotation, size, norms.epsilon);
        if (is_key)
            warp.each(size, [&](int i) { group.keys[here + i] = head[i]; });
    });
}

// Products of a query with keys [positions][head_dim] in shared memory, scaled.
template <class Warp>
GGTTS_ANYWHERE void score_keys(const Warp &warp, const float *query, const float *keys, int position, int head_dim,
                               float *weights) {
    const float scale = 1.0F / sqrtf(static_cast<float>(head_dim));
    for (int first = 0; first <= position; first += keys_together) {
        warp.template sums<keys_together>(
            [&](int lane, float (&sums)[keys_together]) {
                for (int at = lane * 4; at < head_dim; at += lanes * 4) {
                    const Floats mine = *reinterpret_cast<const Floats *>(query + at);
#pragma unroll
                    for (int n = 0; n < keys_together; ++n) {
                        if (first + n > position)
                            continue;
                        const Floats key =
                            *reinterpret_cast<const Floats *>(keys + (first + n) * head_dim + at);
                        for (int i = 0; i < 4; ++i)
                            sums[n] = fmaf(mine.at[i], key.at[i], sums[n]);
                    }
                }
            },
            [&](int n, float sum) {
                if (first + n <= position)
                    weights[first + n] = sum * scale;
            });
    }
}

// The mean of all values, by their weights.
template <class Warp>
GGTTS_ANYWHERE void tell_mean(const Warp &warp, const float *weights, const float *values, int position,
                              int head_dim, uint32_t version, Word *result) {
    warp.each(head_dim / 4, [&](int quad) {
        Floats sum = {};
        for (int n = 0; n <= position; ++n) {
            const Floats value = *reinterpret_cast<const Floats *>(values + n * head_dim + 4 * quad);
            for (int i = 0; i < 4; ++i)
                sum.at[i] = fmaf(weights[n], value.at[i], sum.at[i]);
        }
        for (int i = 0; i < 4; ++i)
            tell(result + 4 * quad + i, sum.at[i], version);
    });
}

// Scaled dot-product attention (Vaswani et al., 2017) with shared keys (Ainslie et al., 2023). Hears `version`
// and tells the next one.
template <class Block>
GGTTS_ANYWHERE void attend_group(const Block &block, const HeadGroup &group, const GroupScratch &scratch,
                                 const HeadNorms &norms, uint32_t version) {
    fetch_kept(block, group, scratch);
    hear_group(block, group, scratch, norms, version);
    const int size = group.head_dim;
    block.each_task(group.sharing, [&](const auto &warp, int head) {
        float *weights = scratch.weights + head * ((group.position + 4) / 4 * 4);
        score_keys(warp, scratch.queries + head * size, scratch.keys, group.position, size, weights);
        softmax(warp, weights, group.position + 1);
        tell_mean(warp, weights, scratch.values, group.position, size, version + 1,
                  group.results + head * size);
    });
}

}  // namespace ggtts::predictor
