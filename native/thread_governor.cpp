#include "thread_governor.hpp"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace ggtts {
namespace {

// C's files: a process that holds two builds of the C++ library has crashed in the locales of its streams.
struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

double seconds_without_core(const std::string &name) {
    const File file(std::fopen(name.c_str(), "r"));
    uint64_t running = 0, waiting = 0;
    const bool found = file && std::fscanf(file.get(), "%" SCNu64 " %" SCNu64, &running, &waiting) == 2;
    return found ? static_cast<double>(waiting) * 1e-9 : 0.0;
}

// Whether this many threads, the calling one among them, would each find a core. True where the system does
// not say.
bool has_free_cores(int threads) {
    const File file(std::fopen("/proc/loadavg", "r"));
    int64_t running = 0;
    if (!file || std::fscanf(file.get(), "%*f %*f %*f %" SCNd64, &running) != 1) {
        return true;
    }
    return ::sysconf(_SC_NPROCESSORS_ONLN) - (running - 1) >= threads;
}

int calling_thread() {
#ifdef __linux__
    return static_cast<int>(::gettid());
#else
    return 0;
#endif
}

}  // namespace

std::vector<int> process_threads() {
    std::vector<int> ids;
    std::error_code error;
    std::filesystem::directory_iterator entry("/proc/self/task", error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        ids.push_back(std::stoi(entry->path().filename().string()));
    }
    return ids;
}

void ThreadGovernor::watch(const std::vector<int> &thread_ids) {
    for (const int id : thread_ids) {
        files_.push_back("/proc/self/task/" + std::to_string(id) + "/schedstat");
    }
}

int ThreadGovernor::threads_for_next_run(Clock::time_point now, int most) {
    most = std::min(most, threads_);
    if (most == 1 || files_.empty()) {
        return most;
    }
    if (now < single_until_) {
        return 1;
    }
    if (!trusts_machine_ && !has_free_cores(most)) {
        single_until_ =
            now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(first_pause));
        return 1;
    }
    trusts_machine_ = true;
    return most;
}

void ThreadGovernor::ran(int threads, Clock::time_point begin, Clock::time_point end) {
    if (threads <= 1 || files_.empty()) {
        return;
    }
    observed_ += std::chrono::duration<double>(end - begin).count();
    if (observed_ < observation_) {
        return;
    }
    double waited = seconds_without_core("/proc/thread-self/schedstat");
    for (const std::string &file : files_) {
        waited += seconds_without_core(file);
    }
    const int caller = static_cast<int>(calling_thread());
    const bool comparable = caller == last_caller_;
    const bool busy = comparable && waited - waited_before_ > busy_share * observed_;
    last_caller_ = caller;
    waited_before_ = waited;
    observed_ = 0.0;
    if (busy) {
        trusts_machine_ = false;
        observation_ = first_observation;
        single_until_ = end + std::chrono::duration_cast<Clock::duration>(pause_);
        pause_ = std::min(pause_ * 2.0, std::chrono::duration<double>(longest_pause));
    } else {
        pause_ = std::chrono::duration<double>(first_pause);
        observation_ = calm_observation;
    }
}

}  // namespace ggtts
