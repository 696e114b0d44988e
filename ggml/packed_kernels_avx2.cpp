// Byte products with AVX2 alone: pairs of products as 16 bit numbers, and pairs of those.
#include "packed_lanes_avx2.hpp"

namespace ggtts::kernels {
namespace {

struct Dot {
    static constexpr bool q8_0_is_signed = true;

    template <PackedFormat format>
    static __m256i add_products(__m256i sum, __m256i weights, __m256i inputs) {
        __m256i pairs;
        if constexpr (format == PackedFormat::q8_0) {
            // Two products of biased weights may exceed 16 bits: the weights lose bias and sign, which
            // goes to the inputs. Inputs are never -128, which has no counterpart.
            const __m256i signed_weights = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
            pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(signed_weights),
                                         _mm256_sign_epi8(inputs, signed_weights));
        } else {
            pairs = _mm256_maddubs_epi16(weights, inputs);
        }
        return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
};

using Lanes = PairLanes<Dot>;

}  // namespace
}  // namespace ggtts::kernels

#include "packed_kernels_body.hpp"

namespace ggtts::kernels {

const PackedKernels avx2_packed_kernels{round_inputs, multiply_rows};

}  // namespace ggtts::kernels
