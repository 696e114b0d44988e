// Convolutions whose outputs are computed a panel of neighbours at a time; see conv1d.hpp.
#pragma once

#include <vector>

#include "conv1d.hpp"
#include "panel_memory.hpp"
#include "vector_kernels.hpp"

namespace ggtts::kernels {

class PanelConv : public ConvPlan {
public:
    PanelConv(const ConvShape &shape, const float *bias, const std::string &instruction_set);
    void compute(const ConvOperands &operands, int thread, int threads) const override;

protected:
    // A run of neighbouring values of x that every output of a panel reads, and their weights.
    struct Step {
        int64_t offset;   // of the first of them, from the group's first input at the output's first sample
        int64_t depth;    // how many
        int64_t weights;  // where theirs begin in the block
    };
    // Steps whose weights lie together, in the order tap by tap.
    struct Block {
        int64_t first_input, inputs, first_tap, taps;
        std::vector<Step> steps;
    };

    // A panel: outputs [first, first + width) of all groups' together, `index` among the panels.
    struct Panel {
        int64_t index, group, first, width;
    };

    Block make_block(int64_t first_input, int64_t inputs, int64_t first_tap, int64_t taps) const;
    // `samples_at_once` is how many samples pass before the weights of the next panel.
    void set_blocks(std::vector<Block> blocks, int64_t samples_at_once);
    int64_t panels() const { return (shape().outputs + panel_width() - 1) / panel_width(); }  // of one group
    int64_t panel_width() const { return kernels_.panel_width; }
    const VectorKernels &kernels() const { return kernels_; }

private:
    // The weights of a block, [taps, inputs, panel_width]; `room` may hold them.
    virtual const float *weights_of(const Panel &panel, const Block &block, float *room) const = 0;
    // How many values the room has to hold.
    virtual int64_t room() const { return 0; }
    // A thread is through with these outputs.
    virtual void done_with(int64_t /*first*/, int64_t /*outputs*/) const {}

    Panel panel_at(int64_t index) const;
    int64_t samples_per_job(int64_t samples, int threads) const;
    void compute_panel(const ConvOperands &operands, int64_t first, int64_t samples, const Panel &panel,
                       float *room) const;
    void accumulate(const float *x, int64_t samples, const Panel &panel, float *room, float *sums,
                    int64_t stride) const;

    const VectorKernels &kernels_;
    std::vector<Block> blocks_;
    int64_t samples_at_once_ = 1;
    std::vector<float> bias_;  // of every panel
};

class PackedConv : public PanelConv {
public:
    PackedConv(const ConvShape &shape, const float *matrices, const float *bias,
               const std::string &instruction_set);

private:
    const float *weights_of(const Panel &panel, const Block &block, float *room) const override;

    PanelMemory weights_;  // panels of [taps, inputs, panel_width]
};

class StoredConv : public PanelConv {
public:
    StoredConv(const ConvShape &shape, StoredWeights weights, const float *bias,
               const std::string &instruction_set);

private:
    const float *weights_of(const Panel &panel, const Block &block, float *room) const override;
    int64_t room() const override { return room_; }
    void done_with(int64_t first, int64_t outputs) const override;

    StoredWeights weights_;
    size_t value_bytes_;
    int64_t room_ = 0;
};

}  // namespace ggtts::kernels
