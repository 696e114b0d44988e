#include "logging.hpp"

#include <ggml.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace ggtts {
namespace {

// GGML's log is one per process, and so is its receiver.
struct LogState {
    std::mutex mutex;
    LogSink sink;
    LogLevel level = LogLevel::info;
    std::string line;
};

LogState &log_state() {
    static LogState *state = new LogState;  // never destroyed: GGML may log while the process ends
    return *state;
}

thread_local LogLevel level_of_errors = LogLevel::error;

struct Line {
    LogLevel level;
    std::string text;
};

thread_local bool keeps_errors = false;
thread_local std::vector<Line> kept_errors;

bool is_detail(const std::string &line) {
    return !line.empty() && line.front() == ' ';
}

void tell(const Line &line) {
    LogState &state = log_state();
    LogSink sink;
    {
        std::lock_guard lock(state.mutex);
        sink = state.sink;
    }
    if (sink && !line.text.empty())
        sink(line.level, line.text);
}

LogLevel level_of(ggml_log_level level, LogLevel previous) {
    switch (level) {
        case GGML_LOG_LEVEL_DEBUG:
            return LogLevel::debug;
        case GGML_LOG_LEVEL_WARN:
            return std::min(LogLevel::warning, level_of_errors);
        case GGML_LOG_LEVEL_ERROR:
            return level_of_errors;
        case GGML_LOG_LEVEL_CONT:
            return previous;
        default:
            return LogLevel::info;
    }
}

// GGML writes pieces of lines: whole lines are passed on.
void receive(ggml_log_level level, const char *text, void *) {
    LogState &state = log_state();
    Line line;
    {
        std::lock_guard lock(state.mutex);
        state.level = level_of(level, state.level);
        state.line += text;
        if (state.line.empty() || state.line.back() != '\n')
            return;
        state.line.pop_back();
        line.text.swap(state.line);
        line.level = state.level;
    }
    const bool follows = is_detail(line.text) && !kept_errors.empty();
    if (level == GGML_LOG_LEVEL_ERROR && (keeps_errors || follows || is_error_of_driver(line.text))) {
        kept_errors.push_back(std::move(line));
        return;
    }
    tell_kept_errors();
    tell(line);
}

}  // namespace

ErrorsAre::ErrorsAre(LogLevel level) : before_(level_of_errors) {
    level_of_errors = level;
}

ErrorsAre::~ErrorsAre() {
    level_of_errors = before_;
}

KeepsErrors::KeepsErrors() : before_(std::exchange(keeps_errors, true)) {}

KeepsErrors::~KeepsErrors() {
    keeps_errors = before_;
    if (!keeps_errors)
        tell_kept_errors();
}

bool is_error_of_driver(const std::string &line) {
    const size_t end = line.find(' ');
    return end != std::string::npos && end > 0 && line.compare(end, 8, " error: ") == 0;
}

std::vector<std::string> take_kept_errors() {
    std::vector<std::string> texts;
    for (Line &line : std::exchange(kept_errors, {})) {
        line.level = LogLevel::debug;
        tell(line);
        texts.push_back(std::move(line.text));
    }
    return texts;
}

void tell_kept_errors() {
    const std::vector<Line> kept = std::exchange(kept_errors, {});
    std::for_each(kept.begin(), kept.end(), tell);
}

void set_log_sink(LogSink sink) {
    LogState &state = log_state();
    {
        std::lock_guard lock(state.mutex);
        state.sink.swap(sink);  // the one before goes without the lock
    }
    ggml_log_set(receive, nullptr);
}

}  // namespace ggtts
