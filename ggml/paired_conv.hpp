// Convolutions of two taps, two outputs at a time; see conv1d.hpp.
#pragma once

#include "panel_conv.hpp"

namespace ggtts::kernels {

// With x, y, z for three inputs in a row and the matrices g, h of the taps, two outputs are
//     g x + h y = g (x - y) + (g + h) y
//     g y + h z = h (z - y) + (g + h) y
// by three products in place of four: minimal filtering as in minimal_filter.hpp, with m = r = 2. The error
// is no larger than that of the direct sum, which is twice as long.
//
// The rounding of an output depends on its place in a pair. So a signal may be cut between pairs only.
class PairedConv : public PackedConv {
public:
    PairedConv(const TransposedShape &shape, const StoredWeights &weights, const float *bias,
               const std::string &instruction_set)
        : PackedConv(shape, weights, bias, instruction_set) {}
    void compute(const ConvOperands &operands, int thread, int threads) const override;

    // Whether it can be computed so, where a signal is only ever cut at multiples of `period` outputs.
    static bool suits(const ConvShape &shape, int64_t period);

private:
    // Neighbouring pairs, counted over all lanes.
    struct Block {
        int64_t first, count;
    };

    // Values from a pair to the next: a few more than it has, so that pairs are not all in one set of a
    // cache.
    int64_t row() const { return shape().inputs + 16; }
    void transform(const ConvOperands &operands, const Block &block, float *to) const;
    void multiply(const Block &block, const float *inputs, int64_t panel, float *products) const;
    void finish(const ConvOperands &operands, const Block &block, int64_t panel, const float *products) const;
};

}  // namespace ggtts::kernels
