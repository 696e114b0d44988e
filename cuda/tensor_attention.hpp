// The attention of a new position for the tensor kernel: a warp does all that belongs to one head of a
// column. There are few of them for each warp, so what counts is how often it waits: all that the new
// position needs is read at once.
#pragma once

#include "self_attention.hpp"
#include "split_activations.hpp"

namespace ggtts::predictor {

// Elements of a head for each lane, and pairs that are rotated together, at most.
inline constexpr int most_head_elements = 8;
inline constexpr int most_head_pairs = most_head_elements / 2;

struct AttentionLane {
    float query[most_head_elements], key[most_head_elements], value[most_head_elements];
    float query_norm[most_head_elements], key_norm[most_head_elements];
    float cosine[most_head_pairs], sine[most_head_pairs];
};

// What belongs to the model and the position.
struct AttentionWeights {
    const float *query_norm, *key_norm, *rotation;
    int position, head_dim;
    float epsilon;
};

GGTTS_ANYWHERE void load_head(int lane, AttentionLane &own, const Head &head, const AttentionWeights &with) {
#pragma unroll
    for (int i = 0; i < most_head_elements; ++i) {
        const int at = i * lanes + lane;
        const bool exists = at < with.head_dim;
        own.query[i] = exists ? fresh(head.query + at) : 0.0F;
        own.key[i] = exists ? fresh(head.key + at) : 0.0F;
        own.value[i] = exists ? fresh(head.value + at) : 0.0F;
        own.query_norm[i] = exists ? with.query_norm[at] : 0.0F;
        own.key_norm[i] = exists ? with.key_norm[at] : 0.0F;
    }
#pragma unroll
    for (int i = 0; i < most_head_pairs; ++i) {
        const int at = i * lanes + lane;
        const bool exists = at < with.head_dim / 2;
        own.cosine[i] = exists ? with.rotation[2 * at] : 0.0F;
        own.sine[i] = exists ? with.rotation[2 * at + 1] : 0.0F;
    }
}

// RMSNorm, then rotation, of a head whose elements and norm the lanes have; see `norm_and_rotate`.
template <class AllLanes, class Elements, class Norm>
GGTTS_ANYWHERE void norm_and_rotate_own(AllLanes &all, Elements elements, Norm norm, int head_dim,
                                        float epsilon, float *result) {
    const float squares = all.sum([&](int, const AttentionLane &own) {
        float squared = 0;
#pragma unroll
        for (int i = 0; i < most_head_elements; ++i)
            squared = fmaf(elements(own)[i], elements(own)[i], squared);
        return squared;
    });
    const float scale = norm_scale(squares, head_dim, epsilon);
    all.each([&](int lane, const AttentionLane &own) {
#pragma unroll
        for (int i = 0; i < most_head_elements; ++i) {
            if (i * lanes + lane < head_dim)
                result[i * lanes + lane] = elements(own)[i] * scale * norm(own)[i];
        }
    });
    all.meet();
    all.each([&](int lane, const AttentionLane &own) {
        float *upper = result + head_dim / 2;
#pragma unroll
        for (int i = 0; i < most_head_pairs; ++i) {
            const int at = i * lanes + lane;
            if (at < head_dim / 2) {
                const float first = result[at], second = upper[at];
                result[at] = first * own.cosine[i] - second * own.sine[i];
                upper[at] = second * own.cosine[i] + first * own.sine[i];
            }
        }
    });
    all.meet();
}

// Keeps the new key and value for later positions.
template <class AllLanes>
GGTTS_ANYWHERE void keep_own(AllLanes &all, const Head &head, const float *key,
                             const AttentionWeights &with) {
    all.each([&](int lane, const AttentionLane &own) {
#pragma unroll
        for (int i = 0; i < most_head_elements; ++i) {
            const int at = i * lanes + lane;
            if (at < with.head_dim) {
                head.keys[with.position * with.head_dim + at] = key[at];
                head.values[with.position * with.head_dim + at] = own.value[i];
            }
        }
    });
}

// Attends with `head`, whose result lies in shared memory.
template <class Warp>
GGTTS_ANYWHERE void attend_with(const Warp &warp, const Head &head, const HeadScratch &scratch,
                                const AttentionWeights &with) {
    Lanes<Warp, AttentionLane> all(warp);
    all.each([&](int lane, AttentionLane &own) { load_head(lane, own, head, with); });
    norm_and_rotate_own(
        all, [](const AttentionLane &own) { return own.query; },
        [](const AttentionLane &own) { return own.query_norm; }, with.head_dim, with.epsilon, scratch.query);
    norm_and_rotate_own(
        all, [](const AttentionLane &own) { return own.key; },
        [](const AttentionLane &own) { return own.key_norm; }, with.head_dim, with.epsilon, scratch.key);
    if (head.adds)
        keep_own(all, head, scratch.key, with);
    attend(warp, head, scratch, with.position, with.head_dim);
}

// Splits `values` [head_dim] of shared memory into blocks from `first_block` on, with one power of two.
template <class Warp>
GGTTS_ANYWHERE void split_head(const Warp &warp, const float *values, int head_dim,
                               const SplitActivations &target, int first_block, int column, int columns) {
    const auto four = [&](int quad) { return *reinterpret_cast<const Floats *>(values + 4 * quad); };
    const float highest = warp.highest([&](int lane) {
        float most = 0.0F;
        for (int quad = lane; quad < head_dim / 4; quad += lanes)
            most = fmaxf(most, size_of(four(quad)));
        return most;
    });
    const BlockScale by = block_scale(highest);
    warp.each(head_dim / 4, [&](int quad) {
        split_four(target, first_block + quad / lanes_of_block, column, columns, first_of_lane(quad),
                   four(quad), by);
    });
}

}  // namespace ggtts::predictor
