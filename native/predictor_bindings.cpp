// The Python face of the predictor's kernel.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "bindings.hpp"
#include "predictor_plan.hpp"
#include "predictor_weights.hpp"
#include "tensor.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace ggtts {
namespace {

using Logits = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Inputs = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

template <class Value>
nb::ndarray<nb::numpy, Value> new_values(std::initializer_list<size_t> shape) {
    size_t count = 1;
    for (const size_t size : shape)
        count *= size;
    auto *memory = new Value[count]();
    nb::capsule owner(memory, [](void *pointer) noexcept { delete[] static_cast<Value *>(pointer); });
    return nb::ndarray<nb::numpy, Value>(memory, shape, owner);
}

nb::tuple expand(PredictorPlan &plan, const Inputs &inputs, const std::vector<FrameDraw> &draws,
                 bool with_logits) {
    const auto width = static_cast<size_t>(plan.sizes().talker_width);
    if (inputs.shape(0) != draws.size() || inputs.shape(1) != 2 || inputs.shape(2) != width) {
        throw std::invalid_argument("inputs must have the shape (" + std::to_string(draws.size()) + ", 2, " +
                                    std::to_string(width) + ")");
    }
    const auto others = static_cast<size_t>(plan.sizes().codebooks - 1);
    const auto entries = static_cast<size_t>(plan.sizes().entries);
    auto codes = new_values<int32_t>({draws.size(), others});
    auto sums = new_values<float>({draws.size(), width});
    auto logits = new_values<float>({with_logits ? draws.size() : 0, others, entries});
    {
        nb::gil_scoped_release release;
        plan.expand(inputs.data(), draws, codes.data(), sums.data(), with_logits ? logits.data() : nullptr);
    }
    return nb::make_tuple(codes, sums, logits);
}

using StoredRows = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Columns = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

nb::ndarray<nb::numpy, float> kernel_product(const StoredRows &weights, const std::string &type_name,
                                             const Columns &x, bool gated) {
    const ggml_type type = parse_type(type_name);
    const auto kind = weight_kind(type);
    const auto rows = static_cast<int>(weights.shape(0)), width = static_cast<int>(x.shape(1));
    const auto columns = static_cast<int>(x.shape(0));
    if (!kind || weights.shape(1) != ggml_row_size(type, width) || width % predictor::block_width != 0 ||
        columns % predictor::tensor_columns_step != 0)
        throw std::invalid_argument("weights and columns do not fit the kernel, or each other");
    const FileTensor stored{"", type, {width, rows}, weights.data(), weights.size()};
    const std::vector<uint8_t> packed = pack_weights({&stored}, width, false);
    const predictor::Matrix matrix{packed.data(), rows, predictor::whole_chunks(width), lift_of({&stored})};
    auto result = new_values<float>({x.shape(0), weights.shape(0)});
    predictor::emulated_product(*kind, matrix, gated, x.data(), width, columns, result.data());
    return result;
}

}  // namespace

void bind_predictor(nb::module_ &module) {
    nb::class_<FrameDraw>(module, "FrameDraw", "How the codes of one frame are chosen.")
        .def(
            "__init__",
            [](FrameDraw *draw, bool do_sample, float temperature, int32_t top_k, double top_p, uint64_t seed,
               uint64_t frame) {
                new (draw) FrameDraw{{do_sample, temperature, top_k, top_p, 1.0F}, seed, frame};
            },
            nb::kw_only(), "do_sample"_a, "temperature"_a, "top_k"_a, "top_p"_a, "seed"_a, "frame"_a)
        .def(
            "at",
            [](const FrameDraw &draw, uint64_t frame) {
                FrameDraw other = draw;
                other.frame = frame;
                return other;
            },
            "frame"_a, "The same for another frame.");
    module.def(
        "choose_code",
        [](const Logits &logits, const FrameDraw &draw, int codebooks, int codebook) {
            return choose_code(logits.data(), static_cast<int>(logits.shape(0)), draw, codebooks, codebook);
        },
        "logits"_a, "draw"_a, "codebooks"_a, "codebook"_a,
        "One choice of the kernel, emulated: a code, -1 where the logits are no numbers.");
    module.def(
        "kernel_product", &kernel_product, "weights"_a, "dtype"_a, "x"_a, "gated"_a = false,
        "A matrix product of the kernel for many columns, emulated: rows as a file stores them, x [columns, "
        "width] -> [columns, rows].");
    nb::class_<PredictorPlan>(module, "PredictorPlan", "The code predictor as one kernel for whole frames.")
        .def(
            "__init__",
            [](PredictorPlan *plan, std::shared_ptr<Backend> backend, std::shared_ptr<const GgufFile> file,
               const std::string &scope, int layers, int width, int ffn_width, int heads, int kv_heads,
               int head_dim, float rope_theta, float norm_eps, int talker_width, int codebooks, int entries,
               std::optional<std::pair<int, int>> emulated) {
                const predictor::Sizes sizes{layers,   width,        ffn_width, heads,   kv_heads,
                                             head_dim, talker_width, codebooks, entries, norm_eps};
                std::optional<PredictorPlan::Emulation> emulation;
                if (emulated)
                    emulation = {emulated->first, emulated->second};
                nb::gil_scoped_release release;
                new (plan) PredictorPlan(std::move(backend), std::move(file), scope, sizes, rope_theta,
                                         emulation ? &*emulation : nullptr);
            },
            "backend"_a, "file"_a, "scope"_a, nb::kw_only(), "layers"_a, "width"_a, "ffn_width"_a, "heads"_a,
            "kv_heads"_a, "head_dim"_a, "rope_theta"_a, "norm_eps"_a, "talker_width"_a, "codebooks"_a,
            "entries"_a, "emulated"_a = nb::none(),
            "`emulated`: loops on the CPU for so many blocks and warps, for tests.")
        .def_static("fits", &PredictorPlan::fits, "backend"_a, "file"_a, "scope"_a,
                    "Whether the kernel knows these weights, and this device runs it.")
        .def_prop_ro("most_columns", &PredictorPlan::most_columns,
                     "Frames that are computed together, at most.")
        .def("expand", &expand, "inputs"_a, "draws"_a, "with_logits"_a = false,
             "inputs [frames, 2, talker width] -> codes [frames, codebooks - 1], -1 where the logits are no "
             "numbers; "
             "sums of embeddings [frames, talker width]; logits [frames or 0, codebooks - 1, entries].");
}

}  // namespace ggtts
