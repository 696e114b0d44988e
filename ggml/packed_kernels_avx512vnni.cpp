// Byte products with vpdpbusd: 16 rows x 4 columns of weights (unsigned) by 4 inputs (signed) in one
// instruction.
#include <immintrin.h>

#include <cstring>

#include "packed_kernels.hpp"

namespace ggtts::kernels {
namespace {

__m512i bytes_at(const uint8_t *from) {
    return _mm512_loadu_si512(from);
}

__m512 halves_at(const uint8_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)));
}

__m128i row_bytes_at(const uint8_t *from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
}

// One block of 32 columns of 16 rows.
struct Location {
    const uint8_t *head, *scales, *weights;
};

template <PackedFormat format>
Location block_at(const uint8_t *group, int64_t block, int64_t row_blocks) {
    constexpr PackedLayout layout = packed_layout(format);
    return {group + block / layout.blocks() * layout.head_bytes,
            group + layout.scales_at(row_blocks) + block * layout.scale_bytes,
            group + layout.weights_at(row_blocks) + block * layout.block_bytes};
}

// The low four bits of the weights of a quad.
__m512i low_bits(const uint8_t *block, int64_t quad) {
    const __m512i both = bytes_at(block + quad % 4 * 64);
    return _mm512_and_si512(quad < 4 ? both : _mm512_srli_epi16(both, 4), _mm512_set1_epi8(0x0f));
}

template <PackedFormat>
struct Block;

template <>
struct Block<PackedFormat::q8_0> {
    Location at;

    __m512i weights(int64_t quad) const { return bytes_at(at.weights + quad * 64); }
    __m512 scale(int64_t) const { return halves_at(at.head); }
};

__m512 scaled(const uint8_t *halves, __m512i steps) {
    return _mm512_mul_ps(halves_at(halves), _mm512_cvtepi32_ps(steps));
}

struct BlockWithMinimum {
    Location at;

    __m512 scale(int64_t) const { return scaled(at.head, _mm512_cvtepu8_epi32(row_bytes_at(at.scales))); }
    __m512 minimum() const {
        return scaled(at.head + 32, _mm512_cvtepu8_epi32(row_bytes_at(at.scales + packed_rows)));
    }
};

template <>
struct Block<PackedFormat::q4_k> : BlockWithMinimum {
    __m512i weights(int64_t quad) const { return low_bits(at.weights, quad); }
};

template <>
struct Block<PackedFormat::q5_k> : BlockWithMinimum {
    // The fifth bits of all quads share a byte, one bit for each quad.
    __m512i weights(int64_t quad) const {
        const __m512i bits = bytes_at(at.weights + 256);
        const __m512i moved = quad < 4 ? _mm512_slli_epi16(bits, static_cast<unsigned>(4 - quad))
                                       : _mm512_srli_epi16(bits, static_cast<unsigned>(quad - 4));
        return _mm512_or_si512(low_bits(at.weights, quad), _mm512_and_si512(moved, _mm512_set1_epi8(0x10)));
    }
};

template <>
struct Block<PackedFormat::q6_k> {
    Location at;

    // The upper two bits of four quads share a byte.
    __m512i weights(int64_t quad) const {
        const __m512i bits = bytes_at(at.weights + 256 + quad / 4 * 64);
        const int64_t shift = 4 - 2 * (quad % 4);
        const __m512i moved = shift >= 0 ? _mm512_slli_epi16(bits, static_cast<unsigned>(shift))
                                         : _mm512_srli_epi16(bits, static_cast<unsigned>(-shift));
        return _mm512_or_si512(low_bits(at.weights, quad), _mm512_and_si512(moved, _mm512_set1_epi8(0x30)));
    }
    __m512 scale(int64_t part) const {
        return scaled(at.head, _mm512_cvtepi8_epi32(row_bytes_at(at.scales + part * packed_rows)));
    }
};

template <PackedFormat format>
constexpr bool has_minimum = format == PackedFormat::q4_k || format == PackedFormat::q5_k;

__m512i four_inputs(const int8_t *bytes) {
    int32_t value;
    std::memcpy(&value, bytes, sizeof(value));
    return _mm512_set1_epi32(value);
}

__mmask16 first_lanes(int64_t count) {
    return static_cast<__mmask16>(count >= 16 ? 0xffff : (1u << count) - 1u);
}

// One group of rows by `columns` columns: the sums of all columns stay in registers.
template <PackedFormat format, int columns>
void multiply_group(const PackedProduct &product, int64_t first) {
    constexpr int64_t parts = packed_layout(format).scales_per_block, quads = packed_quads / parts;
    const int64_t blocks = product.blocks;
    const int8_t *bytes = product.bytes + first * blocks * packed_columns;
    const InputBlock *inputs = product.inputs + first * blocks;
    __m512 totals[columns];
#pragma GCC unroll 12
    for (int c = 0; c < columns; ++c) {
        totals[c] = _mm512_setzero_ps();
    }
    for (int64_t block = 0; block < blocks; ++block) {
        const Block<format> weights{block_at<format>(product.packed, block, blocks)};
#pragma GCC unroll 2
        for (int64_t part = 0; part < parts; ++part) {
            __m512i sums[columns];
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                sums[c] = _mm512_set1_epi32(inputs[c * blocks + block].start[part]);
            }
#pragma GCC unroll 8
            for (int64_t quad = part * quads; quad < (part + 1) * quads; ++quad) {
                const __m512i four_columns = weights.weights(quad);
#pragma GCC unroll 12
                for (int c = 0; c < columns; ++c) {
                    sums[c] = _mm512_dpbusd_epi32(
                        sums[c], four_columns,
                        four_inputs(bytes + (c * blocks + block) * packed_columns + quad * 4));
                }
            }
            const __m512 weight_scales = weights.scale(part);
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                const __m512 scale =
                    _mm512_mul_ps(weight_scales, _mm512_set1_ps(inputs[c * blocks + block].scale));
                totals[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[c]), scale, totals[c]);
            }
        }
        if constexpr (has_minimum<format>) {
            const __m512 minimum = weights.minimum();
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                totals[c] = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(inputs[c * blocks + block].scaled_sum),
                                             totals[c]);
            }
        }
    }
    const __mmask16 lanes = first_lanes(product.rows);
#pragma GCC unroll 12
    for (int c = 0; c < columns; ++c) {
        _mm512_mask_storeu_ps(product.results + (first + c) * product.stride, lanes, totals[c]);
    }
}

// One column by `groups` groups of rows.
template <PackedFormat format, int groups>
void multiply_column(const PackedProduct &product) {
    constexpr PackedLayout layout = packed_layout(format);
    constexpr int64_t parts = layout.scales_per_block, quads = packed_quads / parts;
    const int64_t group_bytes = layout.group_bytes(product.blocks);
    const auto weights = [&](int64_t group, int64_t block) {
        return Block<format>{block_at<format>(product.packed + group * group_bytes, block, product.blocks)};
    };
    __m512 totals[groups];
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) {
        totals[g] = _mm512_setzero_ps();
    }
    for (int64_t block = 0; block < product.blocks; ++block) {
        const InputBlock &input = product.inputs[block];
#pragma GCC unroll 2
        for (int64_t part = 0; part < parts; ++part) {
            __m512i sums[groups];
#pragma GCC unroll 4
            for (int g = 0; g < groups; ++g) {
                sums[g] = _mm512_set1_epi32(input.start[part]);
            }
#pragma GCC unroll 8
            for (int64_t quad = part * quads; quad < (part + 1) * quads; ++quad) {
                const __m512i inputs = four_inputs(product.bytes + block * packed_columns + quad * 4);
#pragma GCC unroll 4
                for (int g = 0; g < groups; ++g) {
                    sums[g] = _mm512_dpbusd_epi32(sums[g], weights(g, block).weights(quad), inputs);
                }
            }
#pragma GCC unroll 4
            for (int g = 0; g < groups; ++g) {
                const __m512 scale =
                    _mm512_mul_ps(weights(g, block).scale(part), _mm512_set1_ps(input.scale));
                totals[g] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[g]), scale, totals[g]);
            }
        }
        if constexpr (has_minimum<format>) {
#pragma GCC unroll 4
            for (int g = 0; g < groups; ++g) {
                totals[g] = _mm512_fnmadd_ps(weights(g, block).minimum(), _mm512_set1_ps(input.scaled_sum),
                                             totals[g]);
            }
        }
    }
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) {
        _mm512_mask_storeu_ps(product.results + g * 16, first_lanes(product.rows - g * 16), totals[g]);
    }
}

template <PackedFormat format, int columns>
void multiply_columns(const PackedProduct &product, int64_t first, int64_t wanted) {
    if constexpr (columns > 0) {
        if (wanted == columns) {
            multiply_group<format, columns>(product, first);
        } else {
            multiply_columns<format, columns - 1>(product, first, wanted);
        }
    }
}

template <PackedFormat format, int groups>
void multiply_one_column(const PackedProduct &product) {
    if constexpr (groups > 0) {
        if (product.groups == groups) {
            multiply_column<format, groups>(product);
        } else {
            multiply_one_column<format, groups - 1>(product);
        }
    }
}

constexpr int columns_per_pass = 12;

template <PackedFormat format>
void multiply(const PackedProduct &product) {
    if (product.columns == 1) {
        return multiply_one_column<format, groups_of_one_column>(product);
    }
    for (int64_t c = 0; c < product.columns; c += columns_per_pass) {
        const int64_t left = product.columns - c;
        multiply_columns<format, columns_per_pass>(product, c,
                                                   left < columns_per_pass ? left : columns_per_pass);
    }
}

int32_t sum_of(__m512i values) {
    return _mm512_reduce_add_epi32(values);
}

}  // namespace

void round_inputs(const float *inputs, int64_t blocks, PackedFormat format, int8_t *bytes,
                  InputBlock *rounded) {
    const PackedLayout layout = packed_layout(format);
    for (int64_t block = 0; block < blocks; ++block, inputs += packed_columns, bytes += packed_columns) {
        const __m512 low = _mm512_loadu_ps(inputs), high = _mm512_loadu_ps(inputs + 16);
        const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
        const float scale = largest / 127.0f;
        const __m512 inverse = _mm512_set1_ps(scale > 0.0f ? 1.0f / scale : 0.0f);
        const __m512i low_bytes = _mm512_cvtps_epi32(_mm512_mul_ps(low, inverse));
        const __m512i high_bytes = _mm512_cvtps_epi32(_mm512_mul_ps(high, inverse));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(bytes), _mm512_cvtsepi32_epi8(low_bytes));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(bytes + 16), _mm512_cvtsepi32_epi8(high_bytes));
        InputBlock &result = rounded[block];
        if (layout.scales_per_block == 2) {
            const int32_t first = sum_of(low_bytes), second = sum_of(high_bytes);
            result = {scale, 0.0f, {-layout.bias * first, -layout.bias * second}};
        } else {
            const int32_t sum = sum_of(_mm512_add_epi32(low_bytes, high_bytes));
            result = {scale, scale * static_cast<float>(sum), {-layout.bias * sum, 0}};
        }
    }
}

void multiply_groups(PackedFormat format, const PackedProduct &product) {
    switch (format) {
        case PackedFormat::q8_0:
            return multiply<PackedFormat::q8_0>(product);
        case PackedFormat::q4_k:
            return multiply<PackedFormat::q4_k>(product);
        case PackedFormat::q5_k:
            return multiply<PackedFormat::q5_k>(product);
        case PackedFormat::q6_k:
            return multiply<PackedFormat::q6_k>(product);
    }
}

}  // namespace ggtts::kernels
