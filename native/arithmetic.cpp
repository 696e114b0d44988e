// Elementwise operations, products, norms and reductions.
#include <packed_matrix.hpp>

#include <limits>
#include <stdexcept>
#include <unordered_map>

#include "backend.hpp"
#include "exactness.hpp"
#include "operands.hpp"

namespace ggtts {
namespace {

using BinaryFunction = ggml_tensor *(*)(ggml_context *, ggml_tensor *, ggml_tensor *);

Tensor binary(const char *operation, BinaryFunction function, const Tensor &a, const Tensor &b) {
    const auto graph = common_graph(operation, {&a, &b});
    require_type(operation, a, GGML_TYPE_F32);
    require_type(operation, b, GGML_TYPE_F32);
    if (!ggml_can_repeat(b.raw, a.raw))
        refuse(operation, describe(b) + " does not repeat to " + describe(a));
    const Tensor left = with_rows(a), right = b.raw->ne[0] == 1 ? dense(b) : with_rows(b);
    return node(graph, function(graph->room(), left.raw, right.raw));
}

// GGML's Vulkan backend takes matrices that lie apart for neighbours, rounds to float16 what it puts in line
// itself, and adds up in float16 whatever the type.
Tensor vulkan_product(const std::shared_ptr<GraphContext> &graph, const Tensor &left, const Tensor &right) {
    const auto in_line = [&graph](const Tensor &a) {
        const bool begins_in_line = a.raw->view_offs % graph->backend().view_alignment() == 0;
        return ggml_is_contiguous(a.raw) && begins_in_line ? a : contiguous(Tensor{a.raw, graph});
    };
    ggml_tensor *product = ggml_mul_mat(graph->room(), in_line(left).raw, in_line(right).raw);
    ggml_mul_mat_set_prec(product, GGML_PREC_F32);
    return node(graph, product);
}

Tensor exact_product(const std::shared_ptr<GraphContext> &graph, const Tensor &left, const Tensor &right) {
    const int64_t columns = right.raw->ne[1];
    if (columns == 1 || columns >= columns_without_rounding)
        return node(graph, ggml_mul_mat(graph->room(), left.raw, right.raw));
    const Tensor of_graph{right.raw, graph};  // weights on the right are leaves
    const Tensor wide = pad(of_graph, 1, 0, columns_without_rounding - columns);
    const Tensor product = node(graph, ggml_mul_mat(graph->room(), left.raw, wide.raw));
    return contiguous(slice(product, 1, 0, columns));
}

Tensor packed_product(const Tensor &weights, const Tensor &inputs) {
    const auto graph = common_graph("matmul", {&inputs});
    require_type("matmul", inputs, GGML_TYPE_F32);
    const ggml_tensor *x = inputs.raw;
    if (x->ne[0] != weights.packed->width() || x->ne[2] != 1 || x->ne[3] != 1) {
        refuse("matmul", describe(weights) + " does not fit " + describe(inputs));
    }
    graph->retain_owner(weights.owner);
    return fused(std::string("product ") + ggml_type_name(weights.raw->type), graph, {dense(inputs).raw},
                 weights.packed->rows(), x->ne[1], kernels::packed_product, weights.packed);
}

}  // namespace

Tensor add(const Tensor &a, const Tensor &b) {
    return binary("add", ggml_add, a, b);
}
Tensor subtract(const Tensor &a, const Tensor &b) {
    return binary("subtract", ggml_sub, a, b);
}
Tensor multiply(const Tensor &a, const Tensor &b) {
    return binary("multiply", ggml_mul, a, b);
}
Tensor divide(const Tensor &a, const Tensor &b) {
    return binary("divide", ggml_div, a, b);
}

Tensor scale(const Tensor &a, float factor, float offset) {
    const auto graph = common_graph("scale", {&a});
    require_type("scale", a, GGML_TYPE_F32);
    return node(graph, ggml_scale_bias(graph->room(), dense(a).raw, factor, offset));
}

Tensor matmul(const Tensor &weights, const Tensor &inputs) {
    if (weights.packed) {
        return packed_product(weights, inputs);
    }
    const auto graph = common_graph("matmul", {&weights, &inputs});
    require_type("matmul", inputs, GGML_TYPE_F32);
    const ggml_tensor *w = weights.raw, *x = inputs.raw;
    if (w->ne[0] != x->ne[0] || x->ne[2] % w->ne[2] != 0 || x->ne[3] % w->ne[3] != 0) {
        refuse("matmul", describe(weights) + " does not fit " + describe(inputs));
    }
    if (w->type == GGML_TYPE_I32 || w->type == GGML_TYPE_I64)
        refuse("matmul", "integer weights: " + describe(weights));
    Tensor left = weights;
    if (w->nb[0] != ggml_type_size(w->type) || w->nb[0] > w->nb[1])
        left = contiguous(weights);
    const Tensor right = with_rows(inputs);
    if (graph->backend().is_vulkan())
        return vulkan_product(graph, left, right);
    if (graph->backend().exact() && w->type == GGML_TYPE_F32)
        return exact_product(graph, left, right);
    ggml_tensor *product = ggml_mul_mat(graph->room(), left.raw, right.raw);
    // Without this a GPU adds up in float16, which loses digits and overflows. The CPU does not look.
    if (w->type == GGML_TYPE_F16)
        ggml_mul_mat_set_prec(product, GGML_PREC_F32);
    return node(graph, product);
}

Tensor unary(const Tensor &a, const std::string &operation) {
    using UnaryFunction = ggml_tensor *(*)(ggml_context *, ggml_tensor *);
    static const std::unordered_map<std::string, UnaryFunction> functions{
        {"silu", ggml_silu},       {"gelu", ggml_gelu_erf}, {"relu", ggml_relu}, {"elu", ggml_elu},
        {"sigmoid", ggml_sigmoid}, {"tanh", ggml_tanh},     {"exp", ggml_exp},   {"log", ggml_log},
        {"sqr", ggml_sqr},         {"sqrt", ggml_sqrt},     {"sin", ggml_sin},   {"cos", ggml_cos},
        {"abs", ggml_abs},         {"neg", ggml_neg}};
    const auto found = functions.find(operation);
    if (found == functions.end())
        throw std::invalid_argument("no unary operation '" + operation + "'");
    const auto graph = common_graph(operation.c_str(), {&a});
    require_type(operation.c_str(), a, GGML_TYPE_F32);
    return node(graph, found->second(graph->room(), dense(a).raw));
}

Tensor clamp(const Tensor &a, float low, float high) {
    const auto graph = common_graph("clamp", {&a});
    require_type("clamp", a, GGML_TYPE_F32);
    if (!(low <= high))
        refuse("clamp", "the lower bound is above the upper one");
    // ggml_clamp works in place on its operand, which others may still read.
    const Tensor copy = node(graph, ggml_cont(graph->room(), a.raw));
    return node(graph, ggml_clamp(graph->room(), copy.raw, low, high));
}

Tensor swiglu(const Tensor &gate, const Tensor &up) {
    const auto graph = common_graph("swiglu", {&gate, &up});
    require_type("swiglu", gate, GGML_TYPE_F32);
    require_type("swiglu", up, GGML_TYPE_F32);
    if (!ggml_are_same_shape(gate.raw, up.raw))
        refuse("swiglu", describe(gate) + " against " + describe(up));
    // Rows may lie apart: gate and up are often the halves of one product.
    const auto readable = [](const Tensor &a) {
        return a.raw->nb[0] == sizeof(float) && ggml_is_contiguous_1(a.raw) ? a : dense(a);
    };
    return node(graph, ggml_swiglu_split(graph->room(), readable(gate).raw, readable(up).raw));
}

Tensor rms_norm(const Tensor &a, float epsilon) {
    const auto graph = common_graph("rms_norm", {&a});
    require_type("rms_norm", a, GGML_TYPE_F32);
    if (!(epsilon >= 0))
        refuse("rms_norm", "epsilon is negative");
    return node(graph, ggml_rms_norm(graph->room(), with_rows(a).raw, epsilon));
}

Tensor layer_norm(const Tensor &a, float epsilon) {
    const auto graph = common_graph("layer_norm", {&a});
    require_type("layer_norm", a, GGML_TYPE_F32);
    if (!(epsilon >= 0))
        refuse("layer_norm", "epsilon is negative");
    return node(graph, ggml_norm(graph->room(), with_rows(a).raw, epsilon));
}

Tensor softmax(const Tensor &a, float scale, const Tensor *mask) {
    const auto graph = common_graph("softmax", {&a, mask});
    require_type("softmax", a, GGML_TYPE_F32);
    ggml_tensor *mask_tensor = nullptr;
    if (mask != nullptr) {
        require_readable("softmax", *mask);
        const ggml_tensor *m = mask->raw;
        if (m->type != GGML_TYPE_F32 && m->type != GGML_TYPE_F16)
            refuse("softmax", "mask " + describe(*mask));
        if (m->ne[0] != a.raw->ne[0] || m->ne[1] < a.raw->ne[1] || a.raw->ne[2] % m->ne[2] != 0 ||
            a.raw->ne[3] % m->ne[3] != 0) {
            refuse("softmax", "mask " + describe(*mask) + " does not fit " + describe(a));
        }
        mask_tensor = dense(*mask).raw;
    }
    return node(graph, ggml_soft_max_ext(graph->room(), dense(a).raw, mask_tensor, scale, 0.0f));
}

namespace {

// The CPU sums rows wherever they lie, GPUs only those in line.
Tensor for_sums(const std::shared_ptr<GraphContext> &graph, const Tensor &a) {
    return graph->backend().is_cpu() ? with_rows(a) : dense(a);
}

}  // namespace

Tensor sum_rows(const Tensor &a) {
    const auto graph = common_graph("sum_rows", {&a});
    require_type("sum_rows", a, GGML_TYPE_F32);
    return node(graph, ggml_sum_rows(graph->room(), for_sums(graph, a).raw));
}

Tensor mean_rows(const Tensor &a) {
    const auto graph = common_graph("mean_rows", {&a});
    require_type("mean_rows", a, GGML_TYPE_F32);
    return node(graph, ggml_mean(graph->room(), for_sums(graph, a).raw));
}

Tensor argmax(const Tensor &a) {
    const auto graph = common_graph("argmax", {&a});
    require_type("argmax", a, GGML_TYPE_F32);
    if (a.raw->ne[2] != 1 || a.raw->ne[3] != 1)
        refuse("argmax", "needs a matrix, got " + describe(a));
    if (a.raw->ne[0] > std::numeric_limits<int32_t>::max())
        refuse("argmax", "too wide: " + describe(a));
    return node(graph, ggml_argmax(graph->room(), dense(a).raw));
}

}  // namespace ggtts
