// Failures of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace ggtts {

// Throws std::runtime_error, which says what failed.
inline void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        // An error that is not fatal would be reported again by the next call of somebody else.
        cudaGetLastError();
        throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
    }
}

}  // namespace ggtts
