// The inner loops of convolution and snake, one table per instruction set.
#pragma once

#include <cstdint>

namespace ggtts::kernels {

// One block of a convolution: `rows` samples x one panel of outputs, over a run of inputs of one tap.
struct VectorKernels {
    int64_t panel_width;  // outputs computed together
    int64_t max_rows;     // samples computed together

    // y[r][0 .. panel_width) += sum_i x[r][i] * panel[i][..] for r < rows <= max_rows and i < depth. Strides
    // in floats.
    void (*multiply_panel)(const float *x, int64_t x_stride, const float *panel, int64_t depth, float *y,
                           int64_t y_stride, int64_t rows);
    // sum + sum_i a[i] * b[i]
    float (*dot)(const float *a, const float *b, int64_t count, float sum);
    // y[i] = x[i] + sin^2(x[i] frequency[i]) magnitude[i]
    void (*snake)(const float *x, const float *frequency, const float *magnitude, float *y, int64_t count);
    // x[i] = exp((x[i] - highest) scale), for x[i] <= highest and scale > 0; returns their sum
    float (*exponentials)(float *x, int64_t count, float highest, float scale);
};

extern const VectorKernels generic_kernels;
#ifdef GGTTS_X86_KERNELS
extern const VectorKernels avx2_kernels;
extern const VectorKernels avx512_kernels;
#elif defined(GGTTS_ARM_KERNELS)
extern const VectorKernels neon_kernels;
#endif

}  // namespace ggtts::kernels
