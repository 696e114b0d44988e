// The attention of one new position of a frame, head by head. Heads are a multiple of 4 wide: a lane reads
// four values at once, and those of all positions before it waits for any.
#pragma once

#include <cmath>

#include "products.hpp"

namespace ggtts::predictor {

// A frame of 16 codes has 16 positions.
inline constexpr int keys_together = 16;

// RMSNorm of a head, then its rotation (Su et al., "RoFormer", 2021, in the rotate-half form).
template <class Warp>
GGTTS_ANYWHERE void norm_and_rotate(const Warp &warp, const float *head, const float *weight,
                                    const float *rotation, int head_dim, float epsilon, float *result) {
    const float squares = warp.sum([&](int lane) {
        float squared = 0;
        for (int i = lane; i < head_dim; i += lanes) {
            const float value = fresh(head + i);
            squared = fmaf(value, value, squared);
        }
        return squared;
    });
    const float scale = norm_scale(squares, head_dim, epsilon);
    const int half = head_dim / 2;
    warp.each(half, [&](int i) {
        const float first = fresh(head + i) * scale * weight[i];
        const float second = fresh(head + half + i) * scale * weight[half + i];
        const float cosine = rotation[2 * i], sine = rotation[2 * i + 1];
        result[i] = first * cosine - second * sine;
        result[half + i] = second * cosine + first * sine;
    });
}

// Room of one head in shared memory, in floats.
constexpr int64_t attention_scratch(int head_dim, int positions) {
    return (2 * head_dim + positions + 3) / 4 * 4;
}

struct HeadScratch {
    float *query, *key, *weights;

    GGTTS_ANYWHERE HeadScratch(float *memory, int head_dim)
        : query(memory), key(memory + head_dim), weights(memory + 2 * head_dim) {}
};

// One head of one column. The positions before are in `keys` and `values`, of a key head that several heads
// share; the new one is with its heads: only the first of them adds it, for later positions.
struct Head {
    const float *query, *key, *value;  // of the new position
    float *keys, *values;              // [positions][head_dim]
    float *result;
    bool adds;
};

// Heads are numbered column after column.
GGTTS_ANYWHERE Head head_of(const Model &model, const Buffers &buffers, int columns, int item, int layer,
                            float *result) {
    const Sizes &sizes = model.sizes;
    const int column = item / sizes.heads, head = item % sizes.heads, size = sizes.head_dim;
    const int sharing = sizes.heads / sizes.kv_heads, shared = head / sharing;
    const float *qkv = buffers.qkv + column * model.layers[layer].qkv.rows;
    const int64_t cache =
        ((static_cast<int64_t>(layer) * columns + column) * sizes.kv_heads + shared) * sizes.codebooks * size;
    return {qkv + head * size,
            qkv + (sizes.heads + shared) * size,
            qkv + (sizes.heads + sizes.kv_heads + shared) * size,
            buffers.keys + cache,
            buffers.values + cache,
            result,
            head % sharing == 0};
}

template <class Warp>
GGTTS_ANYWHERE void keep(const Warp &warp, const Head &head, const float *key, int position, int head_dim) {
    if (head.adds) {
        warp.each(head_dim, [&](int i) {
            head.keys[position * head_dim + i] = key[i];
            head.values[position * head_dim + i] = fresh(head.value + i);
        });
    }
}

// Products of the query with all keys.
template <class Warp>
GGTTS_ANYWHERE void score(const Warp &warp, const Head &head, const HeadScratch &scratch, int position,
                          int head_dim) {
    const float scale = 1.0F / sqrtf(static_cast<float>(head_dim));
    for (int first = 0; first <= position; first += keys_together) {
        warp.template sums<keys_together>(
            [&](int lane, float (&sums)[keys_together]) {
                for (int at = lane * 4; at < head_dim; at += lanes * 4) {
                    const Floats query = *reinterpret_cast<const Floats *>(scratch.query + at);
                    Floats keys[keys_together];
#pragma unroll
                    for (int n = 0; n < keys_together; ++n) {
                        keys[n] = {};
                        if (first + n < position)
                            keys[n] = fresh_floats(head.keys + (first + n) * head_dim + at);
                        if (first + n == position)
                            keys[n] = *reinterpret_cast<const Floats *>(scratch.key + at);
                    }
#pragma unroll
                    for (int n = 0; n < keys_together; ++n) {
                        for (int i = 0; i < 4; ++i)
                            sums[n] = fmaf(query.at[i], keys[n].at[i], sums[n]);
                    }
                }
            },
            [&](int n, float sum) {
                if (first + n <= position)
                    scratch.weights[first + n] = sum * scale;
            });
    }
}

template <class Warp>
GGTTS_ANYWHERE void softmax(const Warp &warp, float *weights, int count) {
    const float highest = warp.highest([&](int lane) {
        float value = weights[0];
        for (int i = lane; i < count; i += lanes)
            value = fmaxf(value, weights[i]);
        return value;
    });
    const float total = warp.sum([&](int lane) {
        float sum = 0;
        for (int i = lane; i < count; i += lanes)
            sum += expf(weights[i] - highest);
        return sum;
    });
    warp.each(count, [&](int i) { weights[i] = expf(weights[i] - highest) / total; });
}

// The mean of all values, by their weights.
template <class Warp>
GGTTS_ANYWHERE void mix(const Warp &warp, const Head &head, const float *weights, int position,
                        int head_dim) {
    warp.each(head_dim / 4, [&](int quad) {
        Floats sum = {};
        for (int first = 0; first <= position; first += keys_together) {
            Floats values[keys_together];
#pragma unroll
            for (int n = 0; n < keys_together; ++n) {
                const int other = first + n;
                const float *row = other == position ? head.value : head.values + other * head_dim;
                values[n] = {};
                if (other <= position)
                    values[n] = fresh_floats(row + 4 * quad);
            }
#pragma unroll
            for (int n = 0; n < keys_together; ++n) {
                const float weight = first + n <= position ? weights[first + n] : 0.0F;
                for (int i = 0; i < 4; ++i)
                    sum.at[i] = fmaf(weight, values[n].at[i], sum.at[i]);
            }
        }
        *reinterpret_cast<Floats *>(head.result + 4 * quad) = sum;
    });
}

// Scaled dot-product attention (Vaswani et al., 2017) with shared key heads (Ainslie et al., 2023).
template <class Warp>
GGTTS_ANYWHERE void attend(const Warp &warp, const Head &head, const HeadScratch &scratch, int position,
                           int head_dim) {
    score(warp, head, scratch, position, head_dim);
    softmax(warp, scratch.weights, position + 1);
    mix(warp, head, scratch.weights, position, head_dim);
}

}  // namespace ggtts::predictor
