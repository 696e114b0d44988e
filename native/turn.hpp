// Whose turn it is on a device.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

namespace ggtts {

// A mutex for one run at a time. Who has it may go and leave a run under way: whoever is next finishes it
// first.
class Turn {
public:
    void lock() {
        mutex_.lock();
        if (auto finish = std::exchange(finish_, nullptr))
            finish();
    }
    // To do something that is no run: it does not wait for what is under way.
    bool try_lock() { return mutex_.try_lock(); }
    void unlock() { mutex_.unlock(); }

    // To be called by who has it, when nothing else is under way. `finish` throws nothing.
    void leave(std::function<void()> finish) { finish_ = std::move(finish); }

private:
    std::mutex mutex_;
    std::function<void()> finish_;
};

}  // namespace ggtts
