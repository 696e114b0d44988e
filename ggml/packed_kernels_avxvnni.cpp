// Byte products with vpdpbusd on 256 bits, for processors that have it without AVX-512.
#include "packed_lanes_avx2.hpp"

namespace ggtts::kernels {
namespace {

struct Dot {
    static constexpr bool q8_0_is_signed = false;

    template <PackedFormat>
    static __m256i add_products(__m256i sum, __m256i weights, __m256i inputs) {
        return _mm256_dpbusd_avx_epi32(sum, weights, inputs);
    }
};

using Lanes = PairLanes<Dot>;

}  // namespace
}  // namespace ggtts::kernels

#include "packed_kernels_body.hpp"

namespace ggtts::kernels {

const PackedKernels avxvnni_packed_kernels{round_inputs, multiply_rows};

}  // namespace ggtts::kernels
