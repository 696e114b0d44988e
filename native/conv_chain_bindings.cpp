// The Python face of chains of convolutions.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "bindings.hpp"
#include "conv_chain.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace ggtts {
namespace {

using Matrices = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

conv::Trunk parse_trunk(const std::string &name) {
    if (name == "apart")
        return conv::Trunk::apart;
    if (name == "begins")
        return conv::Trunk::begins;
    if (name == "joins")
        return conv::Trunk::joins;
    throw std::invalid_argument("a layer is apart, or begins a trunk, or joins it, not '" + name + "'");
}

conv::Kind parse_kind(const std::string &name) {
    if (name == "tf32")
        return conv::Kind::rounded;
    if (name == "f16")
        return conv::Kind::halves;
    if (name == "f32")
        return conv::Kind::exact;
    throw std::invalid_argument("products are tf32, f16 or f32, not '" + name + "'");
}

const float *values_of(const std::optional<Vector> &vector, int64_t wanted, const char *what) {
    if (!vector)
        return nullptr;
    if (static_cast<int64_t>(vector->shape(0)) != wanted)
        throw std::invalid_argument(std::string(what) + " must have " + std::to_string(wanted) + " values");
    return vector->data();
}

void add_layer(ConvChain &chain, const Matrices &matrices, const std::optional<Vector> &bias, int dilation,
               int stride, const std::optional<Vector> &frequency, const std::optional<Vector> &magnitude,
               const std::string &trunk, bool limited) {
    ChainLayer layer{};
    layer.taps = static_cast<int>(matrices.shape(0));
    layer.outputs = static_cast<int>(matrices.shape(1));
    layer.inputs = static_cast<int>(matrices.shape(2));
    layer.dilation = dilation;
    layer.stride = stride;
    layer.matrices = matrices.data();
    layer.bias = values_of(bias, layer.outputs, "a bias");
    if (stride < 1 || frequency.has_value() != magnitude.has_value())
        throw std::invalid_argument("a stride is positive, and a snake has frequencies and magnitudes");
    layer.frequency = values_of(frequency, layer.outputs / stride, "frequencies");
    layer.magnitude = values_of(magnitude, layer.outputs / stride, "magnitudes");
    layer.trunk = parse_trunk(trunk);
    layer.limited = limited;
    nb::gil_scoped_release release;
    chain.add(layer);
}

nb::ndarray<nb::numpy, float> run(ConvChain &chain, const State &x, int time, const State &memory,
                                  const std::vector<int32_t> &lanes) {
    if (chain.layers() == 0 || time < 1)
        throw std::invalid_argument("a chain without layers or positions");
    const size_t streams = lanes.size();
    const auto rows = static_cast<size_t>(time) * static_cast<size_t>(chain.factor());
    const auto width = static_cast<size_t>(chain.outputs());
    auto *values = new float[streams * rows * width];
    nb::capsule owner(values, [](void *pointer) noexcept { delete[] static_cast<float *>(pointer); });
    {
        nb::gil_scoped_release release;
        chain.run(x, time, memory, lanes, values);
    }
    return nb::ndarray<nb::numpy, float>(values, {streams, rows, width}, owner);
}

}  // namespace

void bind_conv_chain(nb::module_ &module) {
    nb::class_<ConvChain>(module, "ConvChain", "Convolutions one after the other as kernels of their own.")
        .def(
            "__init__",
            [](ConvChain *chain, std::shared_ptr<Backend> backend, const std::string &products,
               std::optional<int> emulated) {
                const conv::Kind kind = parse_kind(products);
                nb::gil_scoped_release release;
                new (chain) ConvChain(std::move(backend), kind, emulated);
            },
            "backend"_a, "products"_a, nb::kw_only(), "emulated"_a = nb::none(),
            "`products`: tf32, f16, or f32, which keep all bits; `emulated`: loops on the CPU for so many "
            "processors, for tests.")
        .def_static("fits", &ConvChain::fits, "backend"_a, "Whether this device runs such kernels.")
        .def("add", &add_layer, "matrices"_a, "bias"_a.none(), nb::kw_only(), "dilation"_a = 1,
             "stride"_a = 1, "frequency"_a.none() = nb::none(), "magnitude"_a.none() = nb::none(),
             "trunk"_a = "apart", "limited"_a = false,
             "A layer of matrices [taps, stride * outputs, inputs], with the snake behind it.")
        .def("run", &run, "x"_a, "time"_a, "memory"_a, "lanes"_a,
             "\"x\" [inputs, time, streams] -> [streams, time * factor, outputs]; the memory of each stream "
             "is in "
             "its lane.")
        .def_prop_ro("layers", &ConvChain::layers, "How many layers there are.");
}

}  // namespace ggtts
