// The inner loops of packed products over vectors of 16 lanes, one for each row of a group. Included once for
// each instruction set, in a file that defines `Lanes`:
//
//   Floats, Integers, Bytes     16 float32, 16 int32, 16 x 4 bytes
//   bytes, halves, steps, signed_steps        read [row][4] bytes, 16 half-precision numbers, 16 bytes
//   low_half, high_half, bits   the bits of weights below 8
//   add_products<format>        adds the products of four columns to 16 integers
//   columns_per_pass            as many columns as registers hold
//
// All instruction sets do the same operations in the same order, so they give the same bits.
#include <cstring>

#include "packed_kernels.hpp"

namespace ggtts::kernels {
namespace {

using Floats = Lanes::Floats;
using Integers = Lanes::Integers;
using Bytes = Lanes::Bytes;

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
Bytes low_bits(const uint8_t *block, int64_t quad) {
    const Bytes both = Lanes::bytes(block + quad % 4 * 64);
    return quad < 4 ? Lanes::low_half(both) : Lanes::high_half(both);
}

template <PackedFormat>
struct Block;

template <>
struct Block<PackedFormat::q8_0> {
    Location at;

    Bytes weights(int64_t quad) const { return Lanes::bytes(at.weights + quad * 64); }
    Floats scale(int64_t) const { return Lanes::halves(at.head); }
};

struct BlockWithMinimum {
    Location at;

    Floats scale(int64_t) const { return Lanes::multiply(Lanes::halves(at.head), Lanes::steps(at.scales)); }
    Floats minimum() const {
        return Lanes::multiply(Lanes::halves(at.head + 32), Lanes::steps(at.scales + packed_rows));
    }
};

template <>
struct Block<PackedFormat::q4_k> : BlockWithMinimum {
    Bytes weights(int64_t quad) const { return low_bits(at.weights, quad); }
};

template <>
struct Block<PackedFormat::q5_k> : BlockWithMinimum {
    // The fifth bits of all quads share a byte, one bit for each quad.
    Bytes weights(int64_t quad) const {
        const Bytes fifth = Lanes::bits(Lanes::bytes(at.weights + 256), 4 - static_cast<int>(quad), 0x10);
        return Lanes::either(low_bits(at.weights, quad), fifth);
    }
};

template <>
struct Block<PackedFormat::q6_k> {
    Location at;

    // The upper two bits of four quads share a byte.
    Bytes weights(int64_t quad) const {
        const Bytes upper = Lanes::bits(Lanes::bytes(at.weights + 256 + quad / 4 * 64),
                                        4 - 2 * static_cast<int>(quad % 4), 0x30);
        return Lanes::either(low_bits(at.weights, quad), upper);
    }
    Floats scale(int64_t part) const {
        return Lanes::multiply(Lanes::halves(at.head), Lanes::signed_steps(at.scales + part * packed_rows));
    }
};

template <PackedFormat format>
constexpr bool has_minimum = format == PackedFormat::q4_k || format == PackedFormat::q5_k;

int32_t four_inputs(const int8_t *bytes) {
    int32_t value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
}

// Rows of 16 are one stream of bytes from begin to end. Without this, eight columns took three to four times
// as long as one, since a processor's own prefetching falls behind; with it, 1.3 (Q8_0) to 2.1 times (Q4_K).
constexpr int64_t bytes_ahead = 8192;

template <PackedFormat format>
void fetch_ahead(const uint8_t *weights) {
    constexpr int64_t size = packed_layout(format).block_bytes;
#pragma GCC unroll 8
    for (int64_t line = 0; line < size; line += 64) {
        __builtin_prefetch(weights + bytes_ahead + line);
    }
}

// One group of rows by `columns` columns: the sums of all columns stay in registers.
template <PackedFormat format, int columns>
void multiply_group(const PackedProduct &product, int64_t first) {
    constexpr int64_t parts = packed_layout(format).scales_per_block, quads = packed_quads / parts;
    const int64_t blocks = product.blocks;
    const int8_t *bytes = product.bytes + first * blocks * packed_columns;
    const InputBlock *inputs = product.inputs + first * blocks;
    Floats totals[columns];
#pragma GCC unroll 12
    for (int c = 0; c < columns; ++c) {
        totals[c] = Lanes::floats(0.0f);
    }
    for (int64_t block = 0; block < blocks; ++block) {
        const Block<format> weights{block_at<format>(product.packed, block, blocks)};
        fetch_ahead<format>(weights.at.weights);
#pragma GCC unroll 2
        for (int64_t part = 0; part < parts; ++part) {
            Integers sums[columns];
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                sums[c] = Lanes::integers(inputs[c * blocks + block].start[part]);
            }
#pragma GCC unroll 8
            for (int64_t quad = part * quads; quad < (part + 1) * quads; ++quad) {
                const Bytes four_columns = weights.weights(quad);
#pragma GCC unroll 12
                for (int c = 0; c < columns; ++c) {
                    const int8_t *from = bytes + (c * blocks + block) * packed_columns + quad * 4;
                    sums[c] = Lanes::add_products<format>(sums[c], four_columns, four_inputs(from));
                }
            }
            const Floats weight_scales = weights.scale(part);
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                const Floats scale =
                    Lanes::multiply(weight_scales, Lanes::floats(inputs[c * blocks + block].scale));
                totals[c] = Lanes::add_scaled(totals[c], sums[c], scale);
            }
        }
        if constexpr (has_minimum<format>) {
            const Floats minimum = weights.minimum();
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                totals[c] =
                    Lanes::subtract_product(totals[c], minimum, inputs[c * blocks + block].scaled_sum);
            }
        }
    }
#pragma GCC unroll 12
    for (int c = 0; c < columns; ++c) {
        Lanes::store(product.results + (first + c) * product.stride, totals[c], product.rows);
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

template <PackedFormat format>
void multiply(const PackedProduct &product) {
    for (int64_t c = 0; c < product.columns; c += Lanes::columns_per_pass) {
        const int64_t left = product.columns - c;
        multiply_columns<format, Lanes::columns_per_pass>(
            product, c, left < Lanes::columns_per_pass ? left : Lanes::columns_per_pass);
    }
}

void multiply_rows(PackedFormat format, const PackedProduct &product) {
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

void round_inputs(const float *inputs, int64_t blocks, PackedFormat format, int8_t *bytes,
                  InputBlock *rounded) {
    const PackedLayout layout = packed_layout(format);
    const int32_t bias = format == PackedFormat::q8_0 && Lanes::q8_0_is_signed ? 0 : layout.bias;
    for (int64_t block = 0; block < blocks; ++block, inputs += packed_columns, bytes += packed_columns) {
        const float scale = Lanes::largest_magnitude(inputs) / 127.0f;
        int32_t sums[2];  // of the first and the second 16 inputs
        Lanes::round(inputs, scale > 0.0f ? 1.0f / scale : 0.0f, bytes, sums);
        const int32_t sum = sums[0] + sums[1];
        const bool two = layout.scales_per_block == 2;
        rounded[block] = {
            scale, scale * static_cast<float>(sum), {-bias * (two ? sums[0] : sum), -bias * sums[1]}};
    }
}

}  // namespace
}  // namespace ggtts::kernels
