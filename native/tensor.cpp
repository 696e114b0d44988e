#include "tensor.hpp"

#include <attention.hpp>
#include <conv1d.hpp>
#include <q8_matrix.hpp>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "backend.hpp"

namespace ggtts {
namespace {

[[noreturn]] void refuse(const char *operation, const std::string &why) {
    throw std::invalid_argument(std::string(operation) + ": " + why);
}

std::shared_ptr<GraphContext> common_graph(const char *operation,
                                           std::initializer_list<const Tensor *> operands) {
    std::shared_ptr<GraphContext> graph;
    for (const Tensor *operand : operands) {
        if (operand == nullptr || !operand->graph)
            continue;
        if (graph && graph != operand->graph)
            refuse(operation, "its operands belong to different graphs");
        graph = operand->graph;
    }
    if (!graph)
        refuse(operation, "no operand belongs to a graph (use graph.use(tensor))");
    for (const Tensor *operand : operands) {
        if (operand != nullptr && !operand->graph)
            graph->retain_leaf(*operand);
    }
    return graph;
}

Tensor node(const std::shared_ptr<GraphContext> &graph, ggml_tensor *raw) {
    if (raw == nullptr)
        throw std::runtime_error("GGML refused to make a tensor");
    return {raw, graph, nullptr, false};
}

void require_readable(const char *operation, const Tensor &a) {
    if (a.matrix_only)
        refuse(operation, "a matrix weight can only be the left operand of matmul: " + describe(a));
}

void require_type(const char *operation, const Tensor &a, ggml_type type) {
    require_readable(operation, a);
    if (a.raw->type != type)
        refuse(operation, "needs " + std::string(ggml_type_name(type)) + ", got " + describe(a));
}

void require_dimension(const char *operation, int dimension) {
    if (dimension < 0 || dimension > 3)
        refuse(operation, "dimension " + std::to_string(dimension) + " is not 0..3");
}

bool has_usual_strides(const ggml_tensor *tensor) {
    for (int d = 1; d < 4; ++d) {
        if (tensor->nb[d] != ggml_row_size(tensor->type, tensor->ne[0]) * (d > 1 ? tensor->ne[1] : 1) *
                                 (d > 2 ? tensor->ne[2] : 1)) {
            return false;
        }
    }
    return tensor->nb[0] == ggml_type_size(tensor->type);
}

// Most kernels read all values in a line: a tensor with its values out of line is copied first. Dimensions of
// length 1 may have any stride and still be in line, which some of GGML's checks do not accept: a reshape
// gives the usual ones.
Tensor dense(const Tensor &a) {
    if (has_usual_strides(a.raw)) {
        return a;
    }
    if (!ggml_is_contiguous(a.raw)) {
        return contiguous(a);
    }
    const int64_t *ne = a.raw->ne;
    return node(a.graph, ggml_reshape_4d(a.graph->room(), a.raw, ne[0], ne[1], ne[2], ne[3]));
}

Tensor with_rows(const Tensor &a) {
    if (a.raw->nb[0] == ggml_type_size(a.raw->type))
        return a;
    return contiguous(a);
}

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

Tensor fused(const std::shared_ptr<GraphContext> &graph, std::vector<ggml_tensor *> operands, int64_t width,
             int64_t rows, ggml_custom_op_t function, std::shared_ptr<const void> settings) {
    // GGML hands the settings back untouched; they are constant for the kernels too.
    auto *userdata = const_cast<void *>(settings.get());
    graph->retain(std::move(settings));
    return node(graph,
                ggml_custom_4d(graph->room(), GGML_TYPE_F32, width, rows, 1, 1, operands.data(),
                               static_cast<int>(operands.size()), function, GGML_N_TASKS_MAX, userdata));
}

std::array<int64_t, 4> full_shape(const char *operation, const std::vector<int64_t> &shape) {
    if (shape.empty() || shape.size() > 4)
        refuse(operation, "a shape has 1 to 4 dimensions");
    std::array<int64_t, 4> full{1, 1, 1, 1};
    for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] < 1)
            refuse(operation, "dimension " + std::to_string(i) + " is " + std::to_string(shape[i]));
        full[i] = shape[i];
    }
    return full;
}

// The graph input behind views and reshapes, or null.
const ggml_tensor *source_input(const ggml_tensor *tensor) {
    while (tensor->view_src != nullptr)
        tensor = tensor->view_src;
    return (tensor->flags & GGML_TENSOR_FLAG_INPUT) != 0 ? tensor : nullptr;
}

}  // namespace

GraphContext::GraphContext(std::shared_ptr<Backend> backend, size_t max_tensors)
    : backend_(std::move(backend)), max_tensors_(max_tensors) {
    const size_t bytes = max_tensors * ggml_tensor_overhead() +
                         ggml_graph_overhead_custom(max_tensors + tensors_per_operation, false);
    context_.reset(ggml_init({bytes, nullptr, /*no_alloc=*/true}));
    if (!context_)
        throw std::bad_alloc();
}

ggml_context *GraphContext::room() {
    tensor_count_ += tensors_per_operation;
    if (tensor_count_ > max_tensors_) {
        throw std::length_error("the graph has more than " +
                                std::to_string(max_tensors_ / tensors_per_operation) +
                                " operations; open it with a larger max_operations");
    }
    return context_.get();
}

void GraphContext::retain(std::shared_ptr<const void> owner) {
    if (owner && retained_index_.emplace(owner.get(), retained_.size()).second)
        retained_.push_back(std::move(owner));
}

void GraphContext::retain_leaf(const Tensor &leaf) {
    retain_owner(leaf.owner);
    leaves_.push_back(leaf.raw);
}

void GraphContext::place_leaves() const {
    for (const auto &owner : leaf_owners_)
        owner->place();
    for (const ggml_tensor *leaf : leaves_) {
        if (leaf->buffer == nullptr) {
            throw std::runtime_error("'" + std::string(leaf->name) + "' was not placed on the device");
        }
    }
}

void GraphContext::limit_input(const ggml_tensor *input, int64_t rows) {
    const auto [entry, added] = limits_.emplace(input, rows);
    if (!added)
        entry->second = std::min(entry->second, rows);
}

const int64_t *GraphContext::input_limit(const ggml_tensor *input) const {
    const auto found = limits_.find(input);
    return found == limits_.end() ? nullptr : &found->second;
}

ggml_type parse_type(const std::string &name) {
    const auto same = [&](const char *known) {
        return std::equal(name.begin(), name.end(), known, known + std::strlen(known), [](char a, char b) {
            return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
        });
    };
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_blck_size(type) > 0 && ggml_type_name(type) != nullptr && same(ggml_type_name(type))) {
            return type;
        }
    }
    throw std::invalid_argument("no such type: '" + name + "' (f32, f16, bf16, i32, i64, q8_0, ...)");
}

std::string describe(const Tensor &tensor) {
    std::string text = std::string(ggml_type_name(tensor.raw->type)) + " [";
    for (int i = 0; i < 4; ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(tensor.raw->ne[i]);
    text += "]";
    if (tensor.raw->name[0] != '\0')
        text += " '" + std::string(tensor.raw->name) + "'";
    return text;
}

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

namespace {

Tensor packed_product(const Tensor &weights, const Tensor &inputs) {
    const auto graph = common_graph("matmul", {&inputs});
    require_type("matmul", inputs, GGML_TYPE_F32);
    const ggml_tensor *x = inputs.raw;
    if (x->ne[0] != weights.packed->width() || x->ne[2] != 1 || x->ne[3] != 1) {
        refuse("matmul", describe(weights) + " does not fit " + describe(inputs));
    }
    graph->retain_owner(weights.owner);
    return fused(graph, {dense(inputs).raw}, weights.packed->rows(), x->ne[1], kernels::q8_product,
                 weights.packed);
}

}  // namespace

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
    return node(graph, ggml_mul_mat(graph->room(), left.raw, right.raw));
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
    return node(graph, ggml_swiglu_split(graph->room(), dense(gate).raw, dense(up).raw));
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

Tensor sum_rows(const Tensor &a) {
    const auto graph = common_graph("sum_rows", {&a});
    require_type("sum_rows", a, GGML_TYPE_F32);
    return node(graph, ggml_sum_rows(graph->room(), with_rows(a).raw));
}

Tensor mean_rows(const Tensor &a) {
    const auto graph = common_graph("mean_rows", {&a});
    require_type("mean_rows", a, GGML_TYPE_F32);
    return node(graph, ggml_mean(graph->room(), with_rows(a).raw));
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

Tensor reshape(const Tensor &a, const std::vector<int64_t> &shape) {
    const auto graph = common_graph("reshape", {&a});
    require_readable("reshape", a);
    const auto full = full_shape("reshape", shape);
    if (full[0] * full[1] * full[2] * full[3] != ggml_nelements(a.raw)) {
        refuse("reshape", describe(a) + " has another number of values than the new shape");
    }
    return node(graph, ggml_reshape_4d(graph->room(), dense(a).raw, full[0], full[1], full[2], full[3]));
}

Tensor permute(const Tensor &a, const std::array<int, 4> &axes) {
    const auto graph = common_graph("permute", {&a});
    require_readable("permute", a);
    std::array<bool, 4> seen{};
    for (const int axis : axes) {
        require_dimension("permute", axis);
        if (seen[static_cast<size_t>(axis)])
            refuse("permute", "an axis is named twice");
        seen[static_cast<size_t>(axis)] = true;
    }
    if (ggml_is_quantized(a.raw->type) && axes[0] != 0)
        refuse("permute", "rows of blocks: " + describe(a));
    return node(graph, ggml_permute(graph->room(), a.raw, axes[0], axes[1], axes[2], axes[3]));
}

Tensor contiguous(const Tensor &a) {
    const auto graph = common_graph("contiguous", {&a});
    require_readable("contiguous", a);
    if (ggml_is_quantized(a.raw->type))
        refuse("contiguous", "blocks cannot be rearranged: " + describe(a));
    return node(graph, ggml_cont(graph->room(), a.raw));
}

Tensor slice(const Tensor &a, int dimension, int64_t start, int64_t length) {
    require_dimension("slice", dimension);
    require_readable("slice", a);
    const ggml_tensor *t = a.raw;
    if (start < 0 || length < 1 || start > t->ne[dimension] - length) {
        refuse("slice", std::to_string(length) + " from " + std::to_string(start) + " along dimension " +
                            std::to_string(dimension) + " of " + describe(a));
    }
    if (ggml_is_quantized(t->type) && dimension == 0)
        refuse("slice", "rows of blocks: " + describe(a));
    const auto graph = common_graph("slice", {&a});
    std::array<int64_t, 4> ne{t->ne[0], t->ne[1], t->ne[2], t->ne[3]};
    ne[static_cast<size_t>(dimension)] = length;
    return node(graph, ggml_view_4d(graph->room(), a.raw, ne[0], ne[1], ne[2], ne[3], t->nb[1], t->nb[2],
                                    t->nb[3], static_cast<size_t>(start) * t->nb[dimension]));
}

Tensor concat(const Tensor &a, const Tensor &b, int dimension) {
    const auto graph = common_graph("concat", {&a, &b});
    require_dimension("concat", dimension);
    require_readable("concat", a);
    require_readable("concat", b);
    if (a.raw->type != b.raw->type || ggml_is_quantized(a.raw->type)) {
        refuse("concat", describe(a) + " and " + describe(b));
    }
    for (int d = 0; d < 4; ++d) {
        if (d != dimension && a.raw->ne[d] != b.raw->ne[d]) {
            refuse("concat",
                   describe(a) + " and " + describe(b) + " along dimension " + std::to_string(dimension));
        }
    }
    return node(graph, ggml_concat(graph->room(), with_rows(a).raw, with_rows(b).raw, dimension));
}

Tensor repeat(const Tensor &a, const std::vector<int64_t> &shape) {
    const auto graph = common_graph("repeat", {&a});
    require_type("repeat", a, GGML_TYPE_F32);
    const auto full = full_shape("repeat", shape);
    for (size_t d = 0; d < 4; ++d) {
        if (full[d] % a.raw->ne[d] != 0)
            refuse("repeat", describe(a) + " does not repeat to the new shape");
    }
    return node(graph, ggml_repeat_4d(graph->room(), with_rows(a).raw, full[0], full[1], full[2], full[3]));
}

Tensor pad(const Tensor &a, int dimension, int64_t before, int64_t after) {
    const auto graph = common_graph("pad", {&a});
    require_dimension("pad", dimension);
    require_type("pad", a, GGML_TYPE_F32);
    constexpr int64_t limit = std::numeric_limits<int32_t>::max();
    if (before < 0 || after < 0 || before > limit || after > limit)
        refuse("pad", "a negative or huge amount");
    std::array<int, 8> amounts{};
    amounts[static_cast<size_t>(2 * dimension)] = static_cast<int>(before);
    amounts[static_cast<size_t>(2 * dimension + 1)] = static_cast<int>(after);
    return node(graph, ggml_pad_ext(graph->room(), with_rows(a).raw, amounts[0], amounts[1], amounts[2],
                                    amounts[3], amounts[4], amounts[5], amounts[6], amounts[7]));
}

Tensor reflect_pad(const Tensor &a, int64_t before, int64_t after) {
    const auto graph = common_graph("reflect_pad", {&a});
    require_type("reflect_pad", a, GGML_TYPE_F32);
    if (before < 0 || after < 0 || before >= a.raw->ne[0] || after >= a.raw->ne[0]) {
        refuse("reflect_pad", std::to_string(std::max(before, after)) + " values of " + describe(a));
    }
    return node(graph, ggml_pad_reflect_1d(graph->room(), dense(a).raw, static_cast<int>(before),
                                           static_cast<int>(after)));
}

Tensor cast(const Tensor &a, const std::string &type) {
    const auto graph = common_graph("cast", {&a});
    require_readable("cast", a);
    const ggml_type target = parse_type(type);
    const auto is_float = [](ggml_type t) {
        return t == GGML_TYPE_F32 || t == GGML_TYPE_F16 || t == GGML_TYPE_BF16;
    };
    const bool integers = (target == GGML_TYPE_I32 && a.raw->type == GGML_TYPE_F32) ||
                          (target == GGML_TYPE_F32 && a.raw->type == GGML_TYPE_I32);
    if (!integers && (!is_float(target) || !(is_float(a.raw->type) || ggml_is_quantized(a.raw->type)))) {
        refuse("cast", describe(a) + " to " + type);
    }
    return node(graph, ggml_cast(graph->room(), a.raw, target));
}

Tensor copy_to(const Tensor &a, const Tensor &destination) {
    const auto graph = common_graph("copy_to", {&a, &destination});
    require_readable("copy_to", a);
    require_readable("copy_to", destination);
    if (ggml_nelements(a.raw) != ggml_nelements(destination.raw)) {
        refuse("copy_to", describe(a) + " into " + describe(destination));
    }
    if (ggml_is_quantized(a.raw->type) || ggml_is_quantized(destination.raw->type)) {
        refuse("copy_to", "blocks: " + describe(a) + " into " + describe(destination));
    }
    return node(graph, ggml_cpy(graph->room(), a.raw, destination.raw));
}

Tensor get_rows(const Tensor &table, const Tensor &ids) {
    const auto graph = common_graph("get_rows", {&table, &ids});
    require_readable("get_rows", table);
    require_type("get_rows", ids, GGML_TYPE_I32);
    if (table.raw->ne[2] != 1 || table.raw->ne[3] != 1 || ids.raw->ne[1] != 1 || ids.raw->ne[2] != 1 ||
        ids.raw->ne[3] != 1) {
        refuse("get_rows",
               "needs a matrix and a list of ids, got " + describe(table) + " and " + describe(ids));
    }
    if (const ggml_tensor *input = source_input(ids.raw))
        graph->limit_input(input, table.raw->ne[1]);
    return node(graph, ggml_get_rows(graph->room(), table.raw, dense(ids).raw));
}

Tensor set_rows(const Tensor &destination, const Tensor &values, const Tensor &ids) {
    const auto graph = common_graph("set_rows", {&destination, &values, &ids});
    require_readable("set_rows", destination);
    require_type("set_rows", values, GGML_TYPE_F32);
    const ggml_tensor *d = destination.raw, *v = values.raw, *i = ids.raw;
    if (i->type != GGML_TYPE_I64 && i->type != GGML_TYPE_I32)
        refuse("set_rows", "ids " + describe(ids));
    if (d->ne[0] != v->ne[0] || d->ne[2] != v->ne[2] || d->ne[3] != v->ne[3] || i->ne[0] != v->ne[1] ||
        i->ne[1] != 1 || i->ne[2] != 1 || i->ne[3] != 1) {
        refuse("set_rows", describe(values) + " at " + describe(ids) + " into " + describe(destination));
    }
    if (const ggml_tensor *input = source_input(i))
        graph->limit_input(input, d->ne[1]);
    return node(graph, ggml_set_rows(graph->room(), destination.raw, with_rows(values).raw, dense(ids).raw));
}

Tensor rope(const Tensor &a, const Tensor &positions, int dimensions, float theta) {
    const auto graph = common_graph("rope", {&a, &positions});
    require_type("rope", a, GGML_TYPE_F32);
    require_type("rope", positions, GGML_TYPE_I32);
    if (positions.raw->ne[0] != a.raw->ne[2] || ggml_nelements(positions.raw) != positions.raw->ne[0]) {
        refuse("rope", describe(positions) + " positions for " + describe(a) + " (head_dim, heads, tokens)");
    }
    if (dimensions < 2 || dimensions % 2 != 0 || dimensions > a.raw->ne[0] || !(theta > 0)) {
        refuse("rope", std::to_string(dimensions) + " dimensions of " + describe(a));
    }
    // No context extension: with ext_factor 0 and freq_scale 1 the original context length has no effect.
    return node(graph,
                ggml_rope_ext(graph->room(), with_rows(a).raw, dense(positions).raw, nullptr, dimensions,
                              GGML_ROPE_TYPE_NEOX, 0, theta, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f));
}

namespace {

void check_attention(const char *operation, const Tensor &q, const Tensor &k, const Tensor &v) {
    require_type(operation, q, GGML_TYPE_F32);
    for (const Tensor *cache : {&k, &v}) {
        require_readable(operation, *cache);
        const ggml_type type = cache->raw->type;
        if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16)
            refuse(operation, "keys or values " + describe(*cache));
        if (cache->raw->nb[0] != ggml_type_size(type))
            refuse(operation, "heads out of line: " + describe(*cache));
    }
    if (k.raw->type != v.raw->type || !ggml_are_same_shape(k.raw, v.raw)) {
        refuse(operation, "keys " + describe(k) + " and values " + describe(v));
    }
    if (q.raw->ne[0] != k.raw->ne[0] || q.raw->ne[1] % k.raw->ne[2] != 0 || q.raw->ne[3] != 1 ||
        k.raw->ne[3] != 1) {
        refuse(operation, "queries " + describe(q) + " (head_dim, heads, tokens) and keys " + describe(k) +
                              " (head_dim, positions, kv_heads)");
    }
}

}  // namespace

Tensor flash_attention(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &mask, float scale) {
    const auto graph = common_graph("flash_attention", {&q, &k, &v, &mask});
    check_attention("flash_attention", q, k, v);
    require_type("flash_attention", mask, GGML_TYPE_F16);
    if (mask.raw->ne[0] != k.raw->ne[1] || mask.raw->ne[1] < q.raw->ne[2]) {
        refuse("flash_attention", "mask " + describe(mask) + " for " + describe(q) + " and " + describe(k));
    }
    const Tensor by_head = permute(q, {0, 2, 1, 3});
    ggml_tensor *result =
        ggml_flash_attn_ext(graph->room(), by_head.raw, k.raw, v.raw, dense(mask).raw, scale, 0.0f, 0.0f);
    ggml_flash_attn_ext_set_prec(result, GGML_PREC_F32);
    return reshape(node(graph, result), {q.raw->ne[0] * q.raw->ne[1], q.raw->ne[2]});
}

Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &positions, float scale,
                 int64_t window, bool causal) {
    const auto graph = common_graph("attention", {&q, &k, &v, &positions});
    if (!graph->backend().is_cpu())
        refuse("attention", "the fused operation runs on the CPU only");
    check_attention("attention", q, k, v);
    require_type("attention", positions, GGML_TYPE_I32);
    const int64_t wanted = causal ? q.raw->ne[2] : 1;
    if (ggml_nelements(positions.raw) != wanted) {
        refuse("attention", describe(positions) + " positions for " + describe(q));
    }
    if (window < 0)
        refuse("attention", "a negative window");
    auto settings =
        std::make_shared<kernels::AttentionSettings>(kernels::AttentionSettings{scale, window, causal});
    graph->retain(settings);
    std::array<ggml_tensor *, 4> operands{with_rows(q).raw, k.raw, v.raw, dense(positions).raw};
    ggml_tensor *result = ggml_custom_4d(
        graph->room(), GGML_TYPE_F32, q.raw->ne[0] * q.raw->ne[1], q.raw->ne[2], 1, 1, operands.data(),
        static_cast<int>(operands.size()), kernels::attention, GGML_N_TASKS_MAX, settings.get());
    return node(graph, result);
}

namespace {

void require_cpu(const char *operation, const GraphContext &graph, const Tensor &a) {
    if (!graph.backend().is_cpu()) {
        refuse(operation, "the fused operation runs on the CPU only");
    }
    require_type(operation, a, GGML_TYPE_F32);
    if (a.raw->ne[2] != 1 || a.raw->ne[3] != 1) {
        refuse(operation, "needs [channels, time], got " + describe(a));
    }
}

}  // namespace

Tensor conv1d(const Tensor &a, std::shared_ptr<const kernels::ConvPlan> plan) {
    const auto graph = common_graph("conv1d", {&a});
    require_cpu("conv1d", *graph, a);
    const int64_t time = a.raw->ne[1] - plan->past();
    if (a.raw->ne[0] != plan->inputs() || time < 1) {
        refuse("conv1d", describe(a) + " for " + std::to_string(plan->inputs()) + " inputs and " +
                             std::to_string(plan->past()) + " earlier samples");
    }
    const int64_t outputs = plan->outputs();
    return fused(graph, {dense(a).raw}, outputs, time, kernels::conv1d, std::move(plan));
}

Tensor snake(const Tensor &a, const Tensor &frequency, const Tensor &magnitude) {
    const auto graph = common_graph("snake", {&a, &frequency, &magnitude});
    require_cpu("snake", *graph, a);
    for (const Tensor *values : {&frequency, &magnitude}) {
        require_type("snake", *values, GGML_TYPE_F32);
        if (ggml_nelements(values->raw) != a.raw->ne[0] || values->raw->ne[0] != a.raw->ne[0]) {
            refuse("snake", describe(*values) + " for " + describe(a));
        }
    }
    // The table of kernels is a constant of the program: nobody owns it.
    const std::shared_ptr<const void> best(std::shared_ptr<void>(), &kernels::best_vector_kernels());
    return fused(graph, {dense(a).raw, frequency.raw, magnitude.raw}, a.raw->ne[0], a.raw->ne[1],
                 kernels::snake, best);
}

}  // namespace ggtts
