// The attention of one new position, over keys and values where GGML keeps them.
//
// A block has some of the keys of one key head, and up to two of the query heads that share it. Where the
// keys of a head are spread over several blocks, each returns its mean and the logarithm of its sum of
// exponentials, and another phase puts them together (Dao et al., "Flash-Decoding", 2023).
#pragma once

#include <cmath>

#include "talker_products.hpp"

namespace ggtts::talker {

inline constexpr int keys_together = 8;
inline constexpr int most_head_dim = 4 * lanes;
inline constexpr int queries_together = 2;

GGTTS_ANYWHERE uint16_t half_of_float(float value) {
#ifdef __CUDACC__
    return __half_as_ushort(__float2half_rn(value));
#else
    return ggml_fp32_to_fp16(value);
#endif
}

// Four neighbours of a cache in each of some rows, `index` values after its beginning and `stride` apart:
// what an earlier kernel wrote, or GGML. Rows from `count` on are the last one again. All of them are asked
// for before one is waited for.
template <int rows>
GGTTS_ANYWHERE void load_fours(const uint8_t *cache, int64_t index, int stride, int count, bool half,
                               Floats (&result)[rows]) {
    const auto at = [&](int row) {
        return index + static_cast<int64_t>(row < count ? row : count - 1) * stride;
    };
    if (half) {
        predictor::TwoWords words[rows];
#pragma unroll
        for (int row = 0; row < rows; ++row)
            words[row] = predictor::load_two_words(cache + at(row) * 2);
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            for (int i = 0; i < 4; ++i)
                result[row].at[i] =
                    float_of_half(static_cast<uint16_t>(words[row].at[i / 2] >> (i % 2 * 16)));
        }
    } else {
        Words words[rows];
#pragma unroll
        for (int row = 0; row < rows; ++row)
            words[row] = predictor::load_words(cache + at(row) * 4);
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            for (int i = 0; i < 4; ++i)
                result[row].at[i] = float_of_bits(words[row].at[i]);
        }
    }
}

// Returns the value as the cache keeps it.
GGTTS_ANYWHERE float keep(uint8_t *cache, int64_t index, bool half, float value) {
    if (!half) {
        reinterpret_cast<float *>(cache)[index] = value;
        return value;
    }
    const uint16_t bits = half_of_float(value);
    reinterpret_cast<uint16_t *>(cache)[index] = bits;
    return float_of_half(bits);
}

// RMSNorm of a head, then its rotation (Su et al., "RoFormer", 2021, in the rotate-half form). A lane works
// on the same values throughout, and asks for all of them before it waits for any.
template <class Warp>
GGTTS_ANYWHERE void norm_and_rotate(const Warp &warp, const Letter *head, uint32_t time, const float *weight,
                                    const float *rotation, int head_dim, float epsilon, float *result) {
    const int half = head_dim / 2;
    const float squares = warp.sum([&](int lane) {
        float squared = 0;
        const int at = 2 * lane;
        if (at < half) {
            const predictor::TwoWords weights[2] = {predictor::load_pair(weight + at),
                                                    predictor::load_pair(weight + half + at)};
            TwoLetters letters[2] = {look_at_two(head + at), look_at_two(head + half + at)};
            for (int part = 0; part < 2; ++part) {
                letters[part] = receive_two(head + part * half + at, letters[part], time);
                for (int k = 0; k < 2; ++k) {
                    const float value = letters[part].at[k].value;
                    squared = fmaf(value, value, squared);
                    result[part * half + at + k] = value * float_of_bits(weights[part].at[k]);
                }
            }
        }
        return squared;
    });
    const float scale = 1.0F / sqrtf(squares / static_cast<float>(head_dim) + epsilon);
    warp.each(half / 2, [&](int pair) {
        for (int i = 2 * pair; i < 2 * pair + 2; ++i) {
            const float first = result[i] * scale, second = result[half + i] * scale;
            const float cosine = rotation[2 * i], sine = rotation[2 * i + 1];
            result[i] = first * cosine - second * sine;
            result[half + i] = second * cosine + first * sine;
        }
    });
}

// Work of a block: some query heads of one key head, and some of the keys.
struct Span {
    int kv_head, first_head, heads;
    int chunk, begin, end;
    bool newest;  // whether the new position is among them, at their end
    bool adds;    // whether it adds that to the cache

    GGTTS_ANYWHERE Span(const Sizes &sizes, const Step &step, int item) {
        const int sharing = sizes.heads / sizes.kv_heads;
        const int groups = (sharing + queries_together - 1) / queries_together;
        chunk = item % step.chunks;
        const int group = item / step.chunks % groups;
        kv_head = item / step.chunks / groups;
        first_head = kv_head * sharing + group * queries_together;
        const int left = sharing - group * queries_together;
        heads = left < queries_together ? left : queries_together;
        begin = chunk * step.chunk;
        const int keys = step.position + 1;
        end = begin + step.chunk < keys ? begin + step.chunk : keys;
        newest = end == keys;
        adds = newest && group == 0;
    }

    // Groups of keys that a warp works on at once.
    GGTTS_ANYWHERE int groups() const { return (end - begin + keys_together - 1) / keys_together; }
};

constexpr GGTTS_EVERYWHERE int span_count(const Sizes &sizes, int chunks) {
    return sizes.kv_heads * ((sizes.heads / sizes.kv_heads + queries_together - 1) / queries_together) *
           chunks;
}

// Scores that a warp makes for one head, at most.
constexpr GGTTS_EVERYWHERE int scores_of_warp(int chunk, int warps) {
    return ((chunk + keys_together - 1) / keys_together + warps - 1) / warps * keys_together;
}

constexpr GGTTS_EVERYWHERE int64_t attention_room(int head_dim, int chunk, int warps) {
    const int of_warp = queries_together * (scores_of_warp(chunk, warps) + head_dim + 2);
    return (queries_together + 2) * head_dim + static_cast<int64_t>(warps) * of_warp;
}

// Of one span, in shared memory.
struct AttentionScratch {
    float *queries;  // [queries_together][head_dim]
    float *key, *value;
    float *mixed;          // [warps][queries_together][head_dim]
    float *scores;         // [warps][queries_together][scores_of_warp]
    float *tops, *totals;  // [warps][queries_together]

    GGTTS_ANYWHERE AttentionScratch(float *memory, int head_dim, int chunk, int warps)
        : queries(memory),
          key(queries + queries_together * head_dim),
          value(key + head_dim),
          mixed(value + head_dim),
          scores(mixed + warps * queries_together * head_dim),
          tops(scores + warps * queries_together * scores_of_warp(chunk, warps)),
          totals(tops + warps * queries_together) {}
};

// What a warp needs to know for its share of a span's keys: groups of `keys_together`, one for each warp in
// turn.
struct SpanOfWarp {
    const Span &span;
    Cache cache;  // of the key head
    bool half;
    int index, warps, head_dim, room;

    GGTTS_ANYWHERE int first_of(int group) const {
        return span.begin + (index + group * warps) * keys_together;
    }
    GGTTS_ANYWHERE int groups() const {
        const int all = span.groups();
        return all > index ? (all - index - 1) / warps + 1 : 0;
    }
    // Of the scores, beyond the last key too.
    GGTTS_ANYWHERE int count() const { return groups() * keys_together; }
    // Four neighbours of the keys of a group, or of their values; those of the newest, which are not in the
    // cache yet, are `newest`, and so are those beyond: what is no number would spoil a sum, whatever its
    // weight.
    GGTTS_ANYWHERE void load(const uint8_t *from, const float *newest, int group, int at,
                             Floats (&result)[keys_together]) const {
        const int first = first_of(group), left = span.end - first;
        load_fours(from, static_cast<int64_t>(first) * head_dim + at, head_dim,
                   left < keys_together ? left : keys_together, half, result);
        if (span.newest && left <= keys_together) {
            const Floats last = *reinterpret_cast<const Floats *>(newest + at);
#pragma unroll
            for (int n = 0; n < keys_together; ++n) {
                for (int i = 0; i < 4; ++i)
                    result[n].at[i] = n + 1 >= left ? last.at[i] : result[n].at[i];
            }
        }
    }

    GGTTS_ANYWHERE int key_of(int score) const {
        return first_of(score / keys_together) + score % keys_together;
    }
};

template <class Warp>
GGTTS_ANYWHERE void score(const Warp &warp, const SpanOfWarp &own, const AttentionScratch &scratch,
                          float *scores) {
    constexpr int count = keys_together * queries_together;
    const float scale = 1.0F / sqrtf(static_cast<float>(own.head_dim));
    GGTTS_SHORT_LOOP
    for (int group = 0; group < own.groups(); ++group) {
        warp.template sums<count>(
            [&](int lane, float (&sums)[count]) {
                const int at = lane * 4;
                if (at < own.head_dim) {
                    Floats keys[keys_together];
                    own.load(own.cache.keys, scratch.key, group, at, keys);
#pragma unroll
                    for (int head = 0; head < queries_together; ++head) {
                        const Floats query =
                            *reinterpret_cast<const Floats *>(scratch.queries + head * own.head_dim + at);
#pragma unroll
                        for (int n = 0; n < keys_together; ++n) {
                            float &sum = sums[head * keys_together + n];
                            for (int i = 0; i < 4; ++i)
                                sum = fmaf(query.at[i], keys[n].at[i], sum);
                        }
                    }
                }
            },
            [&](int i, float sum) {
                scores[i / keys_together * own.room + group * keys_together + i % keys_together] =
                    sum * scale;
            });
    }
}

// Scores become weights; returns the highest score of each head, and then the sums of the weights.
template <class Warp>
GGTTS_ANYWHERE void weigh(const Warp &warp, const SpanOfWarp &own, float *scores, float *tops,
                          float *totals) {
    const float lowest = float_of_bits(0xFF800000U);
    const Pair top = warp.highest_of_pairs([&](int lane) {
        Pair highest{{lowest, lowest}};
        GGTTS_SHORT_LOOP
        for (int i = lane; i < own.count(); i += lanes) {
            for (int head = 0; head < queries_together && own.key_of(i) < own.span.end; ++head)
                highest.at[head] = fmaxf(highest.at[head], scores[head * own.room + i]);
        }
        return highest;
    });
    const Pair total = warp.sum_of_pairs([&](int lane) {
        Pair sums{};
        GGTTS_SHORT_LOOP
        for (int i = lane; i < own.count(); i += lanes) {
            const bool seen = own.key_of(i) < own.span.end;
            for (int head = 0; head < queries_together; ++head) {
                const float weight = seen ? expf(scores[head * own.room + i] - top.at[head]) : 0.0F;
                scores[head * own.room + i] = weight;
                sums.at[head] += weight;
            }
        }
        return sums;
    });
    warp.each(queries_together, [&](int head) {
        tops[head] = head == 0 ? top.at[0] : top.at[1];
        totals[head] = head == 0 ? total.at[0] : total.at[1];
    });
}

template <class Warp>
GGTTS_ANYWHERE void mix(const Warp &warp, const SpanOfWarp &own, const AttentionScratch &scratch,
                        const float *scores, float *mixed) {
    warp.each(own.head_dim / 4, [&](int quad) {
        Floats sums[queries_together] = {};
        GGTTS_SHORT_LOOP
        for (int group = 0; group < own.groups(); ++group) {
            Floats values[keys_together];
            own.load(own.cache.values, scratch.value, group, 4 * quad, values);
#pragma unroll
            for (int head = 0; head < queries_together; ++head) {
#pragma unroll
                for (int n = 0; n < keys_together; ++n) {
                    const float weight = scores[head * own.room + group * keys_together + n];
                    for (int i = 0; i < 4; ++i)
                        sums[head].at[i] = fmaf(weight, values[n].at[i], sums[head].at[i]);
                }
            }
        }
        for (int head = 0; head < queries_together; ++head)
            *reinterpret_cast<Floats *>(mixed + head * own.head_dim + 4 * quad) = sums[head];
    });
}

// Scaled dot-product attention (Vaswani et al., 2017) of a warp over its keys.
template <class Warp>
GGTTS_ANYWHERE void attend_to(const Warp &warp, const SpanOfWarp &own, const AttentionScratch &scratch) {
    float *scores = scratch.scores + own.index * queries_together * own.room;
    score(warp, own, scratch, scores);
    weigh(warp, own, scores, scratch.tops + own.index * queries_together,
          scratch.totals + own.index * queries_together);
    mix(warp, own, scratch, scores, scratch.mixed + own.index * queries_together * own.head_dim);
}

// A mean of means: the weight of each is the exponential of a logarithm, times a factor; there are no means
// where the logarithm is -inf.
struct Mean {
    float value;
    float log;  // of the sum of the weights
};

template <class Log, class Factor, class Value>
GGTTS_ANYWHERE Mean mean_of(int count, Log log, Factor factor, Value value) {
    float top = log(0);
#pragma unroll 8
    for (int i = 1; i < count; ++i)
        top = fmaxf(top, log(i));
    float total = 0, sum = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
        const float weight = expf(log(i) - top);
        total = fmaf(weight, factor(i), total);
        sum = fmaf(weight, value(i), sum);
    }
    return {sum / total, top + logf(total)};
}

}  // namespace ggtts::talker
