// The Python face of the sampler. std::invalid_argument arrives there as ValueError.
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "philox.hpp"
#include "sampler.hpp"

namespace ggtts {

namespace {

namespace nb = nanobind;

using Logits = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ManyLogits = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Tokens = nb::ndarray<nb::numpy, std::int32_t, nb::ndim<1>>;
using Probabilities = nb::ndarray<nb::numpy, float, nb::ndim<1>>;

std::span<const float> view(const Logits &logits) {
    return {logits.data(), logits.shape(0)};
}

using Subsequences = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<nb::numpy, std::uint32_t, nb::ndim<2>>;

// Word by word: [4, subsequences].
Words philox_words(std::uint64_t seed, std::uint64_t counter, const Subsequences &subsequences) {
    const std::size_t count = subsequences.shape(0);
    auto *words = new std::uint32_t[4 * count];
    nb::capsule owner(words, [](void *pointer) noexcept { delete[] static_cast<std::uint32_t *>(pointer); });
    for (std::size_t i = 0; i < count; ++i) {
        const PhiloxBlock block = philox_block(seed, subsequences.data()[i], counter);
        for (std::size_t word = 0; word < 4; ++word)
            words[word * count + i] = block[word];
    }
    return Words(words, {4, count}, owner);
}

Probabilities probabilities(TokenSampler &sampler, const Logits &logits) {
    const std::size_t size = logits.shape(0);
    auto *values = new float[size];
    nb::capsule owner(values, [](void *pointer) noexcept { delete[] static_cast<float *>(pointer); });
    sampler.probabilities(view(logits), {values, size});
    return Probabilities(values, {size}, owner);
}

// Fewer logits are sampled faster than the GIL comes back when other threads wait for it.
constexpr std::size_t unlocked_logits = 1 << 16;

// Whoever fails gets -1, remembers nothing, and can be asked alone for the reason.
Tokens sample_together(const std::vector<TokenSampler *> &samplers, const ManyLogits &logits,
                       const std::vector<std::uint64_t> &frames, std::uint64_t codebook) {
    const std::size_t count = samplers.size(), size = logits.shape(1);
    if (logits.shape(0) != count || frames.size() != count)
        throw std::invalid_argument("there must be as many rows of logits and frames as samplers");
    auto *tokens = new std::int32_t[count];
    nb::capsule owner(tokens, [](void *pointer) noexcept { delete[] static_cast<std::int32_t *>(pointer); });
    std::optional<nb::gil_scoped_release> release;
    if (count * size > unlocked_logits)
        release.emplace();
    for (std::size_t i = 0; i < count; ++i) {
        try {
            tokens[i] = samplers[i]->sample({logits.data() + i * size, size}, frames[i], codebook);
        } catch (const std::invalid_argument &) {
            tokens[i] = -1;
        }
    }
    release.reset();
    return Tokens(tokens, {count}, owner);
}

void construct(TokenSampler *sampler, bool do_sample, float temperature, std::int32_t top_k, double top_p,
               float repetition_penalty, std::int32_t end_token, std::int32_t suppress_first,
               std::int32_t suppress_last, std::int64_t minimum_tokens, std::uint64_t seed,
               std::uint64_t codebooks) {
    const SamplingOptions options{do_sample, temperature, top_k, top_p, repetition_penalty};
    const TokenRules rules{end_token, suppress_first, suppress_last, minimum_tokens};
    new (sampler) TokenSampler(options, rules, seed, codebooks);
}

}  // namespace

void bind_sampler(nb::module_ &module) {
    module.def("philox_words", &philox_words, nb::arg("seed"), nb::arg("counter"), nb::arg("subsequences"),
               "The words, uint32 [4, n], of the blocks `counter` of n subsequences.");
    module.def(
        "philox_block",
        [](std::uint64_t seed, std::uint64_t subsequence) {
            const PhiloxBlock block = philox_block(seed, subsequence);
            return std::tuple_cat(block);
        },
        nb::arg("seed"), nb::arg("subsequence"), "The four 32-bit words of Philox4x32-10 for this counter.");
    module.def("philox_uniform", &philox_uniform, nb::arg("seed"), nb::arg("subsequence"),
               "One float32 uniform number in (0, 1], from the first word of the block.");

    module.def("sample_together", &sample_together, nb::arg("samplers"), nb::arg("logits"), nb::arg("frames"),
               nb::arg("codebook"),
               "A token for each sampler, int32 [samplers], from logits [samplers, vocabulary]; -1 where one "
               "fails. Releases the GIL where there are many.");

    nb::class_<TokenSampler>(module, "TokenSampler", "Draws the tokens of one sequence from their logits.")
        .def("__init__", &construct, nb::kw_only(), nb::arg("do_sample"), nb::arg("temperature"),
             nb::arg("top_k"), nb::arg("top_p"), nb::arg("repetition_penalty"), nb::arg("end_token"),
             nb::arg("suppress_first"), nb::arg("suppress_last"), nb::arg("minimum_tokens"), nb::arg("seed"),
             nb::arg("codebooks"))
        .def(
            "sample",
            [](TokenSampler &sampler, const Logits &logits, std::uint64_t frame, std::uint64_t codebook) {
                return sampler.sample(view(logits), frame, codebook);
            },
            nb::arg("logits"), nb::arg("frame"), nb::arg("codebook"), "Choose and remember one token.")
        .def("probabilities", &probabilities, nb::arg("logits"),
             "The distribution that `sample` would draw from, float32 [vocabulary].")
        .def_prop_ro("history", &TokenSampler::history,
                     "Distinct tokens drawn so far, in order of first appearance.")
        .def_prop_ro("drawn", &TokenSampler::drawn, "How many tokens were drawn so far.");
}

}  // namespace ggtts
