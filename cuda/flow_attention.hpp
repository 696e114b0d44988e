// The attention of one new position for all heads that share keys and values, by one block. Only this block
// ever reads these keys and values, so they are kept without telling anybody.
#pragma once

#include "letters.hpp"
#include "self_attention.hpp"

namespace ggtts::predictor {

// Keys that a warp compares with a query at once, and into how many parts the values of a head are divided:
// so that there is work for many warps, and each has little of it.
inline constexpr int keys_of_task = 4;
inline constexpr int value_parts = 4;

// What one group of heads needs in shared memory.
struct GroupScratch {
    float *queries, *keys, *values;
    float *scores, *weights;                  // of each query; the weights for each part of the values
    float *query_norm, *key_norm, *rotation;  // [head_dim]

    GGTTS_ANYWHERE GroupScratch(float *memory, int sharing, int head_dim, int positions)
        : queries(memory),
          keys(queries + sharing * head_dim),
          values(keys + positions * head_dim),
          scores(values + positions * head_dim),
          weights(scores + sharing * positions),
          query_norm(weights + sharing * value_parts * positions),
          key_norm(query_norm + head_dim),
          rotation(key_norm + head_dim) {}

    static constexpr int64_t size(int sharing, int head_dim, int positions) {
        return static_cast<int64_t>(sharing + 2 * positions + 3) * head_dim +
               static_cast<int64_t>(sharing) * (1 + value_parts) * positions;
    }
};

// Heads of one column that share keys and values.
struct HeadGroup {
    const Letter *queries, *key, *value;  // of the new position; queries [sharing][head_dim]
    float *keys, *values;                 // [positions][head_dim]
    Letter *results;                      // [sharing][head_dim]
    const float *query_norm, *key_norm, *rotation;
    float epsilon;
    int sharing, head_dim, position, positions;
};

// A vector that others send, in two halves: so that a lane has what it rotates.
template <class Warp>
GGTTS_ANYWHERE void receive_vector(const Warp &warp, const Letter *letters, int size, uint32_t time,
                                   float *result) {
    const int half = size / 2;
    warp.each(half / 2, [&](int i) {
        const Letter *const places[2] = {letters + 2 * i, letters + half + 2 * i};
        Pair pairs[2];
        receive_pairs<Forever>(places, time, pairs);
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
#pragma unroll 1
        for (int i = lane; i < head_dim; i += lanes)
            squared = fmaf(head[i], head[i], squared);
        return squared;
    });
    const float scale = inverse_root(squares / static_cast<float>(head_dim) + epsilon);
    const int half = head_dim / 2;
    warp.each(half, [&](int i) {
        const float first = head[i] * scale * weight[i];
        const float second = head[half + i] * scale * weight[half + i];
        const float cosine = rotation[2 * i], sine = rotation[2 * i + 1];
        head[i] = first * cosine - second * sine;
        head[half + i] = second * cosine + first * sine;
    });
}

// What is known before the new position: keys and values of those before, weights of norms.
template <class Block>
GGTTS_ANYWHERE void fetch_known(const Block &block, const HeadGroup &group, const GroupScratch &scratch) {
    const int quads = group.position * group.head_dim / 4;
    block.spread(2 * quads, [&](int i) {
        const bool of_values = i >= quads;
        const int at = 4 * (of_values ? i - quads : i);
        const Floats found = fresh_floats((of_values ? group.values : group.keys) + at);
        *reinterpret_cast<Floats *>((of_values ? scratch.values : scratch.keys) + at) = found;
    });
    block.each(group.head_dim, [&](int i) {
        scratch.query_norm[i] = group.query_norm[i];
        scratch.key_norm[i] = group.key_norm[i];
        scratch.rotation[i] = group.rotation[i];
    });
}

// The new position: one warp for each query, one for the key, one for the value.
template <class Block>
GGTTS_ANYWHERE void receive_group(const Block &block, const HeadGroup &group, const GroupScratch &scratch,
                                  uint32_t time) {
    const int size = group.head_dim, here = group.position * size;
    block.each_task(group.sharing + 2, [&](const auto &warp, int part) {
        if (part == group.sharing + 1) {
            receive_vector(warp, group.value, size, time, scratch.values + here);
            warp.each(size, [&](int i) { group.values[here + i] = scratch.values[here + i]; });
            return;
        }
        const bool is_key = part == group.sharing;
        float *head = is_key ? scratch.keys + here : scratch.queries + part * size;
        receive_vector(warp, is_key ? group.key : group.queries + part * size, size, time, head);
        norm_and_rotate(warp, head, is_key ? scratch.key_norm : scratch.query_norm, scratch.rotation, size,
                        group.epsilon);
        if (is_key)
            warp.each(size, [&](int i) { group.keys[here + i] = head[i]; });
    });
}

// Products of a query with some keys, scaled.
template <class Warp>
GGTTS_ANYWHERE void score_keys(const Warp &warp, const float *query, const float *keys, int count,
                               int head_dim, float *scores) {
    const float scale = inverse_root(static_cast<float>(head_dim));
    warp.template sums<keys_of_task>(
        [&](int lane, float (&sums)[keys_of_task]) {
#pragma unroll 1
            for (int at = lane * 4; at < head_dim; at += lanes * 4) {
                const Floats mine = *reinterpret_cast<const Floats *>(query + at);
#pragma unroll
                for (int n = 0; n < keys_of_task; ++n) {
                    Floats key = {};
                    if (n < count)
                        key = *reinterpret_cast<const Floats *>(keys + n * head_dim + at);
                    for (int i = 0; i < 4; ++i)
                        sums[n] = fmaf(mine.at[i], key.at[i], sums[n]);
                }
            }
        },
        [&](int n, float sum) {
            if (n < count)
                scores[n] = sum * scale;
        });
}

// The softmax of scores.
template <class Warp>
GGTTS_ANYWHERE void weigh(const Warp &warp, const float *scores, int count, float *weights) {
    const float highest = warp.highest([&](int lane) {
        float value = scores[0];
#pragma unroll 1
        for (int i = lane; i < count; i += lanes)
            value = fmaxf(value, scores[i]);
        return value;
    });
    warp.each(count, [&](int i) { weights[i] = expf(scores[i] - highest); });
    const float total = warp.sum([&](int lane) {
        float sum = 0;
#pragma unroll 1
        for (int i = lane; i < count; i += lanes)
            sum += weights[i];
        return sum;
    });
    warp.each(count, [&](int i) { weights[i] /= total; });
}

// The mean of all values [positions][head_dim], by their weights: `size` of their elements.
template <class Warp>
GGTTS_ANYWHERE void send_mean(const Warp &warp, const float *weights, const float *values, int count,
                              int head_dim, int size, uint32_t time, Letter *result) {
    warp.each(size, [&](int i) {
        float sum = 0;
#pragma unroll 4
        for (int n = 0; n < count; ++n)
            sum = fmaf(weights[n], values[n * head_dim + i], sum);
        send(result + i, sum, time);
    });
}

// Scaled dot-product attention (Vaswani et al., 2017) with shared keys (Ainslie et al., 2023). Receives
// what is of `time` and sends what is of the next one.
template <class Block>
GGTTS_ANYWHERE void attend_group(const Block &block, const HeadGroup &group, const GroupScratch &scratch,
                                 uint32_t time) {
    fetch_known(block, group, scratch);
    receive_group(block, group, scratch, time);
    const int size = group.head_dim, count = group.position + 1;
    const int tasks = (count + keys_of_task - 1) / keys_of_task;
    block.each_task(group.sharing * tasks, [&](const auto &warp, int task) {
        const int head = task / tasks, first = task % tasks * keys_of_task;
        const int keys = count - first < keys_of_task ? count - first : keys_of_task;
        score_keys(warp, scratch.queries + head * size, scratch.keys + first * size, keys, size,
                   scratch.scores + head * group.positions + first);
    });
    const int part_size = size / value_parts;
    block.each_task(group.sharing * value_parts, [&](const auto &warp, int task) {
        const int head = task / value_parts, begin = task % value_parts * part_size;
        float *weights = scratch.weights + task * group.positions;
        weigh(warp, scratch.scores + head * group.positions, count, weights);
        send_mean(warp, weights, scratch.values + begin, count, size, part_size, time + 1,
                  group.results + head * size + begin);
    });
}

}  // namespace ggtts::predictor
