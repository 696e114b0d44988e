#include "ggml_failures.hpp"

#include <ggml.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "logging.hpp"

namespace ggtts {

// What GGML said when it gave up.
struct LastWords {
    std::string what;     // "CUDA error: out of memory"
    std::string details;  // where that was, for whoever looks for the reason
    bool from_driver = false;

    bool lack_of_memory() const;
    std::string whole() const { return details.empty() ? what : what + " (" + details + ")"; }
};

namespace {

// Devices are the process's, and so are their failures.
struct FailedDevices {
    std::atomic<bool> any = false;
    std::mutex mutex;
    std::map<ggml_backend_dev_t, std::string> reasons;
};

FailedDevices &failed_devices() {
    static FailedDevices *devices = new FailedDevices;  // never destroyed: others go while the process ends
    return *devices;
}

thread_local GuardedCalls *guard_of_thread = nullptr;

void remember_failure(ggml_backend_dev_t device, const std::string &reason) {
    FailedDevices &failed = failed_devices();
    const std::lock_guard lock(failed.mutex);
    failed.reasons.emplace(device, reason);
    failed.any = true;
}

// Why a device has failed; empty when it has not.
std::string reason_of_failure(ggml_backend_dev_t device) {
    FailedDevices &failed = failed_devices();
    if (!failed.any)
        return {};
    const std::lock_guard lock(failed.mutex);
    const auto found = failed.reasons.find(device);
    return found == failed.reasons.end() ? std::string() : found->second;
}

// A backend of CUDA waits in its destructor for captured graphs of all cards, also of one that failed.
bool has_failed_neighbour(ggml_backend_dev_t device) {
    FailedDevices &failed = failed_devices();
    if (!failed.any || device == nullptr)
        return false;
    const std::lock_guard lock(failed.mutex);
    return std::any_of(failed.reasons.begin(), failed.reasons.end(), [device](const auto &entry) {
        return ggml_backend_dev_backend_reg(entry.first) == ggml_backend_dev_backend_reg(device);
    });
}

bool is_cpu(ggml_backend_dev_t device) {
    return ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU;
}

std::string subject(ggml_backend_dev_t device) {
    if (device == nullptr)
        return "GGML";
    std::string name = ggml_backend_dev_name(device);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return "device '" + name + "'";
}

// In one line; of "/where/it/was/built/file.cu:12" only the file is told.
std::string without_folders(const std::string &text) {
    std::istringstream words(text);
    std::string result, word;
    while (words >> word) {
        const size_t slash = word.find_last_of("/\\"), colon = word.find(':', slash);
        const bool is_place = slash != std::string::npos && colon != std::string::npos &&
                              colon + 1 < word.size() && std::isdigit(word[colon + 1]);
        result += (result.empty() ? "" : " ") + (is_place ? word.substr(slash + 1) : word);
    }
    return result;
}

// `errors` are lines that GGML logged before, the driver's reason ("CUDA error: ...") among others.
LastWords last_words(const char *message, std::vector<std::string> errors) {
    LastWords words;
    const auto reason = std::find_if(errors.rbegin(), errors.rend(), is_error_of_driver);
    words.from_driver = reason != errors.rend();
    words.what = words.from_driver ? *reason : without_folders(message);
    if (words.from_driver)
        errors.erase(std::prev(reason.base()));
    for (const std::string &error : errors)
        words.details += (words.details.empty() ? "" : "; ") + without_folders(error);
    return words;
}

}  // namespace

// In the words of the CUDA runtime and its driver, of cuBLAS, and of Vulkan.
bool LastWords::lack_of_memory() const {
    constexpr std::string_view known[] = {"out of memory", "ALLOC_FAILED", "resource allocation failed",
                                          "OutOfDeviceMemory", "OutOfHostMemory"};
    return from_driver && std::any_of(std::begin(known), std::end(known), [this](std::string_view phrase) {
               return what.find(phrase) != std::string::npos;
           });
}

bool has_failed(ggml_backend_dev_t device) {
    return !reason_of_failure(device).empty();
}

std::string memory_advice(ggml_backend_dev_t device) {
    const std::string advice = "take a smaller model or a quantised file";
    return advice + (device == nullptr || is_cpu(device) ? "" : ", or the CPU (--device cpu)");
}

void catch_failures_of_ggml() {
    ggml_set_abort_callback(GuardedCalls::give_up);
}

// GGML ends the process when this returns.
void GuardedCalls::give_up(const char *message) {
    const LastWords words = last_words(message, take_kept_errors());
    // While an exception is on its way, another one would end the process without a word.
    if (guard_of_thread != nullptr && std::uncaught_exceptions() == guard_of_thread->exceptions_)
        guard_of_thread->fail(words);
    std::fprintf(stderr, "ggtts: GGML gave up: %s\n", words.whole().c_str());
    std::fflush(stderr);
}

void GuardedCalls::fail(const LastWords &words) {
    const std::string begin = subject(device_) + ": ";
    if (words.lack_of_memory()) {
        lacked_memory_ = true;
        throw DeviceError(begin + "it ran out of memory (" + words.what + "): do less at a time, " +
                          memory_advice(device_));
    }
    // Assertions leave the CPU's memory, which is all that it has, as it was.
    if (device_ != nullptr && (words.from_driver || !is_cpu(device_)))
        remember_failure(device_, words.what);
    throw DeviceError(begin + words.whole());
}

// Only drivers have error codes of their own: those of the system concern no device.
void GuardedCalls::rethrow() {
    try {
        throw;
    } catch (const DeviceError &) {
        throw;
    } catch (const FileError &) {
        throw;
    } catch (const std::system_error &error) {
        const std::error_category &category = error.code().category();
        if (category == std::generic_category() || category == std::system_category())
            throw;
        take_kept_errors();
        fail({error.what(), "", true});
    } catch (const std::runtime_error &error) {
        take_kept_errors();
        fail({error.what(), "", false});
    }
}

GuardedCalls::GuardedCalls(ggml_backend_dev_t device, ggml_backend_t backend)
    : device_(device), backend_(backend), outer_(guard_of_thread), exceptions_(std::uncaught_exceptions()) {
    const std::string reason = device == nullptr ? std::string() : reason_of_failure(device);
    if (!reason.empty())
        throw DeviceError(subject(device) + " failed before: " + reason);
    guard_of_thread = this;
}

// A graph that was being captured stays so: then the backend cannot do anything else any more.
GuardedCalls::~GuardedCalls() {
    if (lacked_memory_ && backend_ != nullptr)
        examine(device_, backend_);
    guard_of_thread = outer_;
}

UnguardedCalls::UnguardedCalls() : outer_(std::exchange(guard_of_thread, nullptr)) {}

UnguardedCalls::~UnguardedCalls() {
    guard_of_thread = outer_;
}

void examine(ggml_backend_dev_t device, ggml_backend_t backend) {
    try {
        guarded(device, nullptr, [backend] { ggml_backend_synchronize(backend); });
    } catch (const std::exception &error) {
        if (has_failed(device))
            return;
        const std::string reason = error.what(), begin = subject(device) + ": ";
        remember_failure(device, reason.starts_with(begin) ? reason.substr(begin.size()) : reason);
    }
}

// Where a device has failed that nobody has asked since, this is the last moment to find out.
bool LetGo::can_give_back() const {
    if (has_failed(device_))
        return false;
    if (device_ == nullptr || is_cpu(device_))
        return true;
    try {
        guarded(device_, nullptr, [this] { ggml_backend_event_free(ggml_backend_event_new(device_)); });
    } catch (const std::exception &) {
        return !has_failed(device_);
    }
    return true;
}

// A destructor must not throw: what GGML throws here is known when the device is asked for something next.
template <class Object>
void LetGo::give_back(void (*free)(Object *), Object *object) const {
    if (!can_give_back())
        return;
    const UnguardedCalls unguarded;
    try {
        free(object);
    } catch (const std::runtime_error &error) {
        if (device_ != nullptr)
            remember_failure(device_, error.what());
    }
}

void LetGo::operator()(ggml_backend_t backend) const {
    if (!has_failed_neighbour(device_))
        give_back(ggml_backend_free, backend);
}

void LetGo::operator()(ggml_backend_buffer_t buffer) const {
    give_back(ggml_backend_buffer_free, buffer);
}

void LetGo::operator()(ggml_gallocr_t allocator) const {
    give_back(ggml_gallocr_free, allocator);
}

}  // namespace ggtts
