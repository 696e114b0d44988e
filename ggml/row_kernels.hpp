// Products of one vector with many rows of a cache, the inner loops of attention, for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ggtts::kernels {

struct RowKernels {
    // out[i] = dot(vector, row i) for `count` rows, `stride` bytes apart.
    void (*dots)(const float *vector, const char *rows, size_t stride, int64_t count, int64_t width,
                 float *out);
    // sum = sum_i weights[i] * row i
    void (*weighted_sum)(const float *weights, const char *rows, size_t stride, int64_t count, int64_t width,
                         float *sum);
};

// The best kernels this processor runs, for rows of float32 or of half precision.
const RowKernels &row_kernels(bool half_precision);
// The portable ones, for comparison.
const RowKernels &generic_row_kernels(bool half_precision);

}  // namespace ggtts::kernels
