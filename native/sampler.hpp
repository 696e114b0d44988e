// From logits to a token: the chain of Hugging Face logits processors that the official package runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ggtts {

// How a token is chosen. Neutral values switch a step off: temperature 1, top_k 0, top_p 1, penalty 1.
struct SamplingOptions {
    bool do_sample = true;
    float temperature = 1.0F;
    std::int32_t top_k = 0;
    double top_p = 1.0;
    float repetition_penalty = 1.0F;
};

// Which tokens may be chosen at all.
struct TokenRules {
    std::int32_t end_token = -1;      // never suppressed by the range below; -1: there is none
    std::int32_t suppress_first = 0;  // ids in [suppress_first, suppress_last) are impossible
    std::int32_t suppress_last = 0;
    std::int64_t minimum_tokens = 0;  // the end token is impossible before this many others
};

// Draws tokens of one sequence and remembers them for the penalty and the minimum length. Not to be
// shared by threads. Errors are std::invalid_argument and leave the remembered tokens as they were.
class TokenSampler {
public:
    TokenSampler(SamplingOptions options, TokenRules rules, std::uint64_t seed, std::uint64_t codebooks);

    // Choose a token from `logits`, one per vocabulary entry. The random number is the one of
    // (seed, codebooks * frame + codebook); greedy choice uses none.
    std::int32_t sample(std::span<const float> logits, std::uint64_t frame, std::uint64_t codebook);

    // Fill `result` with the distribution `sample` would draw from: sums to 1, or one-hot when greedy.
    void probabilities(std::span<const float> logits, std::span<float> result);

    // The distinct tokens drawn so far, in order of first appearance.
    const std::vector<std::int32_t> &history() const { return history_; }

    // How many tokens were drawn so far.
    std::int64_t drawn() const { return drawn_; }

private:
    bool greedy() const { return !options_.do_sample || options_.temperature == 0.0F; }
    void process(std::span<const float> logits);
    void load(std::span<const float> logits);
    void penalise_repetition();
    void forbid();
    void survey(std::size_t count);
    float bound_of_top(std::size_t count);
    float below(float bound, float highest) const;
    void gather(float least);
    float tempered(float score, float highest) const;
    void apply_temperature(float highest);
    void keep_top_k(std::size_t count);
    void keep_top_p();
    double weigh();
    std::int32_t first_of(float score) const;
    std::int32_t draw(float uniform, double total) const;
    void remember(std::int32_t token);

    SamplingOptions options_;
    TokenRules rules_;
    std::uint64_t seed_;
    std::uint64_t codebooks_;

    std::vector<std::int32_t> history_;
    std::vector<bool> seen_;
    std::int64_t drawn_ = 0;

    // Work space of one draw, kept so that a draw allocates nothing.
    std::vector<float> scores_;             // of every token; impossible ones are -inf
    std::vector<float> ranking_;            // scores to be put in order
    std::vector<std::int32_t> candidates_;  // tokens that may be drawn, ascending
    std::vector<std::int32_t> blocks_;      // of scores that have candidates
    std::vector<float> weights_;            // of the candidates
};

}  // namespace ggtts
