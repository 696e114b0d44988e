// Failures that Python turns into its own exceptions (core/engine/failures.py).
#pragma once

#include <stdexcept>
#include <string>

namespace ggtts {

// A file that cannot be used as a model: missing, truncated, or not GGUF at all.
struct FileError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A device that is missing, out of memory, or that failed while computing.
struct DeviceError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace ggtts
