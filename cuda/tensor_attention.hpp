// The attention of a new position for the tensor kernel: a warp does all that belongs to one head of a
// column, each lane with four neighbours of every vector. There are few heads for each warp, so what counts
// is how often it waits: everything is read at once, and nothing but weights goes through shared memory.
#pragma once

#include "self_attention.hpp"
#include "split_activations.hpp"

namespace ggtts::predictor {

inline constexpr int most_head_dim = 4 * lanes;

struct AttentionLane : FourValues {
    Floats query, key, value;
    Floats query_norm, key_norm;
    Floats rotation[2];  // cosine and sine of pairs
    Floats keys[keys_together], kept[keys_together];
    Floats partner;
    float weight;
};

// What belongs to the model and the position.
struct AttentionWeights {
    const float *query_norm, *key_norm, *rotation;
    int position, head_dim;
    float epsilon;
};

// The four values of a lane, zeros beyond the head.
GGTTS_ANYWHERE Floats own_four(int lane, const float *vector, int head_dim) {
    return 4 * lane < head_dim ? fresh_floats(vector + 4 * lane) : Floats{};
}

GGTTS_ANYWHERE void load_head(int lane, AttentionLane &own, const Head &head, const AttentionWeights &with) {
    const int size = with.head_dim, half = size / 2;
    own.query = own_four(lane, head.query, size);
    own.key = own_four(lane, head.key, size);
    own.value = own_four(lane, head.value, size);
    own.query_norm = own_four(lane, with.query_norm, size);
    own.key_norm = own_four(lane, with.key_norm, size);
    const int first = 4 * lane < size ? 4 * lane % half : 0;
#pragma unroll
    for (int i = 0; i < 2; ++i)
        own.rotation[i] = fresh_floats(with.rotation + 2 * first + 4 * i);
#pragma unroll
    for (int n = 0; n < keys_together; ++n) {
        own.keys[n] = own.kept[n] = {};
        if (n < with.position) {
            own.keys[n] = own_four(lane, head.keys + n * size, size);
            own.kept[n] = own_four(lane, head.values + n * size, size);
        }
    }
}

GGTTS_ANYWHERE float dot(const Floats &left, const Floats &right) {
    float sum = 0.0F;
    for (int i = 0; i < 4; ++i)
        sum = fmaf(left.at[i], right.at[i], sum);
    return sum;
}

// Rotates what the lanes have (Su et al., "RoFormer", 2021, in the rotate-half form): the other value of each
// pair is with the lane half a head away.
template <class AllLanes, class Vector>
GGTTS_ANYWHERE void rotate_own(AllLanes &all, Vector vector, int head_dim) {
    const int apart = head_dim / 8;
    all.exchange(
        vector, [&](int lane) { return lane < apart ? lane + apart : (lane - apart) % lanes; },
        [](AttentionLane &own, const Floats &other) { own.partner = other; });
    all.each([&](int lane, AttentionLane &own) {
        if (lane >= 2 * apart)
            return;
        const float sign = lane < apart ? -1.0F : 1.0F;
        Floats &values = vector(own);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float cosine = own.rotation[i / 2].at[i % 2 * 2],
                        sine = own.rotation[i / 2].at[i % 2 * 2 + 1];
            values.at[i] = values.at[i] * cosine + sign * (own.partner.at[i] * sine);
        }
    });
}

// RMSNorm and rotation of query and key.
template <class AllLanes>
GGTTS_ANYWHERE void norm_and_rotate_own(AllLanes &all, const AttentionWeights &with) {
    const Pair squares = all.two_sums([](int, const AttentionLane &own) {
        return Pair{{dot(own.query, own.query), dot(own.key, own.key)}};
    });
    const float of_query = norm_scale(squares.at[0], with.head_dim, with.epsilon);
    const float of_key = norm_scale(squares.at[1], with.head_dim, with.epsilon);
    all.each([&](int, AttentionLane &own) {
        for (int i = 0; i < 4; ++i) {
            own.query.at[i] *= of_query * own.query_norm.at[i];
            own.key.at[i] *= of_key * own.key_norm.at[i];
        }
    });
    rotate_own(all, [](AttentionLane &own) -> Floats & { return own.query; }, with.head_dim);
    rotate_own(all, [](AttentionLane &own) -> Floats & { return own.key; }, with.head_dim);
}

// Adds the new position to what is known, and keeps it for later ones. No element is assigned to on a
// condition: that becomes a place computed at run time, for which all of them lie in memory and not in
// registers.
template <class AllLanes>
GGTTS_ANYWHERE void add_position(AllLanes &all, const Head &head, const AttentionWeights &with) {
    all.each([&](int lane, AttentionLane &own) {
#pragma unroll
        for (int n = 0; n < keys_together; ++n) {
            const bool is_new = n == with.position;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                own.keys[n].at[i] = is_new ? own.key.at[i] : own.keys[n].at[i];
                own.kept[n].at[i] = is_new ? own.value.at[i] : own.kept[n].at[i];
            }
        }
        if (head.adds && 4 * lane < with.head_dim) {
            const int at = with.position * with.head_dim + 4 * lane;
            *reinterpret_cast<Floats *>(head.keys + at) = own.key;
            *reinterpret_cast<Floats *>(head.values + at) = own.value;
        }
    });
}

// The weights of all positions, in shared memory [keys_together]: zeros for those to come. Each lane has one.
template <class AllLanes>
GGTTS_ANYWHERE void weigh(AllLanes &all, float *weights, const AttentionWeights &with) {
    const float scale = 1.0F / sqrtf(static_cast<float>(with.head_dim)), lowest = float_of_bits(0xFF800000U);
    all.template sums<keys_together>(
        [](int, const AttentionLane &own, float (&sums)[keys_together]) {
#pragma unroll
            for (int n = 0; n < keys_together; ++n)
                sums[n] = dot(own.query, own.keys[n]);
        },
        [&](int n, float sum) { weights[n] = sum * scale; });
    const float highest = all.highest([&](int lane, AttentionLane &own) {
        own.weight = lane <= with.position ? weights[lane] : lowest;
        return own.weight;
    });
    const float total = all.sum([&](int, AttentionLane &own) {
        own.weight = expf(own.weight - highest);
        return own.weight;
    });
    all.each([&](int lane, const AttentionLane &own) {
        if (lane < keys_together)
            weights[lane] = own.weight / total;
    });
    all.meet();
}

// Attends with `head`: the result is in the values of the lanes (Vaswani et al., "Attention is all you need",
// 2017, with shared key heads).
template <class AllLanes>
GGTTS_ANYWHERE void attend_with(AllLanes &all, const Head &head, float *weights,
                                const AttentionWeights &with) {
    all.each([&](int lane, AttentionLane &own) { load_head(lane, own, head, with); });
    norm_and_rotate_own(all, with);
    add_position(all, head, with);
    weigh(all, weights, with);
    all.each([&](int, AttentionLane &own) {
        own.values = {};
#pragma unroll
        for (int n = 0; n < keys_together; ++n) {
            for (int i = 0; i < 4; ++i)
                own.values.at[i] = fmaf(weights[n], own.kept[n].at[i], own.values.at[i]);
        }
    });
}

}  // namespace ggtts::predictor
