// Byte products with vpdpbusd: 16 rows x 4 columns of weights (unsigned) by 4 inputs (signed) in one
// instruction.
#include <immintrin.h>

#include <cstring>

#include "q8_kernels.hpp"

namespace ggtts::kernels {
namespace {

constexpr int64_t quads = q8_block / 4;

__m512i weights_of(const uint8_t *block, int64_t quad) {
    return _mm512_loadu_si512(block + q8_scale_bytes + quad * 64);
}

__m512 scales_of(const uint8_t *block) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(block)));
}

__m512i four_inputs(const int8_t *bytes) {
    int32_t value;
    std::memcpy(&value, bytes, sizeof(value));
    return _mm512_set1_epi32(value);
}

__mmask16 first_lanes(int64_t count) {
    return static_cast<__mmask16>(count >= 16 ? 0xffff : (1u << count) - 1u);
}

// One group of rows by `columns` columns: the sums of all columns stay in registers.
template <int columns>
void multiply_group(const uint8_t *packed, int64_t blocks, const int8_t *bytes, const Q8BlockScale *scales,
                    float *results, int64_t stride, __mmask16 lanes) {
    __m512 totals[columns];
#pragma GCC unroll 12
    for (int c = 0; c < columns; ++c) {
        totals[c] = _mm512_setzero_ps();
    }
    for (int64_t block = 0; block < blocks; ++block, packed += q8_packed_block_bytes) {
        __m512i sums[columns];
#pragma GCC unroll 12
        for (int c = 0; c < columns; ++c) {
            sums[c] = _mm512_set1_epi32(scales[c * blocks + block].offset);
        }
#pragma GCC unroll 8
        for (int64_t quad = 0; quad < quads; ++quad) {
            const __m512i weights = weights_of(packed, quad);
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                sums[c] = _mm512_dpbusd_epi32(
                    sums[c], weights, four_inputs(bytes + (c * blocks + block) * q8_block + quad * 4));
            }
        }
        const __m512 weight_scales = scales_of(packed);
#pragma GCC unroll 12
        for (int c = 0; c < columns; ++c) {
            const __m512 scale =
                _mm512_mul_ps(weight_scales, _mm512_set1_ps(scales[c * blocks + block].scale));
            totals[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[c]), scale, totals[c]);
        }
    }
#pragma GCC unroll 12
    for (int c = 0; c < columns; ++c) {
        _mm512_mask_storeu_ps(results + c * stride, lanes, totals[c]);
    }
}

// One column by `groups` groups of rows.
template <int groups>
void multiply_column(const uint8_t *packed, int64_t blocks, const int8_t *bytes, const Q8BlockScale *scales,
                     float *results, int64_t rows) {
    __m512 totals[groups];
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) {
        totals[g] = _mm512_setzero_ps();
    }
    for (int64_t block = 0; block < blocks; ++block) {
        __m512i sums[groups];
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) {
            sums[g] = _mm512_set1_epi32(scales[block].offset);
        }
#pragma GCC unroll 8
        for (int64_t quad = 0; quad < quads; ++quad) {
            const __m512i inputs = four_inputs(bytes + block * q8_block + quad * 4);
#pragma GCC unroll 4
            for (int g = 0; g < groups; ++g) {
                const uint8_t *from = packed + (g * blocks + block) * q8_packed_block_bytes;
                sums[g] = _mm512_dpbusd_epi32(sums[g], weights_of(from, quad), inputs);
            }
        }
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) {
            const __m512 weight_scales = scales_of(packed + (g * blocks + block) * q8_packed_block_bytes);
            const __m512 scale = _mm512_mul_ps(weight_scales, _mm512_set1_ps(scales[block].scale));
            totals[g] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[g]), scale, totals[g]);
        }
    }
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) {
        _mm512_mask_storeu_ps(results + g * 16, first_lanes(rows - g * 16), totals[g]);
    }
}

template <int columns>
void multiply_columns(const uint8_t *packed, int64_t blocks, const int8_t *bytes, const Q8BlockScale *scales,
                      int64_t wanted, float *results, int64_t stride, __mmask16 lanes) {
    if constexpr (columns > 0) {
        if (wanted == columns) {
            multiply_group<columns>(packed, blocks, bytes, scales, results, stride, lanes);
        } else {
            multiply_columns<columns - 1>(packed, blocks, bytes, scales, wanted, results, stride, lanes);
        }
    }
}

template <int groups>
void multiply_groups(const uint8_t *packed, int64_t wanted, int64_t blocks, const int8_t *bytes,
                     const Q8BlockScale *scales, float *results, int64_t rows) {
    if constexpr (groups > 0) {
        if (wanted == groups) {
            multiply_column<groups>(packed, blocks, bytes, scales, results, rows);
        } else {
            multiply_groups<groups - 1>(packed, wanted, blocks, bytes, scales, results, rows);
        }
    }
}

constexpr int columns_per_pass = 12;

}  // namespace

void q8_round_inputs(const float *inputs, int64_t blocks, int8_t *bytes, Q8BlockScale *scales) {
    for (int64_t block = 0; block < blocks; ++block, inputs += q8_block, bytes += q8_block) {
        const __m512 low = _mm512_loadu_ps(inputs), high = _mm512_loadu_ps(inputs + 16);
        const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
        const float scale = largest / 127.0f;
        const __m512 inverse = _mm512_set1_ps(scale > 0.0f ? 1.0f / scale : 0.0f);
        const __m512i low_bytes = _mm512_cvtps_epi32(_mm512_mul_ps(low, inverse));
        const __m512i high_bytes = _mm512_cvtps_epi32(_mm512_mul_ps(high, inverse));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(bytes), _mm512_cvtsepi32_epi8(low_bytes));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(bytes + 16), _mm512_cvtsepi32_epi8(high_bytes));
        scales[block] = {scale, -128 * _mm512_reduce_add_epi32(_mm512_add_epi32(low_bytes, high_bytes))};
    }
}

void q8_multiply_groups(const uint8_t *packed, int64_t groups, int64_t blocks, const int8_t *bytes,
                        const Q8BlockScale *scales, int64_t columns, float *results, int64_t stride,
                        int64_t rows) {
    if (columns == 1) {
        return multiply_groups<q8_groups_of_one_column>(packed, groups, blocks, bytes, scales, results, rows);
    }
    for (int64_t c = 0; c < columns; c += columns_per_pass) {
        const int64_t wanted = columns - c < columns_per_pass ? columns - c : columns_per_pass;
        multiply_columns<columns_per_pass>(packed, blocks, bytes + c * blocks * q8_block, scales + c * blocks,
                                           wanted, results + c * stride, stride, first_lanes(rows));
    }
}

}  // namespace ggtts::kernels
