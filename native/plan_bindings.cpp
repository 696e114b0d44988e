// The Python face of convolution plans, and sums and products that are no part of a graph.
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <conv1d.hpp>
#include <exact_product.hpp>

#include <vector_kernels.hpp>

#include "bindings.hpp"
#include "gguf_file.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace ggtts {
namespace {

using kernels::ConvPlan;
using kernels::ConvShape;
using Matrices = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Bias = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

int64_t size(const Matrices &matrices, size_t axis) {
    return static_cast<int64_t>(matrices.shape(axis));
}

const float *checked_bias(const std::optional<Bias> &bias, int64_t outputs) {
    if (!bias) {
        return nullptr;
    }
    if (static_cast<int64_t>(bias->shape(0)) != outputs) {
        throw std::invalid_argument("a bias of " + std::to_string(bias->shape(0)) + " values for " +
                                    std::to_string(outputs) + " outputs");
    }
    return bias->data();
}

int64_t outputs_of_group(int64_t outputs, int64_t groups) {
    if (groups < 1 || outputs % groups != 0) {
        throw std::invalid_argument(std::to_string(outputs) + " outputs do not make " +
                                    std::to_string(groups) + " equal groups");
    }
    return outputs / groups;
}

std::shared_ptr<const ConvPlan> plan_of_matrices(const Matrices &matrices, const std::optional<Bias> &bias,
                                                 int64_t dilation, const std::string &instruction_set,
                                                 int64_t stride, int64_t groups) {
    const ConvShape shape{size(matrices, 0), outputs_of_group(size(matrices, 1), groups),
                          size(matrices, 2), groups,
                          dilation,          stride};
    const float *values = checked_bias(bias, size(matrices, 1));
    return kernels::packed_conv(shape, matrices.data(), values, instruction_set);
}

using Sizes = std::array<int64_t, 3>;

int checked_threads(int threads) {
    if (threads < 1) {
        throw std::invalid_argument("threads must be at least 1, not " + std::to_string(threads));
    }
    return threads;
}

// A weight of a file, which must have so many values.
kernels::StoredWeights stored_weights(std::shared_ptr<const GgufFile> file, const std::string &name,
                                      const Sizes &sizes, int threads) {
    const FileTensor &tensor = file->tensor(name);
    size_t present = 1, wanted = 1;
    for (const int64_t length : tensor.shape) {
        present *= static_cast<size_t>(length);
    }
    for (const int64_t length : sizes) {
        if (length < 1) {
            throw std::invalid_argument("a convolution without weights");
        }
        wanted *= static_cast<size_t>(length);
    }
    if (wanted != present) {
        throw std::invalid_argument("'" + name + "' has " + std::to_string(present) + " values, not " +
                                    std::to_string(sizes[0]) + " x " + std::to_string(sizes[1]) + " x " +
                                    std::to_string(sizes[2]));
    }
    const auto release = [&mapping = file->mapping()](const void *begin, size_t bytes) {
        mapping.release(begin, bytes);
    };
    return {tensor.data, tensor.type, file, release, threads};
}

std::shared_ptr<const ConvPlan> plan_of_file(std::shared_ptr<const GgufFile> file, const std::string &name,
                                             const Sizes &sizes, const std::optional<Bias> &bias,
                                             int64_t dilation, const std::string &instruction_set,
                                             int64_t stride, int64_t groups, bool packed, int64_t period,
                                             int threads) {
    const auto [outputs, inputs, taps] = sizes;
    const ConvShape shape{taps, outputs_of_group(outputs, groups), inputs, groups, dilation, stride};
    auto weights = stored_weights(std::move(file), name, sizes, checked_threads(threads));
    const float *values = checked_bias(bias, outputs);
    const nb::gil_scoped_release unlocked;
    if (period > 0) {
        return kernels::periodic_conv(shape, weights, values, period, instruction_set);
    }
    if (packed) {
        return kernels::packed_conv(shape, weights, values, instruction_set);
    }
    return kernels::stored_conv(shape, std::move(weights), values, instruction_set);
}

std::shared_ptr<const ConvPlan> transposed_plan_of_file(std::shared_ptr<const GgufFile> file,
                                                        const std::string &name, const Sizes &sizes,
                                                        const std::optional<Bias> &bias, int64_t stride,
                                                        const std::string &instruction_set, int threads,
                                                        int64_t period) {
    const auto [inputs, outputs, kernel] = sizes;
    const auto weights = stored_weights(std::move(file), name, sizes, checked_threads(threads));
    const float *values = checked_bias(bias, outputs);
    const nb::gil_scoped_release unlocked;
    return kernels::transposed_conv({inputs, outputs, kernel, stride}, weights, values, period,
                                    instruction_set);
}

using ExactRows = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatRows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

nb::ndarray<nb::numpy, double> exact_product(const ExactRows &x, const FloatRows &weights,
                                             const std::string &instruction_set) {
    if (x.shape(1) != weights.shape(1)) {
        throw std::invalid_argument("rows of " + std::to_string(x.shape(1)) + " values and weights of " +
                                    std::to_string(weights.shape(1)));
    }
    const auto &kernels = kernels::vector_kernels(instruction_set);
    const size_t rows = x.shape(0), outputs = weights.shape(0);
    auto *y = new double[rows * outputs];
    const nb::capsule owner(y, [](void *values) noexcept { delete[] static_cast<double *>(values); });
    {
        const nb::gil_scoped_release unlocked;
        kernels::exact_product(kernels, x.data(), static_cast<int64_t>(rows), weights.data(),
                               static_cast<int64_t>(outputs), static_cast<int64_t>(x.shape(1)), y);
    }
    return nb::ndarray<nb::numpy, double>(y, {rows, outputs}, owner);
}

using FloatRow = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// numpy gives the GIL away for every row of that size, and waits to get it back.
nb::ndarray<nb::numpy, float> sums_of_rows(const std::vector<FloatRow> &rows,
                                           const std::vector<FloatRow> &others) {
    const size_t count = rows.size(), width = count == 0 ? 0 : rows.front().shape(0);
    const auto fits = [width](const FloatRow &row) { return row.shape(0) == width; };
    if (others.size() != count || !std::all_of(rows.begin(), rows.end(), fits) ||
        !std::all_of(others.begin(), others.end(), fits)) {
        throw std::invalid_argument("there must be as many rows as others, of one width");
    }
    auto *sums = new float[count * width];
    const nb::capsule owner(sums, [](void *values) noexcept { delete[] static_cast<float *>(values); });
    for (size_t row = 0; row < count; ++row) {
        std::transform(rows[row].data(), rows[row].data() + width, others[row].data(), sums + row * width,
                       std::plus<>());
    }
    return nb::ndarray<nb::numpy, float>(sums, {count, width}, owner);
}

}  // namespace

void bind_plans(nb::module_ &m) {
    nb::class_<ConvPlan>(m, "ConvPlan", "The weights of a convolution as the CPU reads them.")
        .def(nb::new_(&plan_of_matrices), "matrices"_a, "bias"_a.none(), "dilation"_a = 1,
             "instruction_set"_a = "best", "stride"_a = 1, "groups"_a = 1,
             "Packed from matrices [taps, outputs, inputs of a group] and a bias [outputs] or None.")
        .def_static("of_file", &plan_of_file, "file"_a, "name"_a, "sizes"_a, "bias"_a.none(),
                    "dilation"_a = 1, "instruction_set"_a = "best", "stride"_a = 1, "groups"_a = 1,
                    "packed"_a = false, "period"_a = 0, "threads"_a = 1,
                    "Of weights (outputs, inputs of a group, taps) of a file, packed by so many threads or "
                    "read where they lie; with a period, results may depend on their place in it, and take "
                    "less work.")
        .def_static(
            "transposed_of_file", &transposed_plan_of_file, "file"_a, "name"_a, "sizes"_a, "bias"_a.none(),
            "stride"_a, "instruction_set"_a = "best", "threads"_a = 1, "period"_a = 0,
            "Of a transposed convolution's weights (inputs, outputs, kernel): stride * outputs an input; the "
            "period is one of inputs.")
        .def_prop_ro(
            "reach", [](const ConvPlan &plan) { return plan.shape().reach(); },
            "How many samples an output reads, gaps included.");
    m.def("exact_product", &exact_product, "x"_a, "weights"_a, "instruction_set"_a = "best",
          "x [rows, inputs] times the transpose of weights [outputs, inputs], in float64 on the calling "
          "thread.");
    m.def("sums_of_rows", &sums_of_rows, "rows"_a, "others"_a,
          "Rows [width] and as many others, added one by one: [rows, width].");
    m.def("instruction_sets", &kernels::instruction_sets,
          "What the kernels of this processor are called, best first.");
}

}  // namespace ggtts
