// Philox4x32-10, the counter-based random generator of Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
//
// There is no state to carry: a word depends on (seed, subsequence) alone, so a draw can be named by
// its place in the utterance and never depends on how the work was batched or cut into chunks.
#pragma once

#include <array>
#include <cstdint>

namespace ggtts {

using PhiloxBlock = std::array<std::uint32_t, 4>;

// The ten rounds over one counter block. `key` is the seed, low 32 bits first.
constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
    constexpr std::uint64_t multiplier_0 = 0xD2511F53;
    constexpr std::uint64_t multiplier_1 = 0xCD9E8D57;
    constexpr std::uint32_t weyl_0 = 0x9E3779B9;
    constexpr std::uint32_t weyl_1 = 0xBB67AE85;
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t product_0 = multiplier_0 * counter[0];
        const std::uint64_t product_1 = multiplier_1 * counter[2];
        counter = {
            static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0],
            static_cast<std::uint32_t>(product_1),
            static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
            static_cast<std::uint32_t>(product_0),
        };
        key[0] += weyl_0;
        key[1] += weyl_1;
    }
    return counter;
}

// The block of a (seed, subsequence) pair, and how many blocks of the subsequence come before it.
constexpr PhiloxBlock philox_block(std::uint64_t seed, std::uint64_t subsequence, std::uint64_t before = 0) {
    return philox4x32_10(
        {static_cast<std::uint32_t>(before), static_cast<std::uint32_t>(before >> 32),
         static_cast<std::uint32_t>(subsequence), static_cast<std::uint32_t>(subsequence >> 32)},
        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

// One uniform number in (0, 1], from the first word of the block. Float32 arithmetic is part of the
// definition: the 128 largest words round to exactly 1, which every consumer has to bear.
constexpr float philox_uniform(std::uint64_t seed, std::uint64_t subsequence) {
    const float word = static_cast<float>(philox_block(seed, subsequence)[0]);
    return (word + 0.5F) * 0x1p-32F;
}

}  // namespace ggtts
