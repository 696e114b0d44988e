// Convolution over channels-last activations as an implicit matrix product, and the snake activation, for the
// CPU.
//
// float32 throughout. Every output is summed in one fixed order (tap by tap, input by input, fused
// multiply-adds), so it does not depend on how many samples are computed at once or by how many threads: a
// stream equals the whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct ggml_tensor;

namespace ggtts::kernels {

struct VectorKernels;

// Weights packed for the instruction set they will be used with, in panels of neighbouring outputs.
class ConvPlan {
public:
    // `matrices` is [taps, outputs, inputs], `bias` [outputs] or null. `instruction_set` is "best", or one of
    // instruction_sets(). Throws std::invalid_argument for one this processor does not have.
    ConvPlan(const float *matrices, int64_t taps, int64_t outputs, int64_t inputs, const float *bias,
             int64_t dilation, const std::string &instruction_set);

    int64_t taps() const { return taps_; }
    int64_t inputs() const { return inputs_; }
    int64_t outputs() const { return outputs_; }
    // How many earlier samples an output reads.
    int64_t past() const { return (taps_ - 1) * dilation_; }
    const VectorKernels &kernels() const { return *kernels_; }

    // Outputs [first_panel, last_panel) of samples [first, first + samples): x and y are rows of `inputs` and
    // `outputs` values, and row t of y reads the rows t .. t + past of x.
    void compute(const float *x, float *y, int64_t first, int64_t samples, int64_t first_panel,
                 int64_t last_panel) const;
    int64_t panels() const { return (outputs_ + panel_width_ - 1) / panel_width_; }

private:
    void pack(const float *matrices);
    void compute_by_dots(const float *x, float *y, int64_t first, int64_t samples) const;
    bool is_narrow() const { return outputs_ < narrow_outputs; }

    // Below this, a panel would be mostly padding: each output is a dot product instead.
    static constexpr int64_t narrow_outputs = 4;

    int64_t taps_, outputs_, inputs_, dilation_, panel_width_;
    const VectorKernels *kernels_;
    std::vector<float> weights_;  // panels of [taps, inputs, panel_width]; narrow: [outputs, taps, inputs]
    std::vector<float> bias_;     // padded to whole panels
};

// GGML custom operations. Source of conv1d: x f32 [inputs, past + time]; result [outputs, time]; settings: a
// ConvPlan.
void conv1d(ggml_tensor *result, int thread, int threads, void *plan);
// Sources of snake: x f32 [channels, time], frequency and magnitude [channels]; result x + sin^2(x frequency)
// magnitude.
void snake(ggml_tensor *result, int thread, int threads, void *kernels);

// Instruction sets this processor can run, the best first; the last is "generic".
std::vector<std::string> instruction_sets();
// Throws std::invalid_argument for an unknown or unsupported name; "best" is the first of instruction_sets().
const VectorKernels &vector_kernels(const std::string &instruction_set);
const VectorKernels &best_vector_kernels();

}  // namespace ggtts::kernels
