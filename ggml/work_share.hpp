// How threads divide work.
#pragma once

#include <cstdint>
#include <utility>

namespace ggtts::kernels {

// The share of `total` jobs that one thread does, a run of neighbours.
inline std::pair<int64_t, int64_t> share(int64_t total, int thread, int threads) {
    return {total * thread / threads, total * (thread + 1) / threads};
}

}  // namespace ggtts::kernels
