#include "backend.hpp"

#include <ggml-cpu.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "errors.hpp"
#include "exactness.hpp"
#include "logging.hpp"

namespace ggtts {
namespace {

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

std::string kind_of(ggml_backend_dev_t device) {
    switch (ggml_backend_dev_type(device)) {
        case GGML_BACKEND_DEVICE_TYPE_CPU:
            return "cpu";
        case GGML_BACKEND_DEVICE_TYPE_GPU:
        case GGML_BACKEND_DEVICE_TYPE_IGPU:
            return "gpu";
        default:
            return "accelerator";
    }
}

DeviceInfo describe(ggml_backend_dev_t device) {
    DeviceInfo info;
    info.name = lower(ggml_backend_dev_name(device));
    info.description = ggml_backend_dev_description(device);
    info.kind = kind_of(device);
    info.device = device;
    return info;
}

std::string megabytes(uint64_t bytes) {
    return std::to_string((bytes + 999999) / 1000000) + " MB";
}

// A full device may have no room for this question either.
std::string free_memory(const DeviceInfo &device) {
    try {
        return " (" + megabytes(device.memory().free) + " free)";
    } catch (const DeviceError &) {
        return "";
    }
}

// The threads that a run has until its end.
class ThreadsOfRun {
public:
    // Waits for them. Without a share they are `all`.
    ThreadsOfRun(std::shared_ptr<ThreadShare> share, bool second, int all)
        : share_(std::move(share)),
          second_(second),
          count_(!share_  ? all
                 : second ? share_->second_begins()
                          : share_->first_begins()) {}
    ~ThreadsOfRun() {
        if (share_)
            second_ ? share_->second_ends() : share_->first_ends();
    }
    ThreadsOfRun(const ThreadsOfRun &) = delete;
    ThreadsOfRun &operator=(const ThreadsOfRun &) = delete;

    int count() const { return count_; }

private:
    std::shared_ptr<ThreadShare> share_;
    bool second_;
    int count_;
};

ggml_backend_dev_t find_device(const std::string &name) {
    std::string known;
    for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        const std::string candidate = lower(ggml_backend_dev_name(device));
        if (candidate == lower(name))
            return device;
        known += (known.empty() ? "" : ", ") + candidate;
    }
    throw DeviceError("no device '" + name +
                      "'; this build of GGML has: " + (known.empty() ? "none" : known));
}

}  // namespace

DeviceMemory DeviceInfo::memory() const {
    const ErrorsAre level(LogLevel::info);
    size_t free = 0, total = 0;
    guarded(device, nullptr, [&] { ggml_backend_dev_memory(device, &free, &total); });
    // On CUDA that is no unknown amount: the driver did not answer.
    if (total == 0 && std::string_view(ggml_backend_reg_name(ggml_backend_dev_backend_reg(device))) == "CUDA")
        throw DeviceError("device '" + name + "' does not answer: it is full, or has failed");
    return {total, free};
}

// Devices that do not start are a warning: others may do.
void load_backends(const std::string &directory) {
    const ErrorsAre level(LogLevel::warning);
    guarded(nullptr, nullptr, [&] {
        if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == nullptr)
            ggml_backend_load_all_from_path(directory.c_str());
    });
}

std::vector<DeviceInfo> list_devices() {
    const ErrorsAre level(LogLevel::warning);
    return guarded(nullptr, nullptr, [] {
        std::vector<DeviceInfo> devices;
        for (size_t i = 0; i < ggml_backend_dev_count(); ++i)
            devices.push_back(describe(ggml_backend_dev_get(i)));
        return devices;
    });
}

template <class Function>
Function Backend::procedure(const char *name) const {
    auto function = reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(registry_, name));
    if (function == nullptr)
        throw DeviceError(std::string("this build of GGML lacks ") + name);
    return function;
}

Backend::Backend(const std::string &device, int threads, int poll, bool exact, bool stock)
    : Backend(Options{find_device(device), threads, poll, exact, stock}) {}

Backend::Backend(const Options &options)
    : device_(options.device),
      registry_(ggml_backend_dev_backend_reg(device_)),
      poll_(std::clamp(options.poll, 0, 100)),
      exact_(options.exact),
      stock_(options.stock),
      threads_(options.threads),
      governor_(options.threads) {
    if (threads_ < 1)
        throw std::invalid_argument("threads must be at least 1, not " + std::to_string(threads_));
    ggtts::guarded(device_, nullptr, [this] { open(); });
}

void Backend::open() {
    start_device();
    is_cpu_ = ggml_backend_dev_type(device_) == GGML_BACKEND_DEVICE_TYPE_CPU;
    scratch_.emplace(device_, default_buffer_type(), !has_own_operations());
    // Most of GGML's operations abort on Vulkan with operands that do not begin where the device can bind
    // them.
    is_vulkan_ = std::string_view(ggml_backend_reg_name(registry_)) == "Vulkan";
    if (is_vulkan_)
        view_alignment_ = ggml_backend_buft_get_alignment(default_buffer_type());
    if (is_cpu_)
        use_threads(threads_);
    auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(registry_, "ggml_backend_dev_get_extra_bufts"));
    if (extra != nullptr) {
        ggml_backend_buffer_type_t *types = extra(device_);
        for (; types != nullptr && *types != nullptr; ++types)
            matrix_buffer_types_.push_back(*types);
    }
}

// NVIDIA's library is told in the environment to keep all bits (core/engine/engine.py), but some handles of
// it round all the same, for as long as they live: 4 of 10 first ones that a second thread opened, and once
// 30 opened one after the other. Why is not known, so each has to show that it obeys. Those that do not are
// kept until one does, which so lies elsewhere.
void Backend::start_device() {
    constexpr int most_attempts = 32;
    std::vector<Owned<ggml_backend>> disobedient;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        backend_ = own(device_, ggml_backend_dev_init(device_, nullptr));
        if (!backend_)
            throw DeviceError("device '" + info().name + "' did not start");
        if (!exact_ || ggtts::keeps_all_bits(backend_.get()))
            return;
        disobedient.push_back(std::move(backend_));
    }
    throw DeviceError("device '" + info().name +
                      "' rounds float32 products, although it is to keep all bits");
}

// Its idle threads do not poll: they would do so beside those of the first one.
Backend::Backend(std::shared_ptr<Backend> first, int aside)
    : Backend(Options{first->device_, first->threads_, 0, first->exact_, first->stock_}) {
    if (aside < 1 || aside > threads_)
        throw std::invalid_argument(std::to_string(aside) + " of " + std::to_string(threads_) +
                                    " threads cannot be set aside");
    first_ = std::move(first);
    if (!is_cpu_)
        return;
    std::lock_guard rests(first_->turn());  // a run of the first one has all threads so far
    std::lock_guard lock(first_->share_mutex_);
    if (first_->share_)
        throw std::invalid_argument("there is a second backend already");
    share_ = first_->share_ = std::make_shared<ThreadShare>(threads_, aside);
    share_->on_rest([first = first_.get()] { first->rest(); });
}

ggml_threadpool *Backend::pool_of(int threads) {
    ggml_threadpool *&pool = thread_pools_[threads];
    if (pool != nullptr)
        return pool;
    ggml_threadpool_params params;
    ggml_threadpool_params_init(&params, threads);
    params.poll = static_cast<uint32_t>(poll_);
    // Until there is something to do they would poll in vain, while a model is loaded.
    params.paused = true;
    const std::vector<int> before = process_threads();
    pool = procedure<ggml_threadpool *(*)(ggml_threadpool_params *)>("ggml_threadpool_new")(&params);
    if (pool == nullptr)
        throw DeviceError("could not start " + std::to_string(threads) + " threads");
    std::vector<int> started = process_threads();
    std::erase_if(started,
                  [&](int id) { return std::find(before.begin(), before.end(), id) != before.end(); });
    governor_.watch(started);
    return pool;
}

// A pool of another size is set aside, and its threads sleep: GGML would wake all workers of a pool for a run
// that needs some of them, to poll in vain.
void Backend::use_threads(int threads) {
    if (threads == threads_in_use_) {
        return;
    }
    ggml_threadpool *pool = threads == 1 ? nullptr : pool_of(threads);
    procedure<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads")(backend_.get(), threads);
    procedure<void (*)(ggml_backend_t, ggml_threadpool *)>("ggml_backend_cpu_set_threadpool")(backend_.get(),
                                                                                              pool);
    threads_in_use_ = threads;
}

std::shared_ptr<ThreadShare> Backend::thread_share() const {
    std::lock_guard lock(share_mutex_);
    return share_;
}

void Backend::rest() {
    if (!is_cpu_)
        return;
    const std::unique_lock idle(turn_, std::try_to_lock);
    if (idle)
        use_threads(1);
}

void Backend::take_right_of_way() {
    if (first_ != nullptr && !is_cpu_)
        first_->right_of_way_.take();
}

void Backend::leave_right_of_way() {
    if (first_ != nullptr && !is_cpu_)
        first_->right_of_way_.leave();
}

void Backend::give_way() {
    right_of_way_.give();
}

void Backend::begin_sharing() {
    if (const auto share = thread_share())
        share->begin_sharing();
}

void Backend::end_sharing() {
    if (const auto share = thread_share())
        share->end_sharing();
}

ggml_status Backend::start(ggml_cgraph *graph) {
    if (!is_cpu_) {
        return ggml_backend_graph_compute_async(backend_.get(), graph);
    }
    const ThreadsOfRun granted(thread_share(), first_ != nullptr, threads_);
    const auto begin = ThreadGovernor::Clock::now();
    use_threads(governor_.threads_for_next_run(begin, granted.count()));
    const ggml_status status = compute(graph);
    governor_.ran(threads_in_use_, begin, ThreadGovernor::Clock::now());
    return status;
}

ggml_status Backend::compute(ggml_cgraph *graph) {
    std::optional<UnguardedCalls> others_wait;
    if (threads_in_use_ > 1)
        others_wait.emplace();
    return ggml_backend_graph_compute(backend_.get(), graph);
}

Backend::~Backend() {
    if (first_ && share_) {
        // Not waiting for the end of a run: whoever lets go of this one may hold the lock of an interpreter.
        std::lock_guard lock(first_->share_mutex_);
        first_->share_.reset();
    }
    backend_.reset();
    using FreePool = void (*)(ggml_threadpool *);
    auto free_pool =
        reinterpret_cast<FreePool>(ggml_backend_reg_get_proc_address(registry_, "ggml_threadpool_free"));
    for (const auto &[threads, pool] : thread_pools_) {
        if (pool != nullptr && free_pool != nullptr)
            free_pool(pool);
    }
}

bool Backend::keeps_all_bits(ggml_type type) {
    std::lock_guard lock(turn_);
    return guarded([&] { return ggtts::keeps_all_bits(backend_.get(), type); });
}

DeviceInfo Backend::info() const {
    return describe(device_);
}

// GGML counts as the CUDA runtime does.
std::optional<int> Backend::cuda_index() const {
    const std::string name = info().name, prefix = "cuda";
    if (is_cpu_ || name.rfind(prefix, 0) != 0 || name.size() == prefix.size() ||
        name.find_first_not_of("0123456789", prefix.size()) != std::string::npos) {
        return std::nullopt;
    }
    return std::stoi(name.substr(prefix.size()));
}

void Backend::refuse_memory(const std::string &what, size_t bytes) const {
    const DeviceInfo device = info();
    std::string message = "device '" + device.name + "': no room for " + what;
    if (bytes > 0)
        message += ", which needs " + megabytes(bytes);
    throw DeviceError(message + free_memory(device) + ": " + memory_advice(device_));
}

std::vector<std::string> Backend::features() const {
    std::vector<std::string> result;
    auto get = reinterpret_cast<ggml_backend_get_features_t>(
        ggml_backend_reg_get_proc_address(registry_, "ggml_backend_get_features"));
    if (get == nullptr)
        return result;
    for (ggml_backend_feature *feature = get(registry_); feature->name != nullptr; ++feature) {
        result.push_back(std::string(feature->name) + "=" + feature->value);
    }
    return result;
}

ggml_backend_buffer_type_t Backend::default_buffer_type() const {
    return ggml_backend_get_default_buffer_type(backend_.get());
}

}  // namespace ggtts
