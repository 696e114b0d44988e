// Values that blocks send each other: each comes with the time it belongs to, so that whoever needs it waits
// for that time to appear and for nothing else.
//
// A letter may be written again when everybody has read it. That holds because every step of the work needs
// all of what the step before made, or at least one value of each block that read what is to be written over.
#pragma once

#include "portable.hpp"
#include "talker_model.hpp"

#ifndef __CUDACC__
#include <stdexcept>
#endif

namespace ggtts::talker {

struct alignas(16) TwoLetters {
    Letter at[2];
};

#ifdef __CUDACC__
__device__ __forceinline__ Letter letter_of(uint64_t bits) {
    return {__uint_as_float(static_cast<uint32_t>(bits)), static_cast<uint32_t>(bits >> 32)};
}
#endif

// Both halves of a letter are written, and read, at once; two letters one by one.
GGTTS_ANYWHERE void send(Letter *to, float value, uint32_t time) {
#ifdef __CUDACC__
    const uint64_t bits = static_cast<uint64_t>(time) << 32 | __float_as_uint(value);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(bits) : "memory");
#else
    *to = {value, time};
#endif
}

GGTTS_ANYWHERE Letter look(const Letter *from) {
#ifdef __CUDACC__
    uint64_t bits = 0;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(from) : "memory");
    return letter_of(bits);
#else
    return *from;
#endif
}

GGTTS_ANYWHERE TwoLetters look_at_two(const Letter *from) {
#ifdef __CUDACC__
    uint64_t first = 0, second = 0;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(first), "=l"(second)
                 : "l"(from)
                 : "memory");
    return {{letter_of(first), letter_of(second)}};
#else
    return {{from[0], from[1]}};
#endif
}

// Two weights, which never change.
GGTTS_ANYWHERE predictor::TwoWords load_pair(const float *weights) {
    return predictor::load_two_words(reinterpret_cast<const uint8_t *>(weights));
}

// For some seconds. A kernel that waits for ever would take the device from everybody.
inline constexpr int most_turns = 1 << 23;

// In an emulation whatever is waited for has come before.
GGTTS_ANYWHERE void still_waiting(int turn) {
#ifdef __CUDACC__
    if (turn == most_turns)
        __trap();
#else
    (void)turn;
    throw std::logic_error("a block reads what was not sent");
#endif
}

GGTTS_ANYWHERE float receive(const Letter *from, uint32_t time) {
    Letter letter = look(from);
    for (int turn = 0; letter.time != time; ++turn) {
        still_waiting(turn);
        letter = look(from);
    }
    return letter.value;
}

GGTTS_ANYWHERE TwoLetters receive_two(const Letter *from, TwoLetters letters, uint32_t time) {
    for (int turn = 0; letters.at[0].time != time || letters.at[1].time != time; ++turn) {
        still_waiting(turn);
        letters = look_at_two(from);
    }
    return letters;
}

}  // namespace ggtts::talker
