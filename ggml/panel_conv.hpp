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
    // A panel: outputs [first, first + width) of all groups' together, `index` among the panels.
    struct Panel {
        int64_t index, group, first, width;
    };

    int64_t panels() const { return shape().groups * panels_of_group_; }
    Panel panel_at(int64_t index) const;
    int64_t panel_width() const { return kernels_.panel_width; }
    // Values in a panel: [taps, inputs, panel_width].
    int64_t panel_values() const { return shape().taps * shape().inputs * panel_width(); }
    const VectorKernels &kernels() const { return kernels_; }
    const float *bias_of(const Panel &panel) const { return bias_.data() + panel.index * panel_width(); }
    // Packs a panel of weights [outputs, inputs, taps].
    void pack(const StoredWeights &weights, const Panel &panel, float *values) const;

private:
    // A run of neighbouring values of x that every output of a panel reads, and their weights.
    struct Step {
        int64_t offset;   // of the first of them, from the group's first input at the output's first sample
        int64_t depth;    // how many
        int64_t weights;  // where theirs begin in the panel
    };
    // The samples (of all lanes) and panels of neighbouring jobs.
    struct Run {
        int64_t first_sample, samples, first_panel, panels;
    };

    // The values of a panel; `room` for so many may hold them.
    virtual const float *values_of(const Panel &panel, float *room) const = 0;
    // For how many panels there is room at a time, 0 for those that need none.
    virtual int64_t panels_in_room() const { return 0; }
    // How many samples should pass by a panel before the next.
    virtual int64_t samples_per_job() const = 0;
    // A thread is through with these outputs.
    virtual void done_with(int64_t /*first*/, int64_t /*outputs*/) const {}

    std::vector<Step> steps() const;
    int64_t samples_of_job(int64_t samples, int threads) const;
    void compute_run(const ConvOperands &operands, const Run &run, float *room) const;
    void compute_panel(const ConvOperands &operands, const LaneSamples &tile, const Panel &panel,
                       const float *values) const;
    // Rows of `added`, which may be null, and of y are `stride` values apart.
    void accumulate(const float *x, int64_t samples, const Panel &panel, const float *values,
                    const float *added, float *y, int64_t stride) const;

    const VectorKernels &kernels_;
    int64_t panels_of_group_;
    std::vector<Step> steps_;
    std::vector<float> bias_;  // of every panel
};

class PackedConv : public PanelConv {
public:
    PackedConv(const ConvShape &shape, const float *matrices, const float *bias,
               const std::string &instruction_set);
    PackedConv(const ConvShape &shape, const StoredWeights &weights, const float *bias,
               const std::string &instruction_set);
    PackedConv(const TransposedShape &shape, const StoredWeights &weights, const float *bias,
               const std::string &instruction_set);

protected:
    const float *values_of(const Panel &panel, float *room) const override;

private:
    // Values not set, but zero where there is no output.
    PackedConv(const ConvShape &shape, const float *bias, const std::string &instruction_set);
    float *column(int64_t tap, int64_t input, int64_t output);
    void pack_transposed(const TransposedShape &shape, const float *kernels, int64_t input, int64_t first,
                         int64_t outputs);
    int64_t samples_per_job() const override;

    PanelMemory values_;  // of all panels
};

class StoredConv : public PanelConv {
public:
    StoredConv(const ConvShape &shape, StoredWeights weights, const float *bias,
               const std::string &instruction_set);

private:
    const float *values_of(const Panel &panel, float *room) const override;
    int64_t panels_in_room() const override;
    int64_t samples_per_job() const override;
    void done_with(int64_t first, int64_t outputs) const override;

    StoredWeights weights_;
};

}  // namespace ggtts::kernels
