#include "logging.hpp"

#include <ggml.h>

#include <mutex>

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

LogLevel level_of(ggml_log_level level, LogLevel previous) {
    switch (level) {
        case GGML_LOG_LEVEL_DEBUG:
            return LogLevel::debug;
        case GGML_LOG_LEVEL_WARN:
            return LogLevel::warning;
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
    LogSink sink;
    std::string line;
    LogLevel line_level;
    {
        std::lock_guard lock(state.mutex);
        state.level = level_of(level, state.level);
        state.line += text;
        if (state.line.empty() || state.line.back() != '\n')
            return;
        state.line.pop_back();
        line.swap(state.line);
        line_level = state.level;
        sink = state.sink;
    }
    if (sink && !line.empty())
        sink(line_level, line);
}

}  // namespace

ErrorsAre::ErrorsAre(LogLevel level) : before_(level_of_errors) {
    level_of_errors = level;
}

ErrorsAre::~ErrorsAre() {
    level_of_errors = before_;
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
