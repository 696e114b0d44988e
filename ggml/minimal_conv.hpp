// Convolutions by minimal filtering; see minimal_filter.hpp.
#pragma once

#include <vector>

#include "conv1d.hpp"
#include "panel_memory.hpp"
#include "vector_kernels.hpp"

namespace ggtts::kernels {

// A convolution of dilation d is one without over rows of d samples: a pair of tiles is 8 d samples.
//
// The rounding of an output depends on its place in a pair and on all that the pair reads. So pairs begin
// anew at every period, and read nothing but what the period's outputs need: then a stream equals the whole,
// as long as its pieces are whole periods.
class MinimalConv : public ConvPlan {
public:
    MinimalConv(const ConvShape &shape, const StoredWeights &weights, const float *bias, int64_t period,
                const std::string &instruction_set);
    void compute(const ConvOperands &operands, int thread, int threads) const override;

    // Whether that is less work than the direct sum.
    static bool pays(const ConvShape &shape, int64_t period);

private:
    struct Run;
    struct Block;
    class Pairs;

    void pack(const float *kernels, int64_t panel);
    float *weights_at(int64_t panel, int64_t part) const;
    int64_t blocks_of(const Pairs &pairs, int threads) const;
    void transform(const ConvOperands &operands, const Block &block, float *to) const;
    void multiply(const Block &block, const float *inputs, int64_t panel, float *products) const;
    template <class Product>
    void in_pieces(int64_t first_row, int64_t rows, const float *x, float *y, Product product) const;
    void finish(const ConvOperands &operands, const Block &block, int64_t panel, const float *products) const;
    void finish_tile(const ConvOperands &operands, int64_t sample, int64_t samples, int64_t panel,
                     const float *products, int64_t stride) const;

    const VectorKernels &kernels_;
    int64_t period_, panels_;
    PanelMemory values_;        // [panels, parts, inputs, outputs of a panel]
    std::vector<float> bias_;   // of every panel
    std::vector<float> zeros_;  // what tiles read beyond their period
};

}  // namespace ggtts::kernels
