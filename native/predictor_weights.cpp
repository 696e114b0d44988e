#include "predictor_weights.hpp"

#include <weight_types.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ggtts {
namespace {

using predictor::chunk_width;
using predictor::EightBits;
using predictor::lanes;
using predictor::rows_together;
using predictor::run_length;
using predictor::runs;

// A block of Q8_0 in a file: the scale as a half, 32 signed bytes.
constexpr int block_width = 32;
constexpr int block_bytes = 2 + block_width;

constexpr int run_width = lanes * run_length;

// The chunk of a row that begins at column `begin`, of plain numbers of `size` bytes.
void pack_plain(const uint8_t *row, int width, int begin, size_t size, uint8_t *chunk) {
    const size_t run_bytes = run_length * size, runs_per_piece = 16 / run_bytes;
    for (int run = 0; run < runs; ++run) {
        for (int lane = 0; lane < lanes; ++lane) {
            const int column = begin + run * run_width + lane * run_length;
            if (column >= width)
                return;
            const size_t piece = static_cast<size_t>(run) / runs_per_piece;
            const size_t place = (piece * lanes + static_cast<size_t>(lane)) * 16 +
                                 static_cast<size_t>(run) % runs_per_piece * run_bytes;
            std::memcpy(chunk + place, row + static_cast<size_t>(column) * size, run_bytes);
        }
    }
}

void pack_eight_bits(const uint8_t *row, int width, int begin, uint8_t *chunk) {
    for (int run = 0; run < runs; ++run) {
        for (int lane = 0; lane < lanes; ++lane) {
            const int column = begin + run * run_width + lane * run_length;
            if (column >= width)
                return;
            const uint8_t *block = row + column / block_width * block_bytes;
            std::memcpy(chunk + lane * 16 + run * run_length, block + 2 + column % block_width, run_length);
            std::memcpy(chunk + chunk_width + lane / 8 * 8 + run * 2, block, 2);
        }
    }
}

size_t chunk_bytes(ggml_type type) {
    return type == GGML_TYPE_Q8_0 ? EightBits::chunk_bytes : chunk_width * ggml_type_size(type);
}

void pack_row(ggml_type type, const uint8_t *row, int width, uint8_t *packed) {
    for (int chunk = 0; chunk < predictor::whole_chunks(width); ++chunk) {
        uint8_t *target = packed + static_cast<size_t>(chunk) * rows_together * chunk_bytes(type);
        if (type == GGML_TYPE_Q8_0)
            pack_eight_bits(row, width, chunk * chunk_width, target);
        else
            pack_plain(row, width, chunk * chunk_width, ggml_type_size(type), target);
    }
}

int64_t rows_of(const FileTensor &matrix) {
    return matrix.shape.size() > 1 ? matrix.shape[1] : 1;
}

}  // namespace

std::optional<predictor::WeightKind> weight_kind(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q8_0:
            return predictor::WeightKind::q8_0;
        case GGML_TYPE_F16:
            return predictor::WeightKind::f16;
        case GGML_TYPE_BF16:
            return predictor::WeightKind::bf16;
        case GGML_TYPE_F32:
            return predictor::WeightKind::f32;
        default:
            return std::nullopt;
    }
}

std::vector<uint8_t> pack_weights(const std::vector<const FileTensor *> &matrices, int width,
                                  bool interleaved) {
    const ggml_type type = matrices.front()->type;
    int64_t rows = 0;
    for (const FileTensor *matrix : matrices)
        rows += rows_of(*matrix);
    const int64_t groups = (rows + rows_together - 1) / rows_together;
    const size_t group_bytes =
        static_cast<size_t>(predictor::whole_chunks(width)) * rows_together * chunk_bytes(type);
    std::vector<uint8_t> packed(static_cast<size_t>(groups) * group_bytes);
    const size_t row_bytes = ggml_row_size(type, width);
    int64_t first = 0;
    for (size_t part = 0; part < matrices.size(); ++part) {
        const int64_t count = rows_of(*matrices[part]);
        for (int64_t row = 0; row < count; ++row) {
            const int64_t place =
                interleaved ? row * static_cast<int64_t>(matrices.size()) + static_cast<int64_t>(part)
                            : first + row;
            pack_row(type, matrices[part]->data + static_cast<size_t>(row) * row_bytes, width,
                     packed.data() + static_cast<size_t>(place / rows_together) * group_bytes +
                         static_cast<size_t>(place % rows_together) * chunk_bytes(type));
        }
        first += count;
    }
    return packed;
}

float lift_of(const std::vector<const FileTensor *> &matrices) {
    if (matrices.front()->type != GGML_TYPE_BF16)
        return 1.0F;
    constexpr uint16_t size_bits = 0x7FFF;
    uint16_t most = 0;  // positive numbers are in the order of their bits
    for (const FileTensor *matrix : matrices) {
        const uint8_t *end = matrix->data + matrix->bytes;
        for (const uint8_t *at = matrix->data; at < end; at += sizeof(uint16_t)) {
            uint16_t bits = 0;
            std::memcpy(&bits, at, sizeof bits);
            most = std::max<uint16_t>(most, bits & size_bits);
        }
    }
    constexpr int fraction_bits = 7, bias = 127, largest_exponent = 14, limit = 100;
    return std::ldexp(1.0F, std::clamp(largest_exponent - ((most >> fraction_bits) - bias), -limit, limit));
}

}  // namespace ggtts
