// Threads of the CPU for two backends whose graphs run at the same time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

namespace ggtts {

// The first backend is where most is computed, the second one works beside it. Together they never run more
// threads than there are: while the second one runs, it has a few and the first one has the others, and when
// either runs by itself, it has all. Who comes while the other one has too many waits until that graph ends.
class ThreadShare {
public:
    // `aside` of all threads are the second backend's while both run.
    ThreadShare(int all, int aside);

    // Idle threads of the first backend poll for work. `rest` ends that, and is called when the second one
    // begins while the first one does not run.
    void on_rest(std::function<void()> rest);

    // Waits for threads; returns how many there are until `first_ends` or `second_ends`.
    int first_begins();
    void first_ends();
    int second_begins();
    void second_ends();

    // Whoever uses the first backend over and over says so: in its pauses the second one leaves it its
    // threads. Calls add up.
    void begin_sharing();
    void end_sharing();

private:
    int all_, aside_, others_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> rest_;
    int first_ = 0, second_ = 0;  // threads in use
    int sharing_ = 0;
    bool second_waits_ = false;
};

}  // namespace ggtts
