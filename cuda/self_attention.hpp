// The attention of one new position of a frame, by one warp for each head.
#pragma once

#include <cmath>

#include "products.hpp"

namespace ggtts::predictor {

inline constexpr int keys_together = 8;

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

// Room of one warp in shared memory, in floats.
constexpr int64_t attention_scratch(int head_dim, int positions) {
    return 2 * head_dim + positions;
}

// One head of one column. The positions before are in `keys` and `values`, of a key head that several heads
// share; the new one is with its heads: only the first of them adds it, for later positions.
struct Head {
    const float *query, *key, *value;  // of the new position
    float *keys, *values;              // [positions][head_dim]
    float *result;
    bool adds;
};

template <class Warp>
GGTTS_ANYWHERE void attend(const Warp &warp, const Model &model, const Layer &layer, int position,
                           const Head &head, float *scratch) {
    const int size = model.sizes.head_dim;
    const float *rotation = model.rotation + position * size;
    float *query = scratch, *key = scratch + size, *weights = scratch + 2 * size;
    norm_and_rotate(warp, head.query, layer.query_norm, rotation, size, model.sizes.norm_eps, query);
    norm_and_rotate(warp, head.key, layer.key_norm, rotation, size, model.sizes.norm_eps, key);
    const auto value_at = [&](int earlier, int i) {
        return earlier == position ? fresh(head.value + i) : fresh(head.values + earlier * size + i);
    };
    if (head.adds) {
        warp.each(size, [&](int i) {
            head.keys[position * size + i] = key[i];
            head.values[position * size + i] = fresh(head.value + i);
        });
    }
    const float scale = 1.0F / sqrtf(static_cast<float>(size));
    for (int first = 0; first <= position; first += keys_together) {
        warp.template sums<keys_together>(
            [&](int lane, float (&sums)[keys_together]) {
                for (int i = lane; i < size; i += lanes) {
#pragma unroll
                    for (int n = 0; n < keys_together; ++n) {
                        const int other = first + n;
                        if (other <= position) {
                            const float value =
                                other == position ? key[i] : fresh(head.keys + other * size + i);
                            sums[n] = fmaf(query[i], value, sums[n]);
                        }
                    }
                }
            },
            [&](int n, float sum) {
                if (first + n <= position)
                    weights[first + n] = sum * scale;
            });
    }
    const float highest = warp.highest([&](int lane) {
        float value = weights[0];
        for (int other = lane; other <= position; other += lanes)
            value = fmaxf(value, weights[other]);
        return value;
    });
    const float total = warp.sum([&](int lane) {
        float sum = 0;
        for (int other = lane; other <= position; other += lanes)
            sum += expf(weights[other] - highest);
        return sum;
    });
    warp.each(position + 1, [&](int other) { weights[other] = expf(weights[other] - highest) / total; });
    warp.each(size, [&](int i) {
        float sum = 0;
        for (int other = 0; other <= position; ++other)
            sum = fmaf(weights[other], value_at(other, i), sum);
        head.result[i] = sum;
    });
}

}  // namespace ggtts::predictor
