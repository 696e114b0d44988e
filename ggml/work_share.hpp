// How threads divide work.
#pragma once

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace ggtts::kernels {

// The share of `total` jobs that one thread does, a run of neighbours.
inline std::pair<int64_t, int64_t> share(int64_t total, int thread, int threads) {
    return {total * thread / threads, total * (thread + 1) / threads};
}

// Calls work(thread, begin, end) for the shares of so many threads, the first of which is the calling one.
template <class Work>
void share_out(int64_t total, int threads, Work work) {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) {
        const auto [begin, end] = share(total, thread, threads);
        if (begin < end) {
            others.emplace_back(work, thread, begin, end);
        }
    }
    work(0, int64_t{0}, share(total, 0, threads).second);
}

// How many parts of at most so many there are.
inline int64_t parts(int64_t count, int64_t most) {
    return (count + most - 1) / most;
}

}  // namespace ggtts::kernels
