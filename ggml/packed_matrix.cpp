#include "packed_matrix.hpp"

#include <ggml.h>

#if defined(GGTTS_ARM_KERNELS) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace ggtts::kernels {
namespace {

#ifdef GGTTS_ARM_KERNELS
bool has_dot_products() {
#ifdef __linux__
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
    return true;  // all that Apple makes
#endif
}
#endif

struct InstructionSet {
    const char *name;
    const PackedKernels *kernels;
    bool present;
};

// The best first.
std::vector<InstructionSet> known_instruction_sets() {
#ifdef GGTTS_X86_KERNELS
    const bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    return {{"avx512vnni", &avx512vnni_packed_kernels, avx512 && __builtin_cpu_supports("avx512vnni")},
            {"avxvnni", &avxvnni_packed_kernels, avx2 && __builtin_cpu_supports("avxvnni")},
            {"avx2", &avx2_packed_kernels, avx2}};
#elif defined(GGTTS_ARM_KERNELS)
    return {{"neon", &neon_packed_kernels, has_dot_products()}};
#else
    return {};
#endif
}

const PackedKernels &kernels_of(const std::string &instruction_set) {
    for (const InstructionSet &known : known_instruction_sets()) {
        if (known.present && known.name == instruction_set) {
            return *known.kernels;
        }
    }
    throw std::invalid_argument("this processor has no kernels called '" + instruction_set + "'");
}

using Four = uint32_t;  // the weights of one row and four columns

Four four_at(const uint8_t *from) {
    Four value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

// One span of one row, taken from GGML's layout: the numbers that the kernels multiply.
struct RowSpan {
    std::array<uint8_t, 2> scale, minimum;  // half precision
    std::array<uint8_t, 16> block_scales;   // 8, or 16 for Q6_K
    std::array<uint8_t, 8> block_minima;    // of 8 blocks
    std::array<uint8_t, 256> weights;       // unsigned

    Four quad(int64_t block, int64_t quad) const {
        return four_at(weights.data() + block * packed_columns + quad * 4);
    }
};

RowSpan read_q8_0(const uint8_t *stored) {
    RowSpan span;
    std::memcpy(span.scale.data(), stored, 2);
    for (size_t i = 0; i < 32; ++i) {
        span.weights[i] = static_cast<uint8_t>(stored[2 + i] ^ 0x80u);  // + 128
    }
    return span;
}

// Scales and minima of 6 bits, twelve bytes for eight of each (struct block_q4_K of GGML).
void read_six_bit_scales(const uint8_t *packed, RowSpan &span) {
    for (size_t i = 0; i < 4; ++i) {
        span.block_scales[i] = packed[i] & 63u;
        span.block_minima[i] = packed[i + 4] & 63u;
        span.block_scales[i + 4] = static_cast<uint8_t>((packed[i + 8] & 0x0fu) | (packed[i] >> 6u) << 4u);
        span.block_minima[i + 4] = static_cast<uint8_t>(packed[i + 8] >> 4u | (packed[i + 4] >> 6u) << 4u);
    }
}

RowSpan read_q4_k(const uint8_t *stored) {
    RowSpan span;
    std::memcpy(span.scale.data(), stored, 2);
    std::memcpy(span.minimum.data(), stored + 2, 2);
    read_six_bit_scales(stored + 4, span);
    const uint8_t *halves = stored + 16;
    for (size_t pair = 0; pair < 4; ++pair) {
        for (size_t i = 0; i < 32; ++i) {
            span.weights[pair * 64 + i] = halves[pair * 32 + i] & 0x0fu;
            span.weights[pair * 64 + 32 + i] = halves[pair * 32 + i] >> 4u;
        }
    }
    return span;
}

RowSpan read_q5_k(const uint8_t *stored) {
    RowSpan span;
    std::memcpy(span.scale.data(), stored, 2);
    std::memcpy(span.minimum.data(), stored + 2, 2);
    read_six_bit_scales(stored + 4, span);
    const uint8_t *fifth_bits = stored + 16, *halves = stored + 48;
    for (size_t pair = 0; pair < 4; ++pair) {
        for (size_t i = 0; i < 32; ++i) {
            const unsigned bits = fifth_bits[i] >> (2 * pair);
            span.weights[pair * 64 + i] =
                static_cast<uint8_t>((halves[pair * 32 + i] & 0x0fu) | (bits & 1u) << 4u);
            span.weights[pair * 64 + 32 + i] =
                static_cast<uint8_t>(halves[pair * 32 + i] >> 4u | (bits >> 1u & 1u) << 4u);
        }
    }
    return span;
}

RowSpan read_q6_k(const uint8_t *stored) {
    RowSpan span;
    std::memcpy(span.block_scales.data(), stored + 192, 16);
    std::memcpy(span.scale.data(), stored + 208, 2);
    for (size_t half = 0; half < 2; ++half) {
        const uint8_t *low = stored + half * 64, *high = stored + 128 + half * 32;
        for (size_t quarter = 0; quarter < 4; ++quarter) {
            for (size_t i = 0; i < 32; ++i) {
                const unsigned both = low[quarter % 2 * 32 + i];
                const unsigned four = quarter < 2 ? both & 0x0fu : both >> 4u;
                const unsigned two = high[i] >> (2 * quarter) & 3u;
                span.weights[half * 128 + quarter * 32 + i] = static_cast<uint8_t>(four | two << 4u);
            }
        }
    }
    return span;
}

template <PackedFormat format>
RowSpan read_span(const uint8_t *stored) {
    if constexpr (format == PackedFormat::q4_k) {
        return read_q4_k(stored);
    } else if constexpr (format == PackedFormat::q5_k) {
        return read_q5_k(stored);
    } else if constexpr (format == PackedFormat::q6_k) {
        return read_q6_k(stored);
    } else {
        return read_q8_0(stored);
    }
}

// One row of the 16 of a group: where its numbers go.
template <PackedFormat format>
class Lane {
public:
    Lane(int64_t row_blocks, uint8_t *group, int64_t row)
        : scales_(group + layout.scales_at(row_blocks)),
          weights_(group + layout.weights_at(row_blocks)),
          group_(group),
          row_(row) {}

    void write(int64_t span, const RowSpan &from) const {
        uint8_t *head = group_ + span * layout.head_bytes;
        std::memcpy(head + row_ * 2, from.scale.data(), 2);
        if constexpr (layout.bias == 0) {
            std::memcpy(head + 32 + row_ * 2, from.minimum.data(), 2);
        }
        for (int64_t part = 0; part < layout.blocks(); ++part) {
            const int64_t block = span * layout.blocks() + part;
            if constexpr (format == PackedFormat::q8_0) {
                write_bytes(block, part, from);
            } else {
                write_scales(block, static_cast<size_t>(part), from);
                write_halves(block, part, from);
                write_upper_bits(block, part, from);
            }
        }
    }

private:
    void put(int64_t block, int64_t vector, Four value) const {
        std::memcpy(weights_ + block * layout.block_bytes + (vector * packed_rows + row_) * 4, &value,
                    sizeof(value));
    }
    void write_bytes(int64_t block, int64_t part, const RowSpan &from) const {
        for (int64_t quad = 0; quad < packed_quads; ++quad) {
            put(block, quad, from.quad(part, quad));
        }
    }
    void write_scales(int64_t block, size_t part, const RowSpan &from) const {
        uint8_t *scales = scales_ + block * layout.scale_bytes;
        const bool two_scales = layout.scales_per_block == 2;
        scales[row_] = from.block_scales[two_scales ? 2 * part : part];
        scales[packed_rows + row_] = two_scales ? from.block_scales[2 * part + 1] : from.block_minima[part];
    }
    void write_halves(int64_t block, int64_t part, const RowSpan &from) const {
        constexpr Four low = 0x0f0f0f0fu;
        for (int64_t quad = 0; quad < 4; ++quad) {
            put(block, quad, (from.quad(part, quad) & low) | (from.quad(part, quad + 4) & low) << 4u);
        }
    }
    void write_upper_bits(int64_t block, int64_t part, const RowSpan &from) const {
        if constexpr (format == PackedFormat::q5_k) {
            put(block, 4, gathered(from, part, 0, packed_quads, 1));
        } else if constexpr (format == PackedFormat::q6_k) {
            put(block, 4, gathered(from, part, 0, 4, 2));
            put(block, 5, gathered(from, part, 4, 8, 2));
        }
    }
    // The `bits` bits above the low four of each quad of a range, side by side in each byte.
    static Four gathered(const RowSpan &from, int64_t part, int64_t begin, int64_t end, int bits) {
        const Four mask = bits == 1 ? 0x01010101u : 0x03030303u;
        Four all = 0;
        for (int64_t quad = begin; quad < end; ++quad) {
            all |= (from.quad(part, quad) >> 4u & mask) << static_cast<unsigned>(bits * (quad - begin));
        }
        return all;
    }

    static constexpr PackedLayout layout = packed_layout(format);

    uint8_t *scales_, *weights_, *group_;
    int64_t row_;
};

// Rows [begin, end) of a group, from where they are stored.
template <PackedFormat format>
void pack_rows(const uint8_t *stored, int64_t width, int64_t begin, int64_t end, uint8_t *group) {
    constexpr PackedLayout layout = packed_layout(format);
    const int64_t spans = width / layout.span_columns;
    // Written in order, read from 16 rows at a time: reading along one row would scatter the writes.
    for (int64_t span = 0; span < spans; ++span) {
        for (int64_t row = begin; row < end; ++row) {
            const uint8_t *source = stored + ((row - begin) * spans + span) * layout.stored_bytes;
            Lane<format>(width / packed_columns, group, row % packed_rows)
                .write(span, read_span<format>(source));
        }
    }
}

using PackRows = decltype(&pack_rows<PackedFormat::q8_0>);

PackRows pack_rows_of(PackedFormat format) {
    switch (format) {
        case PackedFormat::q4_k:
            return pack_rows<PackedFormat::q4_k>;
        case PackedFormat::q5_k:
            return pack_rows<PackedFormat::q5_k>;
        case PackedFormat::q6_k:
            return pack_rows<PackedFormat::q6_k>;
        case PackedFormat::q8_0:
            break;
    }
    return pack_rows<PackedFormat::q8_0>;
}

}  // namespace

std::optional<PackedFormat> PackedMatrix::format_here(int type, int64_t width) {
    std::optional<PackedFormat> format;
    switch (type) {
        case GGML_TYPE_Q8_0:
            format = PackedFormat::q8_0;
            break;
        case GGML_TYPE_Q4_K:
            format = PackedFormat::q4_k;
            break;
        case GGML_TYPE_Q5_K:
            format = PackedFormat::q5_k;
            break;
        case GGML_TYPE_Q6_K:
            format = PackedFormat::q6_k;
            break;
        default:
            return {};
    }
    const bool fits = width % packed_layout(*format).span_columns == 0;
    static const bool usable = !instruction_sets().empty();
    return usable && fits ? format : std::nullopt;
}

std::vector<std::string> PackedMatrix::instruction_sets() {
    std::vector<std::string> names;
    for (const InstructionSet &known : known_instruction_sets()) {
        if (known.present) {
            names.emplace_back(known.name);
        }
    }
    return names;
}

PackedMatrix::PackedMatrix(PackedFormat format, int64_t rows, int64_t width,
                           const std::string &instruction_set)
    : kernels_(kernels_of(instruction_set)),
      format_(format),
      rows_(rows),
      width_(width),
      group_bytes_(packed_layout(format).group_bytes(width / packed_columns)) {}

void PackedMatrix::allocate() {
    if (packed_)
        return;
    packed_.reset(new (alignment) uint8_t[static_cast<size_t>(bytes())]);
    // The rows that the last group lacks are zero.
    std::fill_n(packed_.get() + bytes() - group_bytes_, group_bytes_, uint8_t{0});
}

void PackedMatrix::pack(int64_t first_row, int64_t rows, const void *stored) {
    const PackedLayout layout = packed_layout(format_);
    const int64_t row_bytes = width_ / layout.span_columns * layout.stored_bytes;
    const auto *from = static_cast<const uint8_t *>(stored);
    for (int64_t begin = first_row; begin < first_row + rows;) {
        const int64_t group = begin / packed_rows;
        const int64_t end = std::min((group + 1) * packed_rows, first_row + rows);
        pack_rows_of(format_)(from + (begin - first_row) * row_bytes, width_, begin, end,
                              packed_.get() + group * group_bytes_);
        begin = end;
    }
}

void PackedMatrix::multiply(const float *inputs, int64_t columns, float *results, int64_t first_group,
                            int64_t last_group) const {
    const int64_t blocks = width_ / packed_columns;
    std::vector<int8_t> bytes(static_cast<size_t>(columns * width_));
    std::vector<InputBlock> rounded(static_cast<size_t>(columns * blocks));
    kernels_.round_inputs(inputs, columns * blocks, format_, bytes.data(), rounded.data());
    const int64_t first_row = first_group * packed_rows;
    kernels_.multiply_groups(
        format_, {packed_.get() + first_group * group_bytes_, group_bytes_, last_group - first_group, blocks,
                  bytes.data(), rounded.data(), columns, results + first_row, rows_, rows_ - first_row});
}

void packed_product(ggml_tensor *result, int thread, int threads, void *userdata) {
    const auto &matrix = *static_cast<const PackedMatrix *>(userdata);
    const int64_t groups = matrix.groups();
    const int64_t begin = groups * thread / threads, end = groups * (thread + 1) / threads;
    if (begin < end) {
        matrix.multiply(static_cast<const float *>(result->src[0]->data), result->ne[1],
                        static_cast<float *>(result->data), begin, end);
    }
}

}  // namespace ggtts::kernels
