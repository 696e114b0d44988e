// Products with Q8_0 matrices on processors that multiply bytes (AVX-512 VNNI), with the weights laid out for
// them.
//
// A column of inputs is rounded to 8 bits in blocks of 32 with a scale each, as GGML does, but the scale
// keeps float32. Each result is summed block by block in one order, so it does not depend on how many columns
// or threads there are.
#pragma once

#include <cstdint>
#include <vector>

struct ggml_tensor;

namespace ggtts::kernels {

class Q8Matrix {
public:
    // Whether this processor has the instructions.
    static bool runs_here();

    // The width is a multiple of 32.
    Q8Matrix(int64_t rows, int64_t width) : rows_(rows), width_(width) {}
    // Takes the weights, `rows` rows of `width` in GGML's Q8_0 layout.
    void pack(const void *blocks);

    int64_t rows() const { return rows_; }
    int64_t width() const { return width_; }

    // Result rows [16 first_group, 16 last_group) of `columns` products: inputs [columns, width], results
    // [columns, rows].
    void multiply(const float *inputs, int64_t columns, float *results, int64_t first_group,
                  int64_t last_group) const;
    int64_t groups() const { return (rows_ + rows_per_group - 1) / rows_per_group; }

private:
    static constexpr int64_t rows_per_group = 16;

    int64_t rows_, width_;
    // Per group of 16 rows and block of 32 columns: 16 half-precision scales, then 8 x 16 x 4 weights, each
    // plus 128.
    std::vector<uint8_t> packed_;
};

// A GGML custom operation. Source: inputs f32 [width, columns]; result [rows, columns]; settings: a Q8Matrix.
void q8_product(ggml_tensor *result, int thread, int threads, void *matrix);

}  // namespace ggtts::kernels
