#include "thread_share.hpp"

#include <algorithm>
#include <utility>

namespace ggtts {

ThreadShare::ThreadShare(int all, int aside) : all_(all), aside_(aside), others_(std::max(1, all - aside)) {}

void ThreadShare::on_rest(std::function<void()> rest) {
    std::lock_guard lock(mutex_);
    rest_ = std::move(rest);
}

int ThreadShare::first_begins() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return second_ <= aside_; });
    first_ = second_ > 0 || second_waits_ ? others_ : all_;
    return first_;
}

void ThreadShare::first_ends() {
    std::lock_guard lock(mutex_);
    first_ = 0;
    changed_.notify_all();
}

int ThreadShare::second_begins() {
    std::unique_lock lock(mutex_);
    second_waits_ = true;
    changed_.wait(lock, [this] { return first_ <= others_; });
    second_waits_ = false;
    if (first_ == 0 && rest_)
        rest_();
    second_ = first_ == 0 && sharing_ == 0 ? all_ : aside_;
    return second_;
}

void ThreadShare::second_ends() {
    std::lock_guard lock(mutex_);
    second_ = 0;
    changed_.notify_all();
}

void ThreadShare::begin_sharing() {
    std::lock_guard lock(mutex_);
    ++sharing_;
}

void ThreadShare::end_sharing() {
    std::lock_guard lock(mutex_);
    --sharing_;
}

}  // namespace ggtts
