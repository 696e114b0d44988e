// How blocks of a kernel send each other values. There is no barrier of the grid: a value and the time it
// belongs to are one letter, written and read at once, and whoever needs it looks until that time is there.
// (NCCL calls this its low-latency protocol.)
//
// A letter may be written again without asking whether it was read. That holds because every step of the work
// needs all of what the step before made, or at least one value of each block that read what is to be written
// over.
#pragma once

#include "model.hpp"
#include "portable.hpp"

#ifndef __CUDACC__
#include <stdexcept>
#endif

namespace ggtts::predictor {

struct alignas(16) TwoLetters {
    Letter at[2];
};

// A letter as it travels: in one word, which is written, and read, at once.
#ifdef __CUDACC__
using Sealed = uint64_t;
#else
using Sealed = Letter;
#endif

GGTTS_ANYWHERE Letter opened(Sealed letter) {
#ifdef __CUDACC__
    return {float_of_bits(static_cast<uint32_t>(letter)), static_cast<uint32_t>(letter >> 32)};
#else
    return letter;
#endif
}

GGTTS_ANYWHERE void send(Letter *to, float value, uint32_t time) {
#ifdef __CUDACC__
    const Sealed letter = static_cast<uint64_t>(time) << 32 | bits_of_float(value);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(letter) : "memory");
#else
    *to = {value, time};
#endif
}

GGTTS_ANYWHERE Letter look(const Letter *from) {
    Sealed letter{};
#ifdef __CUDACC__
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(letter) : "l"(from) : "memory");
#else
    letter = *from;
#endif
    return opened(letter);
}

// Two neighbours with one load, though one by one.
GGTTS_ANYWHERE void look_at_two(const Letter *from, Sealed (&letters)[2]) {
#ifdef __CUDACC__
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(letters[0]), "=l"(letters[1])
                 : "l"(from)
                 : "memory");
#else
    letters[0] = from[0];
    letters[1] = from[1];
#endif
}

GGTTS_ANYWHERE bool are_of(uint32_t time, const Sealed (&letters)[2]) {
    return opened(letters[0]).time == time && opened(letters[1]).time == time;
}

GGTTS_ANYWHERE TwoLetters look_at_two(const Letter *from) {
    Sealed letters[2]{};
    look_at_two(from, letters);
    return {{opened(letters[0]), opened(letters[1])}};
}

// How long to look for a letter. In an emulation whatever is waited for has come before.
//
// The kernel for few columns waits like this: it was only ever timed without counting its turns.
struct Forever {
    static GGTTS_ANYWHERE void turn([[maybe_unused]] int index) {
#ifndef __CUDACC__
        throw std::logic_error("a block would wait forever: nobody sent it this value");
#endif
    }
};

// A kernel that waits forever would take the device from everybody.
struct Seconds {
    static GGTTS_ANYWHERE void turn(int index) {
#ifdef __CUDACC__
        constexpr int most_turns = 1 << 23;
        if (index == most_turns)
            __trap();
#else
        Forever::turn(index);
#endif
    }
};

template <class Patience = Seconds>
GGTTS_ANYWHERE float receive(const Letter *from, uint32_t time) {
    for (int turn = 0;; ++turn) {
        const Letter letter = look(from);
        if (letter.time == time)
            return letter.value;
        Patience::turn(turn);
    }
}

// Goes on from what a first look found.
GGTTS_ANYWHERE TwoLetters receive_two(const Letter *from, TwoLetters letters, uint32_t time) {
    for (int turn = 0; letters.at[0].time != time || letters.at[1].time != time; ++turn) {
        Seconds::turn(turn);
        letters = look_at_two(from);
    }
    return letters;
}

// Pairs of values from several places (null: zeros). All are asked for before any is waited for. They stay
// sealed until then: with both halves of each to move about, a kernel has one instruction of a hundred more.
template <class Patience = Seconds, int count>
GGTTS_ANYWHERE void receive_pairs(const Letter *const (&places)[count], uint32_t time, Pair (&pairs)[count]) {
    Sealed letters[count][2];
#pragma unroll
    for (int i = 0; i < count; ++i) {
        if (places[i] != nullptr)
            look_at_two(places[i], letters[i]);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
        pairs[i] = {};
        if (places[i] != nullptr) {
            for (int turn = 0; !are_of(time, letters[i]); ++turn) {
                Patience::turn(turn);
                look_at_two(places[i], letters[i]);
            }
            pairs[i] = {opened(letters[i][0]).value, opened(letters[i][1]).value};
        }
    }
}

}  // namespace ggtts::predictor
