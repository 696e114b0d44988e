// The inner loops of q8_matrix.cpp and the layout they read.
#pragma once

#include <cstdint>

namespace ggtts::kernels {

inline constexpr int64_t q8_block = 32;
inline constexpr int64_t q8_stored_block_bytes = 34;
inline constexpr int64_t q8_scale_bytes = 32;
inline constexpr int64_t q8_packed_block_bytes = q8_scale_bytes + 16 * q8_block;
// With one column, so many groups of 16 rows are worked on at once, to hide the latency of the instructions.
inline constexpr int64_t q8_groups_of_one_column = 4;

struct Q8BlockScale {
    float scale;
    int32_t offset;  // -128 times the sum of the block: undoes the shift of the weights
};

// Blocks of 32 float32 inputs as bytes.
void q8_round_inputs(const float *inputs, int64_t blocks, int8_t *bytes, Q8BlockScale *scales);

// `groups` neighbouring groups of 16 rows times all columns; more than one group only for one column. Of the
// results [columns, stride], `rows` are written.
void q8_multiply_groups(const uint8_t *packed, int64_t groups, int64_t blocks, const int8_t *bytes,
                        const Q8BlockScale *scales, int64_t columns, float *results, int64_t stride,
                        int64_t rows);

}  // namespace ggtts::kernels
