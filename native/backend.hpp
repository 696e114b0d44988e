// Devices, and a backend: one device ready to compute, with its thread pool.
#pragma once

#include <ggml-backend.h>
#include <ggml-cpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ggml_failures.hpp"
#include "right_of_way.hpp"
#include "scratch.hpp"
#include "thread_governor.hpp"
#include "thread_share.hpp"
#include "turn.hpp"

struct ggml_threadpool;

namespace ggtts {

struct DeviceMemory {
    uint64_t total = 0;
    uint64_t free = 0;
};

struct DeviceInfo {
    std::string name;         // "cpu", "cuda0", "vulkan0": what --device takes
    std::string description;  // what the driver calls it
    std::string kind;         // "cpu", "gpu", "accelerator"
    ggml_backend_dev_t device = nullptr;

    // Asked for only when wanted: the driver of a GPU starts up to answer, which takes its time and its
    // memory. Throws DeviceError where the driver does not start.
    DeviceMemory memory() const;
};

// Loads the backends of a libggml that was built to find them at run time. A no-op when they are linked in.
void load_backends(const std::string &directory);

std::vector<DeviceInfo> list_devices();

// How long an idle worker polls before it sleeps (GGML's scale, 0 to 100).
inline constexpr int default_poll = 50;

class Backend {
public:
    // Throws DeviceError when there is no such device.
    Backend(const std::string &device, int threads, int poll, bool exact, bool stock);
    // A second one for the device of another, whose graphs run at the same time: it has scratch memory of its
    // own, on a GPU a stream of its own, and on the CPU `aside` of the threads (see ThreadShare). Graphs of
    // both may use the same weights. What that relies on where the device is one of CUDA's: docs/cuda.md.
    Backend(std::shared_ptr<Backend> first, int aside);
    ~Backend();
    Backend(const Backend &) = delete;
    Backend &operator=(const Backend &) = delete;

    ggml_backend_t handle() const { return backend_.get(); }
    // For calls into GGML by who has the turn below. Throws DeviceError when the device has failed before.
    GuardedCalls guarded() const { return GuardedCalls(device_, backend_.get()); }
    template <class Calls>
    decltype(auto) guarded(const Calls &calls) const {
        return ggtts::guarded(device_, backend_.get(), calls);
    }
    // To be called by who has the turn when something of our own has failed there.
    void examine() const { ggtts::examine(device_, backend_.get()); }
    ggml_backend_dev_t device() const { return device_; }
    bool is_cpu() const { return is_cpu_; }
    // Whether our own operations and layouts are used here, which the CPU has, unless it was opened without.
    bool has_own_operations() const { return is_cpu_ && !stock_; }
    // Whether it was opened without operations of our own.
    bool is_stock() const { return stock_; }
    // Whether float32 products keep all their bits, at the cost of speed; GPUs round them to TF32 otherwise.
    bool exact() const { return exact_; }
    // Whether it does so, whatever was wanted.
    bool keeps_all_bits(ggml_type type);
    int threads() const { return threads_; }
    // Its number in the CUDA runtime; nothing for other devices.
    std::optional<int> cuda_index() const;
    DeviceInfo info() const;
    // An error that says what there was no room for, how much it needs (0: unknown) and how much is free.
    [[noreturn]] void refuse_memory(const std::string &what, size_t bytes) const;
    std::vector<std::string> features() const;

    // Views begin at multiples of so many bytes where operations read them; others are copied first.
    size_t view_alignment() const { return view_alignment_; }
    bool is_vulkan() const { return is_vulkan_; }

    ggml_backend_buffer_type_t default_buffer_type() const;
    // Buffer types with faster kernels for matrices (repacked layouts), best first; empty on most devices.
    const std::vector<ggml_backend_buffer_type_t> &matrix_buffer_types() const {
        return matrix_buffer_types_;
    }

    // Starts a graph; a device that is not the CPU may still be busy with it on return.
    ggml_status start(ggml_cgraph *graph);
    // Runs one to its end, on the threads that the run before had.
    ggml_status compute(ggml_cgraph *graph);

    // Idle threads poll for the next graph; this ends that until there is one, when other threads have work.
    // Not to be called by who has the turn below.
    void rest();

    // One graph at a time runs on a backend.
    Turn &turn() { return turn_; }
    // Of a second one: from now on, what the first one is to run waits until this is given back, unless it
    // was begun before. Nothing on the CPU, where both have threads of their own.
    void take_right_of_way();
    void leave_right_of_way();
    // To be called before a run, by who has no turn.
    void give_way();
    // Where it computes.
    Scratch &scratch() { return *scratch_; }

    // Of a second one: see ThreadShare.
    void begin_sharing();
    void end_sharing();

private:
    struct Options {
        ggml_backend_dev_t device;
        int threads, poll;
        bool exact, stock;
    };
    explicit Backend(const Options &options);
    void open();
    void start_device();
    ggml_threadpool *pool_of(int threads);
    void use_threads(int threads);
    std::shared_ptr<ThreadShare> thread_share() const;
    template <class Function>
    Function procedure(const char *name) const;

    ggml_backend_dev_t device_ = nullptr;
    ggml_backend_reg_t registry_ = nullptr;
    size_t view_alignment_ = 1;
    bool is_vulkan_ = false;
    Owned<ggml_backend> backend_;
    std::map<int, ggml_threadpool *> thread_pools_;  // by their number of threads
    int poll_ = default_poll;
    bool is_cpu_ = false;
    bool exact_ = false;
    bool stock_ = false;
    int threads_ = 1;
    int threads_in_use_ = 0;
    ThreadGovernor governor_;
    mutable std::mutex share_mutex_;
    std::shared_ptr<ThreadShare> share_;  // of the CPU, where there are two
    std::shared_ptr<Backend> first_;      // of a second one
    RightOfWay right_of_way_;             // of a second one over this one
    std::vector<ggml_backend_buffer_type_t> matrix_buffer_types_;
    Turn turn_;
    std::optional<Scratch> scratch_;  // goes before the device does
};

}  // namespace ggtts
