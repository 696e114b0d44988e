#include "sampler.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>

#include "philox.hpp"

namespace ggtts {

namespace {

constexpr float impossible = -std::numeric_limits<float>::infinity();
constexpr float lowest = std::numeric_limits<float>::lowest();

void require(bool condition, const char *message) {
    if (!condition) {
        throw std::invalid_argument(message);
    }
}

}  // namespace

TokenSampler::TokenSampler(SamplingOptions options, TokenRules rules, std::uint64_t seed,
                           std::uint64_t codebooks)
    : options_(options), rules_(rules), seed_(seed), codebooks_(codebooks) {
    require(std::isfinite(options.temperature) && options.temperature >= 0.0F,
            "temperature must be a finite number, zero or above");
    require(options.top_k >= 0, "top_k must be zero (off) or above");
    require(options.top_p >= 0.0 && options.top_p <= 1.0, "top_p must be between 0 and 1");
    require(std::isfinite(options.repetition_penalty) && options.repetition_penalty > 0.0F,
            "repetition_penalty must be a finite number above zero");
    require(rules.suppress_first >= 0 && rules.suppress_first <= rules.suppress_last,
            "the range of suppressed tokens must be 0 <= first <= last");
    require(codebooks > 0, "the number of codebooks must be above zero");
}

std::int32_t TokenSampler::sample(std::span<const float> logits, std::uint64_t frame,
                                  std::uint64_t codebook) {
    require(codebook < codebooks_, "the codebook is outside the frame");
    process(logits);
    const std::int32_t token =
        greedy() ? candidates_.front() : draw(philox_uniform(seed_, codebooks_ * frame + codebook), weigh());
    remember(token);
    return token;
}

void TokenSampler::probabilities(std::span<const float> logits, std::span<float> result) {
    require(logits.size() == result.size(), "the result must be as long as the logits");
    process(logits);
    std::fill(result.begin(), result.end(), 0.0F);
    if (greedy()) {
        result[static_cast<std::size_t>(candidates_.front())] = 1.0F;
        return;
    }
    const double total = weigh();
    for (std::size_t rank = 0; rank < candidates_.size(); ++rank) {
        result[static_cast<std::size_t>(candidates_[rank])] = static_cast<float>(weights_[rank] / total);
    }
}

// The order is that of transformers' generate(): processors (also when greedy), then warpers.
void TokenSampler::process(std::span<const float> logits) {
    load(logits);
    penalise_repetition();
    forbid();
    const auto count = static_cast<std::size_t>(options_.top_k);
    const bool limited = !greedy() && count > 0 && count < scores_.size();
    survey(limited ? count : 1);
    const float highest = *std::max_element(ranking_.begin(), ranking_.end());
    require(highest != impossible, "the logits leave no token that may be chosen");
    if (greedy()) {
        candidates_.assign(1, first_of(highest));
        return;
    }
    require(std::isfinite(highest), "a logit is beyond all numbers, once it was divided by the penalty");
    gather(limited ? below(bound_of_top(count), highest) : lowest);
    apply_temperature(highest);
    if (limited) {
        keep_top_k(count);
    }
    keep_top_p();
}

void TokenSampler::load(std::span<const float> logits) {
    require(!logits.empty(), "the logits are empty");
    require(logits.size() <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
            "the vocabulary is too large");
    scores_.resize(logits.size());
    std::int32_t unusable = 0;  // a number rather than a truth value, and no branch: so it vectorises
    for (std::size_t token = 0; token < logits.size(); ++token) {
        scores_[token] = logits[token];
        unusable |= logits[token] < std::numeric_limits<float>::infinity() ? 0 : 1;  // NaN is not below
    }
    for (std::size_t token = 0; unusable != 0 && token < logits.size(); ++token) {
        if (std::isnan(logits[token]) || logits[token] == std::numeric_limits<float>::infinity()) {
            throw std::invalid_argument("logit " + std::to_string(token) + " of " +
                                        std::to_string(logits.size()) +
                                        (std::isnan(logits[token]) ? " is not a number" : " is infinite") +
                                        ": the model overflowed or its weights are damaged");
        }
    }
}

// RepetitionPenaltyLogitsProcessor (Keskar et al., "CTRL", section 4.1): once per distinct token.
void TokenSampler::penalise_repetition() {
    if (options_.repetition_penalty == 1.0F) {
        return;
    }
    for (const std::int32_t token : history_) {
        require(static_cast<std::size_t>(token) < scores_.size(), "the logits are shorter than those before");
        float &score = scores_[static_cast<std::size_t>(token)];
        const float more = score * options_.repetition_penalty, less = score / options_.repetition_penalty;
        score = score < 0.0F ? more : less;  // which one is hard to predict
    }
}

// MinNewTokensLengthLogitsProcessor and SuppressTokensLogitsProcessor.
void TokenSampler::forbid() {
    const auto size = static_cast<std::int32_t>(scores_.size());
    const bool may_end = rules_.end_token >= 0 && rules_.end_token < size;
    const float end_score = may_end ? scores_[static_cast<std::size_t>(rules_.end_token)] : impossible;
    const auto suppressed = [this, size](std::int32_t id) { return scores_.begin() + std::min(id, size); };
    std::fill(suppressed(rules_.suppress_first), suppressed(rules_.suppress_last), impossible);
    if (may_end) {
        scores_[static_cast<std::size_t>(rules_.end_token)] =
            drawn_ < rules_.minimum_tokens ? impossible : end_score;
    }
}

// The highest scores of groups, which take turns, into `ranking_`: of so many that `count` of them are a
// bound that few other scores reach, and all scores where there are too few for that.
void TokenSampler::survey(std::size_t count) {
    const std::size_t size = scores_.size();
    std::size_t groups = std::bit_ceil(std::max<std::size_t>(count + count / 4, 16));
    groups = 2 * groups > size ? size : groups;
    ranking_.assign(scores_.begin(), scores_.begin() + static_cast<std::ptrdiff_t>(groups));
    for (std::size_t begin = groups; begin < size; begin += groups) {
        const std::size_t length = std::min(groups, size - begin);
        const float *scores = scores_.data() + begin;
        float *highest = ranking_.data();
        for (std::size_t group = 0; group < length; ++group) {
            highest[group] = scores[group] > highest[group] ? scores[group] : highest[group];
        }
    }
}

// What at least `count` scores reach: the count-th highest of those that were surveyed.
float TokenSampler::bound_of_top(std::size_t count) {
    const auto last = ranking_.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(ranking_.begin(), last, ranking_.end(), std::greater<>());
    return *last;
}

// A score that is below `bound` also once it was divided by the temperature, where rounding makes equals.
float TokenSampler::below(float bound, float highest) const {
    constexpr float step = 1.0F / (1 << 21);
    const float lower = bound - (highest - bound) * step;
    return tempered(lower, highest) < tempered(bound, highest) ? lower : lowest;
}

// TemperatureLogitsWarper. The maximum goes first, which softmax does not see: a tiny temperature cannot
// overflow the scores then, and the best score is zero from here on.
float TokenSampler::tempered(float score, float highest) const {
    return (score - highest) / options_.temperature;
}

void TokenSampler::apply_temperature(float highest) {
    for (const std::int32_t token : candidates_) {
        float &score = scores_[static_cast<std::size_t>(token)];
        score = tempered(score, highest);
    }
}

// TopKLogitsWarper: ties with the k-th score stay. Only the few that may be among the top k are put in order.
void TokenSampler::keep_top_k(std::size_t count) {
    if (candidates_.size() <= count) {
        return;
    }
    const auto score = [this](std::int32_t token) { return scores_[static_cast<std::size_t>(token)]; };
    ranking_.resize(candidates_.size());
    std::transform(candidates_.begin(), candidates_.end(), ranking_.begin(), score);
    const auto last = ranking_.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(ranking_.begin(), last, ranking_.end(), std::greater<>());
    std::size_t kept = 0;
    for (const std::int32_t token : candidates_) {
        candidates_[kept] = token;
        kept += score(token) < *last ? 0 : 1;
    }
    candidates_.resize(kept);
}

// Let those be the candidates whose score is `least` or above. Nothing branches on a score: where there are
// few candidates, it is hard to predict where.
void TokenSampler::gather(float least) {
    constexpr std::size_t width = 8;
    const std::size_t size = scores_.size(), blocks = size / width;
    blocks_.resize(blocks);
    std::size_t found = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
        const float *scores = scores_.data() + width * block;
        std::int32_t reached = 0;
        for (std::size_t place = 0; place < width; ++place) {
            reached |= scores[place] >= least ? 1 : 0;
        }
        blocks_[found] = static_cast<std::int32_t>(block);
        found += static_cast<std::size_t>(reached);
    }
    candidates_.resize(width * (found + 1));
    std::size_t count = 0;
    const auto take = [this, least, &count](std::size_t token) {
        candidates_[count] = static_cast<std::int32_t>(token);
        count += scores_[token] >= least ? 1 : 0;
    };
    for (std::size_t place = 0; place < found; ++place) {
        const std::size_t begin = width * static_cast<std::size_t>(blocks_[place]);
        for (std::size_t token = begin; token < begin + width; ++token) {
            take(token);
        }
    }
    for (std::size_t token = width * blocks; token < size; ++token) {
        take(token);
    }
    candidates_.resize(count);
}

// TopPLogitsWarper (Holtzman et al., "The curious case of neural text degeneration"): in ascending order,
// tokens go while their cumulative probability is at most 1 - p; of equal scores the lower id goes first.
void TokenSampler::keep_top_p() {
    if (options_.top_p >= 1.0) {
        return;
    }
    const double total = weigh();
    const auto limit = static_cast<float>(1.0 - options_.top_p);
    const auto score = [this](std::int32_t token) { return scores_[static_cast<std::size_t>(token)]; };
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [&score](std::int32_t left, std::int32_t right) { return score(left) < score(right); });
    std::size_t removed = 0;
    for (double sum = 0.0; removed + 1 < candidates_.size(); ++removed) {
        sum += std::exp(score(candidates_[removed]));
        if (static_cast<float>(sum / total) > limit) {
            break;
        }
    }
    candidates_.erase(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(removed));
    std::sort(candidates_.begin(), candidates_.end());
}

// Unnormalised softmax of the candidates into `weights_`; returns their sum. The best score is zero.
double TokenSampler::weigh() {
    weights_.clear();
    double total = 0.0;
    for (const std::int32_t token : candidates_) {
        weights_.push_back(std::exp(scores_[static_cast<std::size_t>(token)]));
        total += weights_.back();
    }
    return total;
}

std::int32_t TokenSampler::first_of(float score) const {
    return static_cast<std::int32_t>(std::find(scores_.begin(), scores_.end(), score) - scores_.begin());
}

// Inverse of the cumulative distribution in vocabulary order. The uniform may be exactly 1, and then
// rounding must not run past the last token that has a weight.
std::int32_t TokenSampler::draw(float uniform, double total) const {
    const double target = static_cast<double>(uniform) * total;
    double sum = 0.0;
    std::int32_t chosen = candidates_.front();
    for (std::size_t rank = 0; rank < candidates_.size(); ++rank) {
        if (weights_[rank] == 0.0F) {
            continue;
        }
        chosen = candidates_[rank];
        sum += weights_[rank];
        if (sum >= target) {
            break;
        }
    }
    return chosen;
}

void TokenSampler::remember(std::int32_t token) {
    ++drawn_;
    const auto index = static_cast<std::size_t>(token);
    if (seen_.size() < scores_.size()) {
        seen_.resize(scores_.size(), false);
    }
    if (!seen_[index]) {
        seen_[index] = true;
        history_.push_back(token);
    }
}

}  // namespace ggtts
