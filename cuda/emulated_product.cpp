// One matrix product of the tensor kernel, emulated: for tests of its own.
#include <vector>

#include "emulated_tensor.hpp"
#include "machine.hpp"
#include "tensor_products.hpp"

namespace ggtts::predictor {
namespace {

// Activations in halves, and where they lie.
class SplitColumns {
public:
    SplitColumns(const float *x, int width, int columns)
        : halves_(static_cast<size_t>(padded(width)) * columns * parts_of_number),
          factors_(static_cast<size_t>(padded(width) / block_width) * columns) {
        for (int column = 0; column < columns; ++column) {
            for (int block = 0; block < width / block_width; block += blocks_of_warp)
                split(x + static_cast<int64_t>(column) * width, width, column, columns, block);
        }
    }

    SplitActivations get() { return {halves_.data(), factors_.data()}; }

private:
    void split(const float *row, int width, int column, int columns, int first_block) {
        const EmulatedWarp warp(0);
        Lanes<EmulatedWarp, FourValues> all(warp);
        const auto place = [&](int lane) {
            const int block = first_block + lane / lanes_of_block;
            return BlockPlace{block, column, block < width / block_width};
        };
        all.each([&](int lane, FourValues &own) {
            for (int i = 0; place(lane).exists && i < 4; ++i)
                own.values.at[i] = row[place(lane).block * block_width + first_of_lane(lane) + i];
        });
        split_blocks(all, get(), columns, place);
    }

    std::vector<uint16_t> halves_;
    std::vector<float> factors_;
};

template <class Type>
void product(const Matrix &matrix, int bits, const float *x, int width, int columns, float *result) {
    const Tiling tiling = tiling_of(matrix, bits);
    SplitColumns split(x, width, columns);
    const int64_t weights = piece_bytes<Type>(tiling) / static_cast<int64_t>(sizeof(float));
    std::vector<Words> shared(
        static_cast<size_t>(weights + sums_size(tiling.most_units(), columns, tiling.rows()) + 4) / 4);
    auto *room = reinterpret_cast<float *>(shared.data()), *sums = room + weights;
    std::vector<Words> joined(static_cast<size_t>(tiling.pieces()) * columns * tiling.rows() / 4);
    std::vector<uint32_t> arrived(static_cast<size_t>(tiling.tiles));
    const Meeting meeting{reinterpret_cast<float *>(joined.data()), arrived.data()};
    for (int index = 0; index < tiling.pieces(); ++index) {
        const EmulatedBlock block(index, tiling.pieces(), tensor_warps, room);
        const Piece piece(tiling, index);
        begin_weights<Type>(block, tiling, index, reinterpret_cast<uint8_t *>(room));
        finish_copies<0>(block);
        multiply_piece<Type>(block, tiling, piece, reinterpret_cast<uint8_t *>(room), split.get(), columns,
                             sums);
        if (!complete(block, tiling, piece, columns, sums, meeting))
            continue;
        for (int column = 0; column < columns; ++column) {
            for (int row = piece.tile << bits; row < matrix.rows && row < (piece.tile + 1) << bits; ++row)
                result[static_cast<int64_t>(column) * matrix.rows + row] =
                    sums[column * sums_stride(tiling.rows()) + row - (piece.tile << bits)];
        }
    }
}

}  // namespace

void emulated_product(WeightKind kind, const Matrix &matrix, bool gated, const float *x, int width,
                      int columns, float *result) {
    const int bits = gated ? gated_tile_bits : tile_bits;
    switch (kind) {
        case WeightKind::q8_0:
            return product<EightBits>(matrix, bits, x, width, columns, result);
        case WeightKind::f16:
            return product<SixteenBits<Float16>>(matrix, bits, x, width, columns, result);
        case WeightKind::bf16:
            return product<SixteenBits<BrainFloat16>>(matrix, bits, x, width, columns, result);
        case WeightKind::f32:
            throw std::invalid_argument("matrix units take no weights of this type");
    }
}

}  // namespace ggtts::predictor
