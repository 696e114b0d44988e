// Who goes first on a device that two backends share.
#pragma once

#include <condition_variable>
#include <mutex>

namespace ggtts {

// One side may go first: what the other side begins waits meanwhile. What was begun before goes on. When it
// has gone, those who waited come next, before it goes first again.
//
// A GPU whose one stream has kernels on all processors leaves the gaps between these to another stream. Many
// small operations then take as long as all that goes on beside them.
class RightOfWay {
public:
    // Of the side that goes first.
    void take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return waiting_ == 0; });
        ++taken_;
    }
    void leave() {
        const std::lock_guard lock(mutex_);
        --taken_;
        changed_.notify_all();
    }

    // Of the other side: waits until nobody goes first.
    void give() {
        std::unique_lock lock(mutex_);
        if (taken_ == 0)
            return;
        ++waiting_;
        changed_.wait(lock, [this] { return taken_ == 0; });
        --waiting_;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int taken_ = 0, waiting_ = 0;
};

}  // namespace ggtts
