// How threads divide work.
#pragma once

#include <cstdint>
#include <utility>

namespace ggtts::kernels {

// The share of `total` jobs that one thread does, a run of neighbours.
inline std::pair<int64_t, int64_t> share(int64_t total, int thread, int threads) {
    return {total * thread / threads, total * (thread + 1) / threads};
}

// How many parts of at most so many there are.
inline int64_t parts(int64_t count, int64_t most) {
    return (count + most - 1) / most;
}

}  // namespace ggtts::kernels
