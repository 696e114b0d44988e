// How many threads the next graph should use, on a machine that others use too.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ggtts {

// GGML's threads wait for each other after every operation, hundreds of times in a graph, and they wait by
// spinning. When another process takes one of their cores, each wait lasts as long as that process's turn,
// and everything becomes ten and more times slower. Then one thread is faster than many. The governor sees it
// from the time the threads spent waiting for a core (Linux: /proc/PID/task/TID/schedstat, second field, see
// Documentation/scheduler/sched-stats), falls back to one thread for a while, and tries again, each time
// later if nothing has changed.
class ThreadGovernor {
public:
    using Clock = std::chrono::steady_clock;

    // `threads` is the most it will ever allow. Without the files above it always allows that many.
    explicit ThreadGovernor(int threads) : threads_(threads) {}

    // Watches the threads of a pool, too, besides those of other pools and the one that calls `ran`.
    void watch(const std::vector<int> &thread_ids);
    // `most` is how many there are for this run.
    int threads_for_next_run(Clock::time_point now, int most);
    void ran(int threads, Clock::time_point begin, Clock::time_point end);

private:
    int threads_;
    std::vector<std::string> files_;
    int last_caller_ = 0;
    double waited_before_ = 0.0;  // by the pool and the last caller
    double observed_ = 0.0;       // seconds of parallel runs since `waited_before_` was read
    std::chrono::duration<double> pause_{first_pause};
    Clock::time_point single_until_{};
    bool trusts_machine_ = false;  // it had free cores when last looked at, and nothing has gone wrong since

    double observation_ = first_observation;  // seconds of parallel runs before it looks again

    // A reading costs some microseconds: not after every short run. Where all was well, threads of this
    // process that wake up together (the readers of a batch, when all of it has samples) are no reason to
    // back off: they take their milliseconds and sleep again, which only a longer look tells from a process
    // that stays.
    static constexpr double first_observation = 0.010, calm_observation = 0.100;
    // The share of time without a core, per second of running, that counts as a busy machine.
    static constexpr double busy_share = 0.15;
    static constexpr double first_pause = 0.25, longest_pause = 4.0;
};

// The ids of all threads of this process; empty where /proc does not tell.
std::vector<int> process_threads();

}  // namespace ggtts
