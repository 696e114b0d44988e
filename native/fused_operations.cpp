// Convolution, activations and layer norm as the operations that only the CPU has.
#include <activations.hpp>
#include <conv1d.hpp>
#include <vector_kernels.hpp>

#include "backend.hpp"
#include "operands.hpp"

namespace ggtts {
namespace {

void require_cpu(const char *operation, const GraphContext &graph, const Tensor &a) {
    if (!graph.backend().has_own_operations()) {
        refuse(operation, "the fused operation runs on the CPU only");
    }
    require_type(operation, a, GGML_TYPE_F32);
    if (a.raw->ne[3] != 1) {
        refuse(operation, "needs [channels, time, lanes], got " + describe(a));
    }
}

void require_shape(const char *operation, const Tensor &a, int64_t channels, int64_t time,
                   int64_t lanes = 1) {
    require_type(operation, a, GGML_TYPE_F32);
    if (a.raw->ne[0] != channels || a.raw->ne[1] != time || a.raw->ne[2] != lanes || a.raw->ne[3] != 1) {
        const std::string lanes_wanted = lanes == 1 ? "" : ", " + std::to_string(lanes);
        refuse(operation, describe(a) + " instead of [" + std::to_string(channels) + ", " +
                              std::to_string(time) + lanes_wanted + "]");
    }
}

}  // namespace

Tensor conv1d(const Tensor &a, std::shared_ptr<const kernels::ConvPlan> plan, const Tensor *residual) {
    const auto graph = common_graph("conv1d", {&a, residual});
    require_cpu("conv1d", *graph, a);
    const kernels::ConvShape &shape = plan->shape();
    const int64_t beyond_first = a.raw->ne[1] - shape.reach();
    if (a.raw->ne[0] != shape.all_inputs() || beyond_first < 0) {
        refuse("conv1d", describe(a) + " for " + std::to_string(shape.all_inputs()) + " inputs of which " +
                             std::to_string(shape.reach()) + " samples make one");
    }
    const int64_t time = beyond_first / shape.stride + 1;
    std::vector<ggml_tensor *> operands{dense(a).raw};
    if (residual != nullptr) {
        require_shape("conv1d", *residual, shape.all_outputs(), time, a.raw->ne[2]);
        operands.push_back(dense(*residual).raw);
    }
    const int64_t outputs = shape.all_outputs();
    return fused("conv1d", graph, std::move(operands), outputs, time, kernels::conv1d, std::move(plan),
                 a.raw->ne[2]);
}

Tensor activate(const Tensor &a, const std::string &name, const std::vector<Tensor> &vectors,
                const Surroundings &surroundings, const std::string &instruction_set) {
    const auto [before, after, context] = surroundings;
    const auto graph = common_graph("activate", {&a, context});
    require_cpu("activate", *graph, a);
    const kernels::Activation activation = kernels::parse_activation(name);
    const int64_t channels = a.raw->ne[0];
    if (vectors.size() != static_cast<size_t>(kernels::vectors_of(activation))) {
        refuse("activate", name + " takes " + std::to_string(kernels::vectors_of(activation)) +
                               " vectors, not " + std::to_string(vectors.size()));
    }
    if (before < 0 || after < 0 || (context != nullptr && before != 0)) {
        refuse("activate", "rows before and after are zeros, a number of them, or a context instead");
    }
    std::vector<ggml_tensor *> operands{dense(a).raw};
    for (const Tensor &vector : vectors) {
        common_graph("activate", {&a, &vector});
        require_shape("activate", vector, channels, 1);
        operands.push_back(dense(vector).raw);
    }
    const int64_t rows_before = context == nullptr ? before : context->raw->ne[1];
    if (context != nullptr) {
        require_shape("activate", *context, channels, rows_before, a.raw->ne[2]);
        operands.push_back(dense(*context).raw);
    }
    const auto settings = std::make_shared<const kernels::ActivationSettings>(kernels::ActivationSettings{
        activation, &kernels::vector_kernels(instruction_set), rows_before, after, context != nullptr});
    const int64_t rows = rows_before + a.raw->ne[1] + after;
    return fused(name, graph, std::move(operands), channels, rows, kernels::activate, settings, a.raw->ne[2]);
}

Tensor affine_layer_norm(const Tensor &a, const Tensor &weight, const Tensor &bias, float epsilon,
                         const std::string &instruction_set) {
    const auto graph = common_graph("affine_layer_norm", {&a, &weight, &bias});
    require_cpu("affine_layer_norm", *graph, a);
    if (!(epsilon >= 0)) {
        refuse("affine_layer_norm", "epsilon is negative");
    }
    for (const Tensor *vector : {&weight, &bias}) {
        require_shape("affine_layer_norm", *vector, a.raw->ne[0], 1);
    }
    const auto settings = std::make_shared<const kernels::LayerNormSettings>(
        kernels::LayerNormSettings{&kernels::vector_kernels(instruction_set), epsilon});
    std::vector<ggml_tensor *> operands{dense(a).raw, dense(weight).raw, dense(bias).raw};
    return fused("layer_norm", graph, std::move(operands), a.raw->ne[0], a.raw->ne[1], kernels::layer_norm,
                 settings, a.raw->ne[2]);
}

}  // namespace ggtts
