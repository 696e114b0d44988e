// How blocks of the kernel for few columns tell each other values. There is no barrier of the grid: a value
// and its version are one word, written and read at once, and whoever needs it reads until the version is
// there. (NCCL calls this its low-latency protocol.)
//
// A word may be written anew without asking whether it was read: whoever writes it has heard of all blocks
// that read it in between, because each product needs all results of the one before.
#pragma once

#include "model.hpp"
#include "portable.hpp"

#ifndef __CUDACC__
#include <stdexcept>
#endif

namespace ggtts::predictor {

// Two neighbouring values.
struct Pair {
    float at[2];
};

#ifdef __CUDACC__

namespace detail {

__device__ __forceinline__ void read_words(const Word *words, uint64_t (&found)[2]) {
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(found[0]), "=l"(found[1])
                 : "l"(words)
                 : "memory");
}
__device__ __forceinline__ bool all_have(const uint64_t (&found)[2], uint32_t version) {
    return static_cast<uint32_t>(found[0] >> 32) == version &&
           static_cast<uint32_t>(found[1] >> 32) == version;
}

}  // namespace detail

__device__ __forceinline__ void tell(Word *word, float value, uint32_t version) {
    const uint64_t both = static_cast<uint64_t>(version) << 32 | bits_of_float(value);
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(word), "l"(both) : "memory");
}

// Pairs of words from several places (null: zeros). All are asked for before any is waited for.
template <int count>
__device__ __forceinline__ void hear(const Word *const (&places)[count], uint32_t version,
                                     Pair (&pairs)[count]) {
    uint64_t found[count][2];
#pragma unroll
    for (int i = 0; i < count; ++i) {
        if (places[i] != nullptr)
            detail::read_words(places[i], found[i]);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
        pairs[i] = {};
        if (places[i] != nullptr) {
            while (!detail::all_have(found[i], version))
                detail::read_words(places[i], found[i]);
            pairs[i] = {float_of_bits(static_cast<uint32_t>(found[i][0])),
                        float_of_bits(static_cast<uint32_t>(found[i][1]))};
        }
    }
}

__device__ __forceinline__ float hear_one(const Word *word, uint32_t version) {
    uint64_t found = 0;
    do {
        asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(found) : "l"(word) : "memory");
    } while (static_cast<uint32_t>(found >> 32) != version);
    return float_of_bits(static_cast<uint32_t>(found));
}

#else

inline void tell(Word *word, float value, uint32_t version) {
    *word = {value, version};
}

inline float hear_one(const Word *word, uint32_t version) {
    if (word->version != version)
        throw std::logic_error("a block would wait forever: nobody told it this value");
    return word->value;
}

template <int count>
void hear(const Word *const (&places)[count], uint32_t version, Pair (&pairs)[count]) {
    for (int i = 0; i < count; ++i) {
        pairs[i] = {};
        for (int word = 0; places[i] != nullptr && word < 2; ++word)
            pairs[i].at[word] = hear_one(places[i] + word, version);
    }
}

#endif

}  // namespace ggtts::predictor
