// The sampling chain of native/sampler.cpp by a block of threads: temperature, top-k with its ties, top-p,
// and one draw in vocabulary order. Nothing is sorted: every threshold is found bit by bit, by counting or
// adding up what lies beyond it.
#pragma once

#include <cmath>

#include <philox.hpp>
#include "weight_types.hpp"

namespace ggtts::predictor {

// Whole numbers in the order of the floats, none of which is NaN. The sum makes both zeros one.
GGTTS_ANYWHERE uint32_t order(float value) {
    const uint32_t bits = bits_of_float(value + 0.0F);
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

GGTTS_ANYWHERE float float_of_order(uint32_t place) {
    return float_of_bits((place & 0x80000000U) != 0 ? place ^ 0x80000000U : ~place);
}

// The largest number below 2^bits for which `holds`, which is true for 0 and false from some number on.
template <class Holds>
GGTTS_ANYWHERE uint32_t largest(int bits, Holds holds) {
    uint32_t found = 0;
    for (int bit = bits - 1; bit >= 0; --bit) {
        const uint32_t candidate = found | (1U << bit);
        if (holds(candidate))
            found = candidate;
    }
    return found;
}

// Room in shared memory, in floats.
constexpr int64_t sampling_scratch(int entries) {
    return 2 * static_cast<int64_t>(entries);
}

template <class Block>
class CodeSampler {
public:
    GGTTS_ANYWHERE CodeSampler(const Block &block, int entries)
        : block_(block), entries_(entries), scores_(block.shared()), weights_(block.shared() + entries) {
        while ((1 << entry_bits_) <= entries)
            ++entry_bits_;
    }

    GGTTS_ANYWHERE int choose(const float *logits, const Draw &draw, uint64_t codebook) {
        block_.each(entries_, [&](int i) { scores_[i] = fresh(logits + i); });
        return choose(draw, codebook);
    }

    // Where the logits are expected, all threads being done with writing them.
    GGTTS_ANYWHERE float *scores() const { return scores_; }

    // Returns the code, to all threads, or -1: a logit is NaN or infinite, or all of them are -inf.
    GGTTS_ANYWHERE int choose(const Draw &draw, uint64_t codebook) {
        const float infinity = float_of_bits(0x7F800000U);
        constexpr uint32_t no_number = 0xFFFFFFFFU;
        const auto highest = block_.template highest<uint32_t>(
            entries_, [&](int i) { return scores_[i] < infinity ? order(scores_[i]) : no_number; });
        if (highest == no_number || highest == order(-infinity))
            return -1;
        if (draw.greedy != 0)
            return first_best(highest);
        const float best = float_of_order(highest);
        // Until the weights are known, their places hold the scores in the order of `order`.
        auto *places = reinterpret_cast<uint32_t *>(weights_);
        block_.each(entries_, [&](int i) {
            scores_[i] = (scores_[i] - best) / draw.temperature;
            places[i] = order(scores_[i]);
        });
        const uint32_t threshold = keep_top_k(places, draw.top_k);
        block_.each(entries_, [&](int i) { weights_[i] = places[i] >= threshold ? expf(scores_[i]) : 0.0F; });
        if (draw.cut >= 0)
            keep_top_p(draw.cut);
        return pick(philox_uniform(draw.seed, draw.subsequence + codebook));
    }

private:
    GGTTS_ANYWHERE int first_best(uint32_t highest) const {
        return entries_ - 1 - block_.template highest<int>(entries_, [&](int i) {
            return order(scores_[i]) == highest ? entries_ - 1 - i : 0;
        });
    }

    // Returns the lowest score that stays, in the order of `order`.
    GGTTS_ANYWHERE uint32_t keep_top_k(const uint32_t *places, int count) const {
        const uint32_t lowest =
            order(float_of_bits(0xFF7FFFFFU));  // the lowest finite number: -inf is impossible
        if (count <= 0 || count >= entries_)
            return lowest;
        uint32_t found = 0;
        for (int bit = 30; bit >= 0; bit -= 2) {  // two bits at once
            int above[3];
            block_.template counts<3>(
                entries_,
                [&](int i, int (&counted)[3]) {
                    for (uint32_t digit = 1; digit <= 3; ++digit)
                        counted[digit - 1] += places[i] >= (found | digit << bit) ? 1 : 0;
                },
                above);
            const int digit = above[2] >= count ? 3 : above[1] >= count ? 2 : above[0] >= count ? 1 : 0;
            found |= static_cast<uint32_t>(digit) << bit;
            if (digit > 0 &&
                above[digit - 1] == count)  // without ties there is no need for the last score itself
                break;
        }
        return found > lowest ? found : lowest;
    }

    // In ascending order tokens go while their share is at most `cut`; of equal scores the lower id goes
    // first, and the last token never does.
    GGTTS_ANYWHERE void keep_top_p(float cut) const {
        const double all = total_below(0xFFFFFFFFU);
        const uint32_t best = order(0.0F);
        uint32_t bound = largest(
            32, [&](uint32_t candidate) { return static_cast<float>(total_below(candidate) / all) <= cut; });
        bound = bound < best ? bound : best;
        const double below = total_below(bound);
        const int last =
            block_.template highest<int>(entries_, [&](int i) { return order(scores_[i]) == bound ? i : 0; });
        const auto first = static_cast<int>(largest(entry_bits_, [&](uint32_t candidate) {
            const auto id = static_cast<int>(candidate);
            const double ties = block_.template total<double>(entries_, [&](int i) {
                return i < id && order(scores_[i]) == bound ? static_cast<double>(weights_[i]) : 0.0;
            });
            return id <= last && static_cast<float>((below + ties) / all) <= cut;
        }));
        block_.each(entries_, [&](int i) {
            const uint32_t place = order(scores_[i]);
            if (place < bound || (place == bound && i < first))
                weights_[i] = 0.0F;
        });
    }

    GGTTS_ANYWHERE double total_below(uint32_t bound) const {
        return block_.template total<double>(entries_, [&](int i) {
            return order(scores_[i]) < bound ? static_cast<double>(weights_[i]) : 0.0;
        });
    }

    // Inverse of the cumulative distribution in vocabulary order.
    GGTTS_ANYWHERE int pick(float uniform) const {
        const int found = block_.place(entries_, [&](int i) { return weights_[i]; }, uniform);
        if (found >= 0)
            return found;
        // Rounding left a gap between two threads: the last code that may be chosen.
        return block_.template highest<int>(entries_, [&](int i) { return weights_[i] > 0.0F ? i : 0; });
    }

    const Block &block_;
    int entries_;
    int entry_bits_ = 0;
    float *scores_;
    float *weights_;
};

}  // namespace ggtts::predictor
