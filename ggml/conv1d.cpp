#include "conv1d.hpp"

#include <ggml.h>

#include <algorithm>
#include <stdexcept>

#include "minimal_conv.hpp"
#include "paired_conv.hpp"
#include "panel_conv.hpp"
#include "vector_kernels.hpp"
#include "work_share.hpp"

namespace ggtts::kernels {
namespace {

// Fewer outputs would leave a panel mostly empty: each is a dot product instead.
constexpr int64_t fewest_outputs = 4;

class DotConv : public ConvPlan {
public:
    DotConv(const ConvShape &shape, const float *matrices, const float *bias,
            const std::string &instruction_set)
        : ConvPlan(shape), kernels_(vector_kernels(instruction_set)), bias_(shape.outputs, 0.0f) {
        if (bias != nullptr) {
            std::copy_n(bias, shape.outputs, bias_.begin());
        }
        for (int64_t output = 0; output < shape.outputs; ++output) {
            for (int64_t tap = 0; tap < shape.taps; ++tap) {
                const float *row = matrices + (tap * shape.outputs + output) * shape.inputs;
                weights_.insert(weights_.end(), row, row + shape.inputs);
            }
        }
    }

    void compute(const ConvOperands &operands, int thread, int threads) const override {
        const ConvShape &conv = shape();
        const auto [begin, end] = share(operands.all_samples(), thread, threads);
        for (int64_t t = begin; t < end; ++t) {
            const int64_t first_read = LaneSamples::at(operands, t, t + 1, conv.stride).first_read;
            compute_sample(operands, t, operands.x + first_read * conv.inputs);
        }
    }

private:
    void compute_sample(const ConvOperands &operands, int64_t t, const float *x) const {
        const ConvShape &conv = shape();
        const float *weights = weights_.data();
        for (int64_t output = 0; output < conv.outputs; ++output) {
            const int64_t place = t * conv.outputs + output;
            float sum = bias_[static_cast<size_t>(output)];
            for (int64_t tap = 0; tap < conv.taps; ++tap, weights += conv.inputs) {
                sum = kernels_.dot(x + tap * conv.dilation * conv.inputs, weights, conv.inputs, sum);
            }
            operands.y[place] = operands.residual == nullptr ? sum : sum + operands.residual[place];
        }
    }

    const VectorKernels &kernels_;
    std::vector<float> weights_;  // [outputs, taps, inputs]
    std::vector<float> bias_;
};

}  // namespace

void ConvShape::check() const {
    if (std::min({taps, outputs, inputs, groups, dilation, stride}) < 1) {
        throw std::invalid_argument("a convolution without weights");
    }
}

LaneSamples LaneSamples::at(const ConvOperands &operands, int64_t first, int64_t end, int64_t stride) {
    const int64_t lane = first / operands.samples, inside = first % operands.samples;
    return {first, std::min(end - first, operands.samples - inside), lane * operands.read + inside * stride};
}

std::shared_ptr<const ConvPlan> packed_conv(const ConvShape &shape, const float *matrices, const float *bias,
                                            const std::string &instruction_set) {
    if (shape.groups == 1 && shape.outputs < fewest_outputs) {
        return std::make_shared<DotConv>(shape, matrices, bias, instruction_set);
    }
    return std::make_shared<PackedConv>(shape, matrices, bias, instruction_set);
}

std::shared_ptr<const ConvPlan> packed_conv(const ConvShape &shape, const StoredWeights &weights,
                                            const float *bias, const std::string &instruction_set) {
    if (shape.groups > 1 || shape.outputs >= fewest_outputs) {
        return std::make_shared<PackedConv>(shape, weights, bias, instruction_set);
    }
    const int64_t rows = shape.outputs * shape.inputs;
    std::vector<float> stored(static_cast<size_t>(rows * shape.taps)), matrices(stored.size());
    weights.read(0, rows * shape.taps, stored.data());
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t tap = 0; tap < shape.taps; ++tap) {
            matrices[static_cast<size_t>(tap * rows + row)] =
                stored[static_cast<size_t>(row * shape.taps + tap)];
        }
    }
    return std::make_shared<DotConv>(shape, matrices.data(), bias, instruction_set);
}

std::shared_ptr<const ConvPlan> stored_conv(const ConvShape &shape, StoredWeights weights, const float *bias,
                                            const std::string &instruction_set) {
    return std::make_shared<StoredConv>(shape, std::move(weights), bias, instruction_set);
}

std::shared_ptr<const ConvPlan> periodic_conv(const ConvShape &shape, const StoredWeights &weights,
                                              const float *bias, int64_t period,
                                              const std::string &instruction_set) {
    if (MinimalConv::pays(shape, period)) {
        return std::make_shared<MinimalConv>(shape, weights, bias, period, instruction_set);
    }
    return packed_conv(shape, weights, bias, instruction_set);
}

std::shared_ptr<const ConvPlan> transposed_conv(const TransposedShape &shape, const StoredWeights &weights,
                                                const float *bias, int64_t period,
                                                const std::string &instruction_set) {
    if (PairedConv::suits(direct_shape(shape), period)) {
        return std::make_shared<PairedConv>(shape, weights, bias, instruction_set);
    }
    return std::make_shared<PackedConv>(shape, weights, bias, instruction_set);
}

void conv1d(ggml_tensor *result, int thread, int threads, void *userdata) {
    const auto &plan = *static_cast<const ConvPlan *>(userdata);
    const ggml_tensor *x = result->src[0], *residual = result->src[1];
    ConvOperands operands{static_cast<const float *>(x->data),
                          residual == nullptr ? nullptr : static_cast<const float *>(residual->data),
                          static_cast<float *>(result->data),
                          result->ne[1],
                          x->ne[1],
                          result->ne[2]};
    // Where every sample stands alone, all lanes are one.
    if (plan.shape().reach() == 1 && operands.read == operands.samples) {
        operands.samples = operands.read = operands.all_samples();
        operands.lanes = 1;
    }
    plan.compute(operands, thread, threads);
}

}  // namespace ggtts::kernels
