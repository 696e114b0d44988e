// The Python face of tensors: operators, operations, and the plans of fused ones.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <conv1d.hpp>

#include <array>
#include <utility>

#include "backend.hpp"
#include "bindings.hpp"
#include "tensor.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace ggtts {
namespace {

using UnaryNames = std::array<std::pair<const char *, const char *>, 13>;
constexpr UnaryNames unary_names{{{"silu", "x * sigmoid(x)"},
                                  {"gelu", "The exact GELU, with the error function."},
                                  {"relu", "max(x, 0)"},
                                  {"elu", "x above 0, exp(x) - 1 below"},
                                  {"sigmoid", "1 / (1 + exp(-x))"},
                                  {"tanh", "The hyperbolic tangent."},
                                  {"exp", "e to the power x"},
                                  {"log", "The natural logarithm."},
                                  {"sqr", "x * x"},
                                  {"sqrt", "The square root."},
                                  {"sin", "The sine."},
                                  {"cos", "The cosine."},
                                  {"abs", "The absolute value."}}};

void bind_arithmetic(nb::class_<Tensor> &tensor) {
    tensor.def(
              "__add__", [](const Tensor &a, const Tensor &b) { return add(a, b); }, nb::is_operator())
        .def(
            "__sub__", [](const Tensor &a, const Tensor &b) { return subtract(a, b); }, nb::is_operator())
        .def(
            "__mul__", [](const Tensor &a, const Tensor &b) { return multiply(a, b); }, nb::is_operator())
        .def(
            "__truediv__", [](const Tensor &a, const Tensor &b) { return divide(a, b); }, nb::is_operator())
        .def(
            "__add__", [](const Tensor &a, float b) { return scale(a, 1.0f, b); }, nb::is_operator())
        .def(
            "__radd__", [](const Tensor &a, float b) { return scale(a, 1.0f, b); }, nb::is_operator())
        .def(
            "__sub__", [](const Tensor &a, float b) { return scale(a, 1.0f, -b); }, nb::is_operator())
        .def(
            "__rsub__", [](const Tensor &a, float b) { return scale(a, -1.0f, b); }, nb::is_operator())
        .def(
            "__mul__", [](const Tensor &a, float b) { return scale(a, b, 0.0f); }, nb::is_operator())
        .def(
            "__rmul__", [](const Tensor &a, float b) { return scale(a, b, 0.0f); }, nb::is_operator())
        .def(
            "__truediv__", [](const Tensor &a, float b) { return scale(a, 1.0f / b, 0.0f); },
            nb::is_operator())
        .def(
            "__neg__", [](const Tensor &a) { return scale(a, -1.0f, 0.0f); }, nb::is_operator())
        .def("__matmul__", [](const Tensor &a, const Tensor &b) { return matmul(a, b); }, nb::is_operator());
    for (const auto &[name, doc] : unary_names) {
        const std::string operation = name;
        tensor.def(name, [operation](const Tensor &a) { return unary(a, operation); }, doc);
    }
    tensor.def("clamp", &clamp, "low"_a, "high"_a)
        .def("swiglu", &swiglu, "up"_a, "silu(self) * up")
        .def("rms_norm", &rms_norm, "epsilon"_a, "Divide each row by its root mean square; no weights.")
        .def("layer_norm", &layer_norm, "epsilon"_a, "Each row to mean 0 and variance 1; no weights.")
        .def(
            "softmax",
            [](const Tensor &a, float factor, const std::optional<Tensor> &mask) {
                return softmax(a, factor, mask ? &*mask : nullptr);
            },
            "scale"_a = 1.0f, "mask"_a = nb::none(), "softmax(self * scale + mask) over dimension 0.")
        .def("sum_rows", &sum_rows, "Over dimension 0.")
        .def("mean_rows", &mean_rows, "Over dimension 0.")
        .def("argmax", &argmax, "i32: the first maximum over dimension 0.");
}

void bind_layout(nb::class_<Tensor> &tensor) {
    tensor
        .def(
            "reshape",
            [](const Tensor &a, const nb::args &shape) {
                return reshape(a, nb::cast<std::vector<int64_t>>(shape));
            },
            "shape"_a)
        .def(
            "permute", [](const Tensor &a, int i, int j, int k, int l) { return permute(a, {i, j, k, l}); },
            "axis0"_a, "axis1"_a, "axis2"_a, "axis3"_a = 3,
            "Dimension d of self becomes dimension axis_d of the result.")
        .def(
            "transpose", [](const Tensor &a) { return permute(a, {1, 0, 2, 3}); },
            "Dimensions 0 and 1 swapped: a view.")
        .def("contiguous", &contiguous)
        .def("slice", &slice, "dimension"_a, "start"_a, "length"_a, "A view.")
        .def("concat", &concat, "other"_a, "dimension"_a)
        .def(
            "repeat",
            [](const Tensor &a, const nb::args &shape) {
                return repeat(a, nb::cast<std::vector<int64_t>>(shape));
            },
            "shape"_a)
        .def("pad", &pad, "dimension"_a, "before"_a, "after"_a, "Zeros before and after.")
        .def("cast", &cast, "dtype"_a)
        .def("copy_to", &copy_to, "destination"_a,
             "A node that writes self into a piece of state: an effect.");
}

}  // namespace

void bind_tensors(nb::module_ &m) {
    nb::class_<Tensor> tensor(m, "Tensor",
                              "A node of a graph, or a weight or piece of state that one reads.");
    tensor
        .def_prop_ro("shape",
                     [](const Tensor &t) {
                         return nb::make_tuple(t.raw->ne[0], t.raw->ne[1], t.raw->ne[2], t.raw->ne[3]);
                     })
        .def_prop_ro("dtype", [](const Tensor &t) { return std::string(ggml_type_name(t.raw->type)); })
        .def_prop_ro(
            "on_cpu", [](const Tensor &t) { return t.graph && t.graph->backend().has_own_operations(); },
            "Whether the graph of this tensor runs on the CPU, where the fused operations are.")
        .def_prop_ro("is_contiguous", [](const Tensor &t) { return ggml_is_contiguous(t.raw); })
        .def("__repr__", [](const Tensor &t) { return "<Tensor " + describe(t) + ">"; });
    bind_arithmetic(tensor);
    bind_layout(tensor);
    tensor.def("get_rows", &get_rows, "ids"_a, "Rows of a table as f32 [width, ids].")
        .def("unfold", &unfold, "taps"_a, "dilation"_a = 1,
             "[channels, time - 1 + reach, lanes] -> the windows of a convolution, [taps * channels, time * "
             "lanes].")
        .def("depthwise_conv1d", &depthwise_conv1d, "kernel"_a,
             "[channels, time - 1 + taps, lanes] by a kernel [channels, taps] -> [channels, time, lanes].")
        .def("set_rows", &set_rows, "values"_a, "ids"_a,
             "self with `values` written at rows `ids`: read self through it.")
        .def("rope", &rope, "positions"_a, "dimensions"_a, "theta"_a,
             "Rotary embedding over half-split pairs.")
        .def(
            "flash_attention", &flash_attention, "keys"_a, "values"_a, "mask"_a.none(), "scale"_a,
            "mask f16 [positions, queries of a slot, 1, slots], an input or a `Graph.kept_mask`. Without one "
            "every query sees every key.")
        .def("attention", &attention, "keys"_a, "values"_a, "positions"_a, "scale"_a, "window"_a = 0,
             "causal"_a = true, "slots"_a.none() = nb::none(),
             "Keys [head_dim, positions, kv_heads, slots]: queries of sequence n read slot n, or slots[n].");
    tensor.def(
        "conv1d",
        [](const Tensor &x, std::shared_ptr<const kernels::ConvPlan> plan, const Tensor *residual) {
            return conv1d(x, std::move(plan), residual);
        },
        "plan"_a, "residual"_a.none() = nb::none(),
        "[inputs, (time - 1) * stride + reach, lanes] -> [outputs, time, lanes], plus the residual.");
    tensor.def(
        "activate",
        [](const Tensor &x, const std::string &activation, const std::vector<Tensor> &vectors, int64_t before,
           int64_t after, const Tensor *context, const std::string &instruction_set) {
            return activate(x, activation, vectors, {before, after, context}, instruction_set);
        },
        "activation"_a, "vectors"_a = std::vector<Tensor>(), "before"_a = 0, "after"_a = 0,
        "context"_a.none() = nb::none(), "instruction_set"_a = "best",
        "A pointwise function of [channels, time, lanes], between zeros or behind a context "
        "[channels, before, lanes].");
    tensor.def("affine_layer_norm", &affine_layer_norm, "weight"_a, "bias"_a, "epsilon"_a,
               "instruction_set"_a = "best", "Over dimension 0, times the weight, plus the bias.");
    m.def("matmul", &matmul, "weights"_a, "inputs"_a, "weights [k, m] x inputs [k, n] -> [m, n].");
    m.attr("MASK_ROWS_BEHIND") = mask_rows_behind;
}

}  // namespace ggtts
