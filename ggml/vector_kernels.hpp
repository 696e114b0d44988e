// The inner loops of convolution and snake, one table per instruction set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ggtts::kernels {

// The weights of some outputs as a checkpoint stores them: that of output r, input i and tap k is at
// values[r * row + i * taps + k].
struct StoredPanel {
    const void *values;
    int type;  // of GGML: float32, float16 or bfloat16
    int64_t row;
    int64_t outputs, inputs, taps;
};

// y[r][0 .. panel_width) = start[..] + sum_i x[r][i] * panel[i][..] + added[r][..], for i < depth. Strides in
// floats; y_stride is that of `added` too.
struct PanelProduct {
    const float *x;
    int64_t x_stride;
    const float *panel;
    int64_t depth;
    const float *start;  // null: what y has
    const float *added;  // null: nothing
    float *y;
    int64_t y_stride;
};

// Products of pairs of tiles; see minimal_filter.hpp. Rows of the three inputs are x_stride apart, rows of
// the results y_stride; `depth` inputs each.
struct PairProduct {
    const float *first, *both, *second;  // inputs
    int64_t x_stride;
    const float *panel;  // of the first half of the taps
    int64_t depth;
    const float *second_panel;  // of the second half; may be null: zeros
    float *first_result, *second_result;
    int64_t y_stride;
};

// One block of a convolution: `rows` samples x one panel of outputs, over a run of inputs of one tap.
struct VectorKernels {
    int64_t panel_width;  // outputs computed together
    int64_t max_rows;     // samples computed together

    // For r < rows <= max_rows.
    void (*multiply_panel)(const PanelProduct &product, int64_t rows);
    // y[r][..] = the sum over two runs of inputs, each `depth` long: those at x[r] with the first
    // weights of the panel, those at x[r] + apart with the next. Of the first run only if `apart` is 0.
    void (*multiply_runs)(const float *x, int64_t x_stride, int64_t apart, const float *panel, int64_t depth,
                          float *y, int64_t y_stride, int64_t rows);
    // first_result = both (panel + second_panel) + first panel, second_result = both (panel + second_panel) +
    // second second_panel, by rows and over the depth like the products above; rows <= max_rows.
    void (*multiply_pairs)(const PairProduct &product, int64_t rows);
    // y[r][0 .. exact_panel_width) += sum_i x[r][i] * panel[i][..], in float64.
    int64_t exact_panel_width;
    void (*multiply_exact_panel)(const double *x, int64_t x_stride, const double *panel, int64_t depth,
                                 double *y, int64_t y_stride, int64_t rows);
    // panel[k * inputs + i][r] = the weight of output r, input i, tap k as float32; zero where there is no
    // output.
    void (*pack_panel)(const StoredPanel &from, float *panel);
    // The transforms of minimal_filter.hpp. to[p * stride + i] of the rows[k][i], for i < count.
    void (*filter_inputs)(const float *const *rows, int64_t count, float *to, int64_t stride);
    // Of a pair of tiles, from 15 rows: the first less the second, the second, and the third less the second,
    // each `plane` behind the other.
    void (*filter_input_pairs)(const float *const *rows, int64_t count, float *to, int64_t stride,
                               int64_t plane);
    // rows[j][i] of the products[p * stride + i], plus bias[i], for i < panel_width.
    void (*filter_outputs)(const float *products, int64_t stride, const float *bias, float *const *rows);
    // sum + sum_i a[i] * b[i]
    float (*dot)(const float *a, const float *b, int64_t count, float sum);
    // y[i] = x[i] + sin^2(x[i] frequency[i]) magnitude[i]
    void (*snake)(const float *x, const float *frequency, const float *magnitude, float *y, int64_t count);
    // y[i] = x[i], of negative ones e^x[i] - 1
    void (*elu)(const float *x, float *y, int64_t count);
    // y[i] = x[i] (1 + erf(x[i] / sqrt(2))) / 2
    void (*gelu)(const float *x, float *y, int64_t count);
    // y[i] = gelu(x[i] scale[i] + shift[i])
    void (*scaled_gelu)(const float *x, const float *scale, const float *shift, float *y, int64_t count);
    // y[i] = (x[i] - mean) / sqrt(variance + epsilon) weight[i] + bias[i]; y may be x
    void (*normalise)(const float *x, const float *weight, const float *bias, float epsilon, float *y,
                      int64_t count);
    // x[i] = exp((x[i] - highest) scale), for x[i] <= highest and scale > 0; returns their sum
    float (*exponentials)(float *x, int64_t count, float highest, float scale);
};

// Instruction sets this processor can run, the best first; the last is "generic".
std::vector<std::string> instruction_sets();
// Throws std::invalid_argument for an unknown or unsupported name; "best" is the first of instruction_sets().
const VectorKernels &vector_kernels(const std::string &instruction_set);
const VectorKernels &best_vector_kernels();

extern const VectorKernels generic_kernels;
#ifdef GGTTS_X86_KERNELS
extern const VectorKernels avx2_kernels;
extern const VectorKernels avx512_kernels;
#elif defined(GGTTS_ARM_KERNELS)
extern const VectorKernels neon_kernels;
#endif

}  // namespace ggtts::kernels
