// What GGML gives up on becomes an exception where a call of ours is under way, and one line elsewhere.
//
// GGML reports some failures, and ends the process (`ggml_abort`) for others: errors of a driver, memory of a
// device that runs out in the middle of a graph, assertions.
#pragma once

#include <ggml-alloc.h>
#include <ggml-backend.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "logging.hpp"

namespace ggtts {

struct LastWords;

// From now on, this file decides what becomes of a process when GGML gives up.
void catch_failures_of_ggml();

// Whether what GGML has on a device is lost, and must not even be given back.
bool has_failed(ggml_backend_dev_t device);

// What to do about a device that is too small.
std::string memory_advice(ggml_backend_dev_t device);

// While there is one, calls into GGML by this thread throw DeviceError when GGML gives up. Out of memory is
// no end: the device goes on with what fits. After all else it is failed for good.
//
// Not where GGML computes in several threads, nor in destructors: see UnguardedCalls.
class GuardedCalls {
public:
    // The device may be null, for calls that concern none. With a backend, whose turn the caller has, it is
    // found out after a lack of memory whether it still works. Throws DeviceError when the device has failed
    // before.
    explicit GuardedCalls(ggml_backend_dev_t device, ggml_backend_t backend = nullptr);
    ~GuardedCalls();
    GuardedCalls(const GuardedCalls &) = delete;
    GuardedCalls &operator=(const GuardedCalls &) = delete;

    // To be called where an exception was caught: throws it again, as a DeviceError where it is of GGML.
    [[noreturn]] void rethrow();

private:
    friend void catch_failures_of_ggml();
    static void give_up(const char *message);
    [[noreturn]] void fail(const LastWords &words);

    ggml_backend_dev_t device_;
    ggml_backend_t backend_;
    GuardedCalls *outer_;
    KeepsErrors keeps_;
    int exceptions_;  // that were on their way when it began
    bool lacked_memory_ = false;
};

// Makes guarded calls that may also throw by themselves, as those of GGML for Vulkan do: that is a
// DeviceError, too.
template <class Calls>
decltype(auto) guarded(ggml_backend_dev_t device, ggml_backend_t backend, const Calls &calls) {
    GuardedCalls guard(device, backend);
    try {
        return calls();
    } catch (const std::runtime_error &) {
        guard.rethrow();
    }
}

// While there is one, the process ends when GGML gives up in this thread: threads that wait for this one
// would wait for ever, and a destructor must not throw.
class UnguardedCalls {
public:
    UnguardedCalls();
    ~UnguardedCalls();
    UnguardedCalls(const UnguardedCalls &) = delete;
    UnguardedCalls &operator=(const UnguardedCalls &) = delete;

private:
    GuardedCalls *outer_;
};

// Whether a device still works, after something else than GGML has failed there: if not, it has failed now.
void examine(ggml_backend_dev_t device, ggml_backend_t backend);

// Gives back what GGML made, but on a device that has failed: there GGML would give up once more.
class LetGo {
public:
    explicit LetGo(ggml_backend_dev_t device = nullptr) : device_(device) {}

    void operator()(ggml_backend_t backend) const;
    void operator()(ggml_backend_buffer_t buffer) const;
    void operator()(ggml_gallocr_t allocator) const;

private:
    bool can_give_back() const;
    template <class Object>
    void give_back(void (*free)(Object *), Object *object) const;

    ggml_backend_dev_t device_;
};

template <class Object>
using Owned = std::unique_ptr<Object, LetGo>;

template <class Object>
Owned<Object> own(ggml_backend_dev_t device, Object *object) {
    return Owned<Object>(object, LetGo(device));
}

}  // namespace ggtts
