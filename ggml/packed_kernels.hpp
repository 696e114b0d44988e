// The inner loops of packed_matrix.cpp and the layout they read.
#pragma once

#include <cstdint>

namespace ggtts::kernels {

inline constexpr int64_t packed_rows = 16;     // rows that one vector holds
inline constexpr int64_t packed_columns = 32;  // columns with a scale of their own
// Weights are multiplied by inputs four columns at a time: a quad.
inline constexpr int64_t packed_quads = packed_columns / 4;
enum class PackedFormat { q8_0, q4_k, q5_k, q6_k };

// How 16 rows are stored: the heads of all spans, the scales of all blocks, the weights of all blocks. A head
// is 16 half-precision scales, and as many minima where the format has them. The scales of a block of 32
// columns are a byte for each row, and another for its minimum or for the scale of its second half. Weights
// are bytes [quad][row][4 columns]; formats of less than 8 bits keep the low halves of quad q and q + 4 in
// one byte, and the bits above them after that.
struct PackedLayout {
    int64_t span_columns;  // columns that share a head
    int64_t head_bytes;    // per span
    int64_t scale_bytes;   // per block
    int64_t block_bytes;   // the weights of a block
    int64_t stored_bytes;  // of a span of one row in GGML's layout
    int32_t bias;          // added to weights to make them unsigned
    int32_t scales_per_block;

    constexpr int64_t blocks() const { return span_columns / packed_columns; }
    // Where things begin in a group whose rows have that many blocks; weights lie on whole cache lines.
    constexpr int64_t scales_at(int64_t row_blocks) const { return row_blocks / blocks() * head_bytes; }
    constexpr int64_t weights_at(int64_t row_blocks) const {
        return (scales_at(row_blocks) + row_blocks * scale_bytes + 63) / 64 * 64;
    }
    constexpr int64_t group_bytes(int64_t row_blocks) const {
        return weights_at(row_blocks) + row_blocks * block_bytes;
    }
};

constexpr PackedLayout packed_layout(PackedFormat format) {
    switch (format) {
        case PackedFormat::q4_k:
            return {256, 64, 32, 256, 144, 0, 1};
        case PackedFormat::q5_k:
            return {256, 64, 32, 256 + 64, 176, 0, 1};
        case PackedFormat::q6_k:
            return {256, 32, 32, 256 + 128, 210, 32, 2};
        case PackedFormat::q8_0:
            break;
    }
    return {32, 32, 0, 512, 34, 128, 1};
}

// 32 inputs as bytes: what they have to be multiplied by, and what depends on their sum.
struct InputBlock {
    float scale;
    float scaled_sum;  // scale times the sum of the bytes: what a minimum is multiplied by
    // Minus the bias of the weights times the sum of the bytes that share a scale: undoes the shift.
    int32_t start[2];
};

// Groups of 16 rows times all columns.
struct PackedProduct {
    const uint8_t *packed;
    int64_t group_bytes, groups;
    int64_t blocks;  // of a row
    const int8_t *bytes;
    const InputBlock *inputs;
    int64_t columns;
    float *results;        // [columns, stride]
    int64_t stride, rows;  // how many rows are written
};

// One table per instruction set. All give the same bits.
struct PackedKernels {
    // Blocks of 32 float32 inputs as bytes, for weights of a format.
    void (*round_inputs)(const float *inputs, int64_t blocks, PackedFormat format, int8_t *bytes,
                         InputBlock *rounded);
    void (*multiply_groups)(PackedFormat format, const PackedProduct &product);
};

#ifdef GGTTS_X86_KERNELS
extern const PackedKernels avx512vnni_packed_kernels;
extern const PackedKernels avxvnni_packed_kernels;
extern const PackedKernels avx2_packed_kernels;
#elif defined(GGTTS_ARM_KERNELS)
extern const PackedKernels neon_packed_kernels;
#endif

}  // namespace ggtts::kernels
