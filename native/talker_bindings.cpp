// The Python face of the talker's kernel.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <utility>

#include "bindings.hpp"
#include "talker_plan.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace ggtts {
namespace {

using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

using Numbers = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

nb::ndarray<nb::numpy, float> new_rows(size_t rows, int size) {
    auto *memory = new float[rows * static_cast<size_t>(size)];
    nb::capsule owner(memory, [](void *pointer) noexcept { delete[] static_cast<float *>(pointer); });
    return nb::ndarray<nb::numpy, float>(memory, {rows, static_cast<size_t>(size)}, owner);
}

nb::ndarray<nb::numpy, float> new_vector(int size) {
    auto *memory = new float[static_cast<size_t>(size)]();
    nb::capsule owner(memory, [](void *pointer) noexcept { delete[] static_cast<float *>(pointer); });
    return nb::ndarray<nb::numpy, float>(memory, {static_cast<size_t>(size)}, owner);
}

nb::tuple step(TalkerPlan &plan, const State &state, int slot, int position, const Row &row) {
    if (row.shape(0) != static_cast<size_t>(plan.sizes().width))
        throw std::invalid_argument("a row must have " + std::to_string(plan.sizes().width) + " values");
    auto hidden = new_vector(plan.sizes().width), logits = new_vector(plan.sizes().vocabulary);
    {
        nb::gil_scoped_release release;
        plan.step(state, slot, position, row.data(), hidden.data(), logits.data());
    }
    return nb::make_tuple(hidden, logits);
}

// Steps that a plan has begun. It outlives neither the plan nor the state: it has them.
class BegunSteps {
public:
    BegunSteps(nb::handle plan, nb::handle state, size_t count)
        : plan_(nb::borrow(plan)),
          state_(nb::borrow(state)),
          hidden_(new_rows(count, this->plan().sizes().width)),
          logits_(new_rows(count, this->plan().sizes().vocabulary)) {}
    BegunSteps(const BegunSteps &) = delete;
    BegunSteps &operator=(const BegunSteps &) = delete;
    ~BegunSteps() {
        try {
            finish();
        } catch (const std::exception &) {
            // Nobody asked for it.
        }
    }

    void begin(const Numbers &slots, const Numbers &positions, const Rows &rows) {
        const auto &state = nb::cast<const State &>(state_);
        const NewPositions wanted{static_cast<int>(slots.shape(0)),
                                  slots.data(),
                                  positions.data(),
                                  rows.data(),
                                  hidden_.data(),
                                  logits_.data()};
        TalkerPlan &plan = this->plan();
        nb::gil_scoped_release release;
        steps_ = plan.begin_together(state, wanted);
    }

    nb::tuple result() {
        finish();
        return nb::make_tuple(hidden_, logits_);
    }

private:
    TalkerPlan &plan() const { return nb::cast<TalkerPlan &>(plan_); }

    void finish() {
        if (steps_ == nullptr)
            return;
        TalkerPlan &plan = this->plan();
        nb::gil_scoped_release release;
        const auto steps = std::exchange(steps_, nullptr);
        plan.finish_together(*steps);
    }

    nb::object plan_, state_;
    nb::ndarray<nb::numpy, float> hidden_, logits_;
    std::shared_ptr<StepsUnderWay> steps_;
};

std::unique_ptr<BegunSteps> begin_together(nb::handle_t<TalkerPlan> self, nb::handle_t<State> state,
                                           const Numbers &slots, const Numbers &positions, const Rows &rows) {
    const auto &plan = nb::cast<const TalkerPlan &>(self);
    const size_t count = slots.shape(0);
    if (positions.shape(0) != count || rows.shape(0) != count ||
        rows.shape(1) != static_cast<size_t>(plan.sizes().width))
        throw std::invalid_argument("a step takes a slot, a position and a row of " +
                                    std::to_string(plan.sizes().width) + " values for each");
    auto begun = std::make_unique<BegunSteps>(self, state, count);
    begun->begin(slots, positions, rows);
    return begun;
}

}  // namespace

void bind_talker(nb::module_ &module) {
    using talker::Sizes;
    nb::class_<Sizes>(module, "TalkerSizes", "Sizes of a talker.")
        .def(
            "__init__",
            [](Sizes *sizes, int layers, int width, int ffn_width, int heads, int kv_heads, int head_dim,
               int vocabulary, float norm_eps) {
                new (sizes) Sizes{layers, width, ffn_width, heads, kv_heads, head_dim, vocabulary, norm_eps};
            },
            nb::kw_only(), "layers"_a, "width"_a, "ffn_width"_a, "heads"_a, "kv_heads"_a, "head_dim"_a,
            "vocabulary"_a, "norm_eps"_a);
    nb::class_<TalkerPlan>(module, "TalkerPlan", "One more position of a talker as one kernel.")
        .def(
            "__init__",
            [](TalkerPlan *plan, const std::shared_ptr<Weights> &weights, const std::string &scope,
               const Sizes &sizes, float rope_theta, std::optional<std::pair<int, int>> emulated) {
                std::optional<TalkerPlan::Emulation> emulation;
                if (emulated)
                    emulation = {emulated->first, emulated->second};
                nb::gil_scoped_release release;
                new (plan) TalkerPlan(weights, scope, sizes, rope_theta, emulation ? &*emulation : nullptr);
            },
            "weights"_a, "scope"_a, "sizes"_a, "rope_theta"_a, nb::kw_only(), "emulated"_a = nb::none(),
            "`emulated`: loops on the CPU for so many blocks and warps, for tests.")
        .def_static("fits", &TalkerPlan::fits, "weights"_a, "scope"_a, "sizes"_a,
                    "Whether the kernel knows these weights, and this device runs it.")
        .def_prop_ro("most_positions", &TalkerPlan::most_positions, "Positions that it can attend to.")
        .def("step", &step, "state"_a, "slot"_a, "position"_a, "row"_a,
             "row [width] at a position -> the normed last state [width], logits [vocabulary]; keys and "
             "values are "
             "added to a slot of the state.")
        .def("prepare_together", &TalkerPlan::prepare_together, nb::call_guard<nb::gil_scoped_release>(),
             "Takes memory for steps of several slots; tells whether there can be such.")
        .def("begin_together", &begin_together, "state"_a, "slots"_a, "positions"_a, "rows"_a,
             "Begins to add rows [count, width] at positions of some slots, none twice.");
    nb::class_<BegunSteps>(module, "BegunSteps", "Steps of a talker that a device takes meanwhile.")
        .def("result", &BegunSteps::result,
             "Waits for states [count, width] and logits [count, vocabulary].");
}

}  // namespace ggtts
