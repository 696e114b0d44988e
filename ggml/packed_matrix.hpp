// Products with quantised matrices on processors that multiply bytes (AVX-512 VNNI, AVX-VNNI, AVX2, the dot
// products of ARM), with the weights laid out for them: Q8_0 and the K-quants of 4, 5 and 6 bits.
//
// A column of inputs is rounded to 8 bits in blocks of 32 with a scale each. GGML does the same for Q8_0,
// with a scale of half precision; for K-quants its blocks are of 256. Weights and their scales are exact.
// Each result is summed block by block in one order, so it does not depend on how many columns or threads
// there are.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "packed_kernels.hpp"

struct ggml_tensor;

namespace ggtts::kernels {

class PackedMatrix {
public:
    // The format for weights of a ggml_type `width` columns wide; nothing when this processor, the type or
    // the width has none.
    static std::optional<PackedFormat> format_here(int type, int64_t width);
    // What this processor can run, the best first; empty where there are no kernels for it.
    static std::vector<std::string> instruction_sets();

    // Throws std::invalid_argument for an instruction set that this processor lacks.
    PackedMatrix(PackedFormat format, int64_t rows, int64_t width, const std::string &instruction_set);

    // Takes memory for the weights, unless it has some. Throws std::bad_alloc.
    void allocate();
    // Takes `rows` rows of weights in GGML's layout, which become row `first_row` and following.
    // The first ones come first, and after `allocate`.
    void pack(int64_t first_row, int64_t rows, const void *stored);

    int64_t rows() const { return rows_; }
    int64_t width() const { return width_; }
    int64_t bytes() const { return groups() * group_bytes_; }
    int64_t groups() const { return (rows_ + packed_rows - 1) / packed_rows; }

    // Result rows [16 first_group, 16 last_group) of `columns` products: inputs [columns, width], results
    // [columns, rows].
    void multiply(const float *inputs, int64_t columns, float *results, int64_t first_group,
                  int64_t last_group) const;

private:
    struct Free {
        void operator()(uint8_t *bytes) const { ::operator delete[](bytes, alignment); }
    };
    static constexpr std::align_val_t alignment{64};

    const PackedKernels &kernels_;
    PackedFormat format_;
    int64_t rows_, width_, group_bytes_;
    std::unique_ptr<uint8_t[], Free> packed_;
};

// A GGML custom operation. Source: inputs f32 [width, columns]; result [rows, columns]; settings: a
// PackedMatrix.
void packed_product(ggml_tensor *result, int thread, int threads, void *matrix);

}  // namespace ggtts::kernels
