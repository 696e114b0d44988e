// A matrix product in float64 on the calling thread, for searches whose near ties float32 would decide by
// rounding.
#pragma once

#include <cstdint>

namespace ggtts::kernels {

struct VectorKernels;

// y[r, o] = sum over i of x[r, i] weights[o, i], for x [rows, inputs], weights [outputs, inputs], y [rows,
// outputs]. Every y is one sum in the order of i, whatever the other rows are.
void exact_product(const VectorKernels &kernels, const double *x, int64_t rows, const float *weights,
                   int64_t outputs, int64_t inputs, double *y);

}  // namespace ggtts::kernels
