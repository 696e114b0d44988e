#include "exact_product.hpp"

#include <algorithm>
#include <vector>

#include "vector_kernels.hpp"

namespace ggtts::kernels {
namespace {

// [inputs, width] of `outputs` rows of weights; zero beyond them.
void pack(const float *weights, int64_t outputs, int64_t inputs, int64_t width, double *panel) {
    std::fill_n(panel, inputs * width, 0.0);
    for (int64_t output = 0; output < outputs; ++output) {
        for (int64_t i = 0; i < inputs; ++i) {
            panel[i * width + output] = weights[output * inputs + i];
        }
    }
}

}  // namespace

void exact_product(const VectorKernels &kernels, const double *x, int64_t rows, const float *weights,
                   int64_t outputs, int64_t inputs, double *y) {
    const int64_t width = kernels.exact_panel_width;
    std::vector<double> panel(static_cast<size_t>(inputs * width));
    std::vector<double> sums(static_cast<size_t>(kernels.max_rows * width));
    for (int64_t output = 0; output < outputs; output += width) {
        const int64_t present = std::min(width, outputs - output);
        pack(weights + output * inputs, present, inputs, width, panel.data());
        for (int64_t row = 0; row < rows; row += kernels.max_rows) {
            const int64_t count = std::min(kernels.max_rows, rows - row);
            std::fill(sums.begin(), sums.end(), 0.0);
            kernels.multiply_exact_panel(x + row * inputs, inputs, panel.data(), inputs, sums.data(), width,
                                         count);
            for (int64_t r = 0; r < count; ++r) {
                std::copy_n(sums.begin() + r * width, present, y + (row + r) * outputs + output);
            }
        }
    }
}

}  // namespace ggtts::kernels
