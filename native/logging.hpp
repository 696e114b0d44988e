// GGML's log, handed to whoever asked for it.
#pragma once

#include <functional>
#include <string>

namespace ggtts {

enum class LogLevel { debug = 10, info = 20, warning = 30, error = 40 };

using LogSink = std::function<void(LogLevel, const std::string &)>;

// Replaces the receiver of GGML's log lines; an empty function silences them.
void set_log_sink(LogSink sink);

// While there is one, what GGML calls errors in this thread are lines of that level: whoever has it finds out
// and tells what failed, or goes on without it.
class ErrorsAre {
public:
    explicit ErrorsAre(LogLevel level);
    ~ErrorsAre();
    ErrorsAre(const ErrorsAre &) = delete;
    ErrorsAre &operator=(const ErrorsAre &) = delete;

private:
    LogLevel before_;
};

}  // namespace ggtts
