// Convolution over channels-last activations as an implicit matrix product, for the CPU.
//
// float32 throughout. Every output is summed in one fixed order by fused multiply-adds, so it does not depend
// on how many samples are computed at once or by how many threads: a stream equals the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct ggml_tensor;

namespace ggtts::kernels {

struct StoredPanel;

// y[t, o] = bias[o] + sum over taps k and inputs i of weight[o, i, k] x[t * stride + k * dilation, i]; every
// group of outputs reads a group of inputs of its own.
struct ConvShape {
    int64_t taps;
    int64_t outputs;  // of one group
    int64_t inputs;   // of one group
    int64_t groups = 1;
    int64_t dilation = 1;
    int64_t stride = 1;

    // How many samples an output reads, gaps included.
    int64_t reach() const { return (taps - 1) * dilation + 1; }
    int64_t all_outputs() const { return groups * outputs; }
    int64_t all_inputs() const { return groups * inputs; }
    // Throws std::invalid_argument.
    void check() const;
};

// x and y are rows of all_inputs() and all_outputs() values; row t of y reads the rows t * stride .. t *
// stride + reach() - 1 of x. `residual`, rows like those of y, is added to it; may be null. Lanes are signals
// of the same length that share the weights: one after the other in x, in y and in the residual.
struct ConvOperands {
    const float *x;
    const float *residual;
    float *y;
    int64_t samples;  // rows of a lane of y
    int64_t read;     // rows of a lane of x
    int64_t lanes = 1;

    int64_t all_samples() const { return lanes * samples; }
};

// Neighbouring samples of one lane.
struct LaneSamples {
    int64_t first;  // among those of all lanes
    int64_t count;
    int64_t first_read;  // the first row of x that the first of them reads

    // The beginning of the samples [first, end) of all lanes, as far as they are of one lane.
    static LaneSamples at(const ConvOperands &operands, int64_t first, int64_t end, int64_t stride);
};

// The weights of a convolution in a form that the kernels read.
class ConvPlan {
public:
    explicit ConvPlan(const ConvShape &shape) : shape_(shape) { shape.check(); }
    virtual ~ConvPlan() = default;
    ConvPlan(const ConvPlan &) = delete;
    ConvPlan &operator=(const ConvPlan &) = delete;

    const ConvShape &shape() const { return shape_; }
    // The share of one thread.
    virtual void compute(const ConvOperands &operands, int thread, int threads) const = 0;

private:
    ConvShape shape_;
};

// Weights in a file, say: float32 or a half precision.
struct StoredWeights {
    const void *values;
    int type;                           // of GGML
    std::shared_ptr<const void> owner;  // of the values
    // Told about parts of the values that are not needed for a while; may be empty.
    std::function<void(const void *begin, size_t bytes)> release;
    int threads = 1;  // that pack them

    static bool can_be(int type);
    // Throws std::invalid_argument unless they are of such a type.
    void check() const;
    // `count` of them from the one at `first`.
    void read(int64_t first, int64_t count, float *out) const;
    // Those of some outputs, each with `inputs` x `taps` of them.
    StoredPanel panel(int64_t first, int64_t outputs, int64_t inputs, int64_t taps) const;
    // The first `count` of them have been packed.
    void done_with(int64_t count) const;
};

// All of these take a `bias` [outputs of all groups] or null, and an `instruction_set` that is "best" or one
// of instruction_sets(); they throw std::invalid_argument for one this processor does not have, and for
// weights of another type.

// Weights packed once: for little work at a time. `matrices` is [taps, outputs of all groups, inputs].
std::shared_ptr<const ConvPlan> packed_conv(const ConvShape &shape, const float *matrices, const float *bias,
                                            const std::string &instruction_set);
// The same of weights [outputs of all groups, inputs, taps], as checkpoints have them.
std::shared_ptr<const ConvPlan> packed_conv(const ConvShape &shape, const StoredWeights &weights,
                                            const float *bias, const std::string &instruction_set);

// Weights [outputs of all groups, inputs, taps] left where they are, and packed panel by panel whenever they
// are used: for many samples at a time, next to which that is little work. They take no memory of their own
// and no time to load.
std::shared_ptr<const ConvPlan> stored_conv(const ConvShape &shape, StoredWeights weights, const float *bias,
                                            const std::string &instruction_set);

// Results that may depend on their place within a period of so many samples, but on nothing behind what its
// outputs need: a signal may be cut into pieces of whole periods. Kernels of 5 to 8 taps then take less than
// half of the multiplications, by minimal filtering; all else, and where that does not pay, is packed.
std::shared_ptr<const ConvPlan> periodic_conv(const ConvShape &shape, const StoredWeights &weights,
                                              const float *bias, int64_t period,
                                              const std::string &instruction_set);

struct TransposedShape {
    int64_t inputs, outputs, kernel;
    int64_t stride;  // divides the kernel
};

// What it is as a convolution. Throws std::invalid_argument.
ConvShape direct_shape(const TransposedShape &shape);

// A transposed convolution as one of kernel / stride taps whose outputs are `stride` samples, [stride,
// outputs], from weights [inputs, outputs, kernel]; the bias is [outputs]. y[t, j, o] = bias[o] + sum over m
// and i of weight[i, o, m * stride + j] x[t + past - m, i], with past = kernel / stride - 1. Packed once.
// With a `period` other than 0, counted in t, results may depend on their place in it as in a periodic_conv;
// two taps then take three quarters of the multiplications.
std::shared_ptr<const ConvPlan> transposed_conv(const TransposedShape &shape, const StoredWeights &weights,
                                                const float *bias, int64_t period,
                                                const std::string &instruction_set);

// GGML custom operation. Sources: x f32 [inputs, (time - 1) * stride + reach, lanes], and a residual like the
// result if there is one; result [outputs, time, lanes]; settings: a ConvPlan.
void conv1d(ggml_tensor *result, int thread, int threads, void *plan);

}  // namespace ggtts::kernels
