// Operations that move values without changing them: views, copies, rows of tables.
#include <limits>

#include "backend.hpp"
#include "operands.hpp"

namespace ggtts {
namespace {

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

// Whether a new shape only cuts the rows of a matrix into parts. Then rows that lie apart need no copy: heads
// among the joined products of a layer.
bool splits_rows(const ggml_tensor *tensor, const Shape &shape) {
    return !ggml_is_quantized(tensor->type) && !ggml_is_contiguous(tensor) &&
           tensor->nb[0] == ggml_type_size(tensor->type) && tensor->ne[2] == 1 && tensor->ne[3] == 1 &&
           shape[0] * shape[1] == tensor->ne[0] && shape[2] == tensor->ne[1] && shape[3] == 1 &&
           tensor->nb[1] >= tensor->nb[0] * static_cast<size_t>(tensor->ne[0]);
}

// Whether a new shape only joins the parts of rows that splitting has made.
bool joins_rows(const ggml_tensor *tensor, const Shape &shape) {
    return !ggml_is_quantized(tensor->type) && !ggml_is_contiguous(tensor) &&
           tensor->nb[0] == ggml_type_size(tensor->type) && tensor->ne[3] == 1 &&
           tensor->nb[1] == tensor->nb[0] * static_cast<size_t>(tensor->ne[0]) &&
           shape[0] == tensor->ne[0] * tensor->ne[1] && shape[1] == tensor->ne[2] && shape[2] == 1 &&
           shape[3] == 1 && tensor->nb[2] >= tensor->nb[1] * static_cast<size_t>(tensor->ne[1]);
}

// The same values with all dimensions up to this one as one line: GPU kernels pad any length of the first
// dimension, but of the second one only 65535.
Tensor pad_in_line(const Tensor &a, int dimension, int64_t before, int64_t after) {
    Shape shape = a.shape();
    int64_t row = 1;
    for (int d = 0; d < dimension; ++d)
        row *= shape[static_cast<size_t>(d)];
    std::vector<int64_t> line{row * shape[static_cast<size_t>(dimension)]};
    for (size_t d = static_cast<size_t>(dimension) + 1; d < 4; ++d)
        line.push_back(shape[d]);
    shape[static_cast<size_t>(dimension)] += before + after;
    return reshape(pad(reshape(a, line), 0, before * row, after * row), {shape.begin(), shape.end()});
}

}  // namespace

Tensor reshape(const Tensor &a, const std::vector<int64_t> &shape) {
    const auto graph = common_graph("reshape", {&a});
    require_readable("reshape", a);
    const auto full = full_shape("reshape", shape);
    if (full[0] * full[1] * full[2] * full[3] != ggml_nelements(a.raw)) {
        refuse("reshape", describe(a) + " has another number of values than the new shape");
    }
    if (full == a.shape() && has_usual_strides(a.raw))
        return a;
    if (splits_rows(a.raw, full)) {
        const size_t part = static_cast<size_t>(full[0]) * a.raw->nb[0];
        return node(graph,
                    ggml_view_3d(graph->room(), a.raw, full[0], full[1], full[2], part, a.raw->nb[1], 0));
    }
    if (joins_rows(a.raw, full))
        return node(graph, ggml_view_2d(graph->room(), a.raw, full[0], full[1], a.raw->nb[2], 0));
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
    if (length == t->ne[dimension])
        return a;
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
    if (dimension > 0 && !graph->backend().has_own_operations())
        return pad_in_line(a, dimension, before, after);
    std::array<int, 8> amounts{};
    amounts[static_cast<size_t>(2 * dimension)] = static_cast<int>(before);
    amounts[static_cast<size_t>(2 * dimension + 1)] = static_cast<int>(after);
    return node(graph, ggml_pad_ext(graph->room(), with_rows(a).raw, amounts[0], amounts[1], amounts[2],
                                    amounts[3], amounts[4], amounts[5], amounts[6], amounts[7]));
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
    limit_ids(*graph, ids, table.raw->ne[1]);
    return node(graph, ggml_get_rows(graph->room(), with_rows(table).raw, dense(ids).raw));
}

// Neighbours in time lie next to each other, so a window of them is a column. GGML's operation for images
// sees an image as wide as there are channels, over which a kernel as wide as it moves down.
Tensor unfold(const Tensor &a, int64_t taps, int64_t dilation) {
    const auto graph = common_graph("unfold", {&a});
    require_type("unfold", a, GGML_TYPE_F32);
    const int64_t channels = a.raw->ne[0], lanes = a.raw->ne[2];
    const int64_t time = a.raw->ne[1] - (taps - 1) * dilation;
    if (taps < 1 || dilation < 1 || time < 1 || a.raw->ne[3] != 1)
        refuse("unfold", describe(a) + " into windows of " + std::to_string(taps) + " that lie " +
                             std::to_string(dilation) + " apart");
    ggml_tensor *image = ggml_reshape_4d(graph->room(), dense(a).raw, channels, a.raw->ne[1], 1, lanes);
    // Of the kernel it reads the size only.
    ggml_tensor *kernel =
        ggml_view_4d(graph->room(), image, channels, taps, 1, 1, image->nb[1], image->nb[2], image->nb[3], 0);
    ggml_tensor *columns = ggml_im2col(graph->room(), kernel, image, 1, 1, 0, 0, 1,
                                       static_cast<int>(dilation), true, GGML_TYPE_F32);
    return node(graph, ggml_reshape_2d(graph->room(), columns, taps * channels, time * lanes));
}

namespace {

// GGML's operation for images, here one pixel high, with the channels of a pixel next to each other.
ggml_tensor *depthwise_image(GraphContext &graph, ggml_tensor *x, ggml_tensor *kernel) {
    ggml_tensor *image = ggml_reshape_4d(graph.room(), x, x->ne[0], x->ne[1], 1, x->ne[2]);
    image = ggml_permute(graph.room(), image, 2, 0, 1, 3);
    ggml_tensor *window = ggml_reshape_4d(graph.room(), kernel, kernel->ne[0], 1, kernel->ne[1], 1);
    window = ggml_permute(graph.room(), window, 3, 2, 0, 1);
    return ggml_conv_2d_dw_direct(graph.room(), window, image, 1, 1, 0, 0, 1, 1);
}

}  // namespace

Tensor depthwise_conv1d(const Tensor &a, const Tensor &kernel) {
    const auto graph = common_graph("depthwise_conv1d", {&a, &kernel});
    require_type("depthwise_conv1d", a, GGML_TYPE_F32);
    require_type("depthwise_conv1d", kernel, GGML_TYPE_F32);
    const int64_t channels = a.raw->ne[0], lanes = a.raw->ne[2], taps = kernel.raw->ne[1];
    const int64_t time = a.raw->ne[1] - taps + 1;
    if (kernel.raw->ne[0] != channels || ggml_nelements(kernel.raw) != channels * taps || time < 1 ||
        a.raw->ne[3] != 1)
        refuse("depthwise_conv1d", describe(a) + " with " + describe(kernel));
    ggml_tensor *image = depthwise_image(*graph, dense(a).raw, dense(kernel).raw);
    if (ggml_backend_supports_op(graph->backend().handle(), image)) {
        image = ggml_permute(graph->room(), image, 1, 2, 0, 3);
        return reshape(node(graph, image), {channels, time, lanes});
    }
    Tensor sum = multiply(slice(a, 1, 0, time), slice(kernel, 1, 0, 1));
    for (int64_t tap = 1; tap < taps; ++tap)
        sum = add(sum, multiply(slice(a, 1, tap, time), slice(kernel, 1, tap, 1)));
    return sum;
}

Tensor set_rows(const Tensor &destination, const Tensor &values, const Tensor &ids) {
    const auto graph = common_graph("set_rows", {&destination, &values, &ids});
    require_readable("set_rows", destination);
    require_type("set_rows", values, GGML_TYPE_F32);
    const ggml_tensor *d = destination.raw, *v = values.raw, *i = ids.raw;
    if (i->type != GGML_TYPE_I64 && i->type != GGML_TYPE_I32)
        refuse("set_rows", "ids " + describe(ids));
    // Ids are [rows], the same in all slots, or [rows, 1, slots].
    if (d->ne[0] != v->ne[0] || d->ne[2] != v->ne[2] || d->ne[3] != v->ne[3] || i->ne[0] != v->ne[1] ||
        i->ne[1] != 1 || (i->ne[2] != 1 && i->ne[2] != v->ne[3]) || i->ne[3] != 1) {
        refuse("set_rows", describe(values) + " at " + describe(ids) + " into " + describe(destination));
    }
    limit_ids(*graph, ids, d->ne[1]);
    return node(graph, ggml_set_rows(graph->room(), destination.raw, with_rows(values).raw, dense(ids).raw));
}

}  // namespace ggtts
