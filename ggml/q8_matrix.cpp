#include "q8_matrix.hpp"

#include <ggml.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "q8_kernels.hpp"

namespace ggtts::kernels {

bool Q8Matrix::runs_here() {
#ifdef GGTTS_X86_KERNELS
    static const bool present = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                __builtin_cpu_supports("avx512vnni");
    return present;
#else
    return false;
#endif
}

void Q8Matrix::pack(const void *blocks) {
    const int64_t blocks_per_row = width_ / q8_block;
    const auto *stored = static_cast<const uint8_t *>(blocks);
    packed_.assign(static_cast<size_t>(groups() * blocks_per_row * q8_packed_block_bytes), 0);
    // Written in order, read from 16 rows at a time: reading along one row would scatter the writes.
    for (int64_t group = 0; group < groups(); ++group) {
        const int64_t lanes = std::min(rows_per_group, rows_ - group * rows_per_group);
        for (int64_t block = 0; block < blocks_per_row; ++block) {
            uint8_t *packed = packed_.data() + (group * blocks_per_row + block) * q8_packed_block_bytes;
            for (int64_t lane = 0; lane < lanes; ++lane) {
                const int64_t row = group * rows_per_group + lane;
                const uint8_t *source = stored + (row * blocks_per_row + block) * q8_stored_block_bytes;
                std::memcpy(packed + lane * 2, source, 2);
                for (int64_t quad = 0; quad < q8_block / 4; ++quad) {
                    uint32_t four;
                    std::memcpy(&four, source + 2 + quad * 4, sizeof(four));
                    four ^= 0x80808080u;  // + 128, as unsigned bytes
                    std::memcpy(packed + q8_scale_bytes + (quad * rows_per_group + lane) * 4, &four,
                                sizeof(four));
                }
            }
        }
    }
}

void Q8Matrix::multiply(const float *inputs, int64_t columns, float *results, int64_t first_group,
                        int64_t last_group) const {
#ifdef GGTTS_X86_KERNELS
    const int64_t blocks_per_row = width_ / q8_block;
    std::vector<int8_t> bytes(static_cast<size_t>(columns * width_));
    std::vector<Q8BlockScale> scales(static_cast<size_t>(columns * blocks_per_row));
    q8_round_inputs(inputs, columns * blocks_per_row, bytes.data(), scales.data());
    for (int64_t group = first_group; group < last_group;) {
        const int64_t together =
            columns == 1 ? std::min<int64_t>(q8_groups_of_one_column, last_group - group) : 1;
        q8_multiply_groups(packed_.data() + group * blocks_per_row * q8_packed_block_bytes, together,
                           blocks_per_row, bytes.data(), scales.data(), columns,
                           results + group * rows_per_group, rows_,
                           std::min(together * rows_per_group, rows_ - group * rows_per_group));
        group += together;
    }
#else
    (void)inputs, (void)columns, (void)results, (void)first_group, (void)last_group;
#endif
}

void q8_product(ggml_tensor *result, int thread, int threads, void *userdata) {
    const auto &matrix = *static_cast<const Q8Matrix *>(userdata);
    const int64_t groups = matrix.groups();
    const int64_t begin = groups * thread / threads, end = groups * (thread + 1) / threads;
    if (begin < end) {
        matrix.multiply(static_cast<const float *>(result->src[0]->data), result->ne[1],
                        static_cast<float *>(result->data), begin, end);
    }
}

}  // namespace ggtts::kernels
