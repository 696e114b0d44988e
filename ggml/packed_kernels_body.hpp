// The inner loops of packed products over vectors of 16 lanes, one for each row of a group. Included once for
// each instruction set, in a file that defines `Lanes`:
//
//   Floats, Integers, Bytes     16 float32, 16 int32, 16 x 4 bytes
//   bytes, halves, steps, signed_steps        read [row][4] bytes, 16 half-precision numbers, 16 bytes
//   low_half, high_half, bits   the bits of weights below 8
//   add_products<format>        adds the products of four columns to 16 integers
//   columns_per_pass            as many columns as registers hold
//   columns_of_pair<format>     up to how many it is a gain to multiply two groups of rows at once, or 0
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

template <PackedFormat format>
constexpr bool starts_at_zero = packed_layout(format).bias == 0;

int32_t four_inputs(const int8_t *bytes) {
    int32_t value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
}

// Weights are one stream of bytes from begin to end, or two where two groups are multiplied at once. Without
// this, eight columns took three to four times as long as one, since a processor's own prefetching falls
// behind; with it, less than twice.
constexpr int64_t bytes_ahead = 8192;

template <PackedFormat format>
void fetch(const uint8_t *weights) {
    constexpr int64_t size = packed_layout(format).block_bytes;
#pragma GCC unroll 8
    for (int64_t line = 0; line < size; line += 64) {
        __builtin_prefetch(weights + line);
    }
}

// `groups` groups of rows by `columns` columns. The sums of a block stay in registers, and an input that is
// read serves all groups.
template <PackedFormat format, int groups, int columns>
class GroupProduct {
public:
    GroupProduct(const PackedProduct &product, int64_t first_group, int64_t first_column)
        : product_(product),
          blocks_(product.blocks),
          first_group_(first_group),
          first_column_(first_column),
          bytes_(product.bytes + first_column * blocks_ * packed_columns),
          inputs_(product.inputs + first_column * blocks_) {}

    [[gnu::always_inline]] void compute() const {
        Totals totals;
        // This is inlined, and all loops over them are unrolled, or they and the pointers would be in memory:
        // hundreds of columns then take 8 % longer.
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                totals[g][c] = Lanes::floats(0.0f);
            }
        }
        for (int64_t block = 0; block < blocks_; ++block) {
            add_block(block, totals);
        }
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
            const int64_t row = (first_group_ + g) * packed_rows;
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                float *to = product_.results + (first_column_ + c) * product_.stride + row;
                Lanes::store(to, totals[g][c], product_.rows - row);
            }
        }
    }

private:
    using Totals = Floats[groups][columns];
    using Weights = Block<format>;

    Weights weights_of(int g, int64_t block) const {
        const uint8_t *group = product_.packed + (first_group_ + g) * product_.group_bytes;
        const Weights weights{block_at<format>(group, block, blocks_)};
        constexpr int64_t block_bytes = packed_layout(format).block_bytes;
        constexpr int64_t ahead = bytes_ahead / groups / block_bytes * block_bytes;
        // Behind the last block of a group comes the group after those that are multiplied with it.
        const int64_t left = (blocks_ - block) * block_bytes;
        fetch<format>(weights.at.weights + ahead + (ahead < left ? 0 : (groups - 1) * product_.group_bytes));
        return weights;
    }

    [[gnu::always_inline]] void add_block(int64_t block, Totals &totals) const {
        constexpr int64_t parts = packed_layout(format).scales_per_block;
        Weights weights[groups];
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
            weights[g] = weights_of(g, block);
        }
#pragma GCC unroll 2
        for (int64_t part = 0; part < parts; ++part) {
            add_part(block, part, weights, totals);
        }
        if constexpr (has_minimum<format>) {
#pragma GCC unroll 2
            for (int g = 0; g < groups; ++g) {
                const Floats minimum = weights[g].minimum();
#pragma GCC unroll 12
                for (int c = 0; c < columns; ++c) {
                    totals[g][c] = Lanes::subtract_product(totals[g][c], minimum,
                                                           inputs_[c * blocks_ + block].scaled_sum);
                }
            }
        }
    }

    [[gnu::always_inline]] void add_part(int64_t block, int64_t part, const Weights (&weights)[groups],
                                         Totals &totals) const {
        constexpr int64_t quads = packed_quads / packed_layout(format).scales_per_block;
        Integers sums[groups][columns];
#pragma GCC unroll 12
        for (int c = 0; c < columns; ++c) {
            const int32_t start = starts_at_zero<format> ? 0 : inputs_[c * blocks_ + block].start[part];
#pragma GCC unroll 2
            for (int g = 0; g < groups; ++g) {
                sums[g][c] = Lanes::integers(start);
            }
        }
#pragma GCC unroll 8
        for (int64_t quad = part * quads; quad < (part + 1) * quads; ++quad) {
            Bytes four_columns[groups];
#pragma GCC unroll 2
            for (int g = 0; g < groups; ++g) {
                four_columns[g] = weights[g].weights(quad);
            }
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                const int8_t *from = bytes_ + (c * blocks_ + block) * packed_columns + quad * 4;
#pragma GCC unroll 2
                for (int g = 0; g < groups; ++g) {
                    sums[g][c] = Lanes::add_products<format>(sums[g][c], four_columns[g], four_inputs(from));
                }
            }
        }
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
            const Floats weight_scales = weights[g].scale(part);
#pragma GCC unroll 12
            for (int c = 0; c < columns; ++c) {
                const Floats scale =
                    Lanes::multiply(weight_scales, Lanes::floats(inputs_[c * blocks_ + block].scale));
                totals[g][c] = Lanes::add_scaled(totals[g][c], sums[g][c], scale);
            }
        }
    }

    const PackedProduct &product_;
    int64_t blocks_, first_group_, first_column_;
    const int8_t *bytes_;
    const InputBlock *inputs_;
};

// At most so many columns.
template <PackedFormat format, int groups, int columns>
void multiply_columns(const PackedProduct &product, int64_t group, int64_t first, int64_t wanted) {
    if constexpr (columns > 0) {
        if (wanted == columns) {
            GroupProduct<format, groups, columns>(product, group, first).compute();
        } else {
            multiply_columns<format, groups, columns - 1>(product, group, first, wanted);
        }
    }
}

template <PackedFormat format>
void multiply(const PackedProduct &product) {
    constexpr int of_pair = Lanes::columns_of_pair<format>, at_once = Lanes::columns_per_pass;
    int64_t group = 0;
    // One column takes as long as its weights take to come.
    if (product.columns > 1 && product.columns <= of_pair) {
        for (; group + 2 <= product.groups; group += 2) {
            multiply_columns<format, 2, of_pair>(product, group, 0, product.columns);
        }
    }
    for (; group < product.groups; ++group) {
        for (int64_t c = 0; c < product.columns; c += at_once) {
            const int64_t left = product.columns - c;
            multiply_columns<format, 1, at_once>(product, group, c, left < at_once ? left : at_once);
        }
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
