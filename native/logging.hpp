// GGML's log, handed to whoever asked for it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ggtts {

enum class LogLevel { debug = 10, info = 20, warning = 30, error = 40 };

using LogSink = std::function<void(LogLevel, const std::string &)>;

// Replaces the receiver of GGML's log lines; an empty function silences them.
void set_log_sink(LogSink sink);

// While there is one, what GGML calls errors in this thread are lines of that level, and warnings are none of
// a higher one: whoever has it finds out and tells what failed, or goes on without it.
class ErrorsAre {
public:
    explicit ErrorsAre(LogLevel level);
    ~ErrorsAre();
    ErrorsAre(const ErrorsAre &) = delete;
    ErrorsAre &operator=(const ErrorsAre &) = delete;

private:
    LogLevel before_;
};

// GGML tells in several lines why it gives up, which whoever hears that puts into one. So errors of a thread
// that may give up are kept until it says something else.

// While there is one, all errors of this thread may be such; elsewhere those are whose words say so.
class KeepsErrors {
public:
    KeepsErrors();
    ~KeepsErrors();
    KeepsErrors(const KeepsErrors &) = delete;
    KeepsErrors &operator=(const KeepsErrors &) = delete;

private:
    bool before_;
};

// Whether GGML gives up after this line, and lines behind it that are indented: "CUDA error: ...".
bool is_error_of_driver(const std::string &line);

// What was kept in this thread. Whoever asks tells it, so it is passed on only for those who look for
// reasons.
std::vector<std::string> take_kept_errors();

// Passes on what was kept in this thread.
void tell_kept_errors();

}  // namespace ggtts
