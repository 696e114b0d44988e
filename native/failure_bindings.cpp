// What Python sees of failures: exceptions, and a way to try them.
#include <ggml.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <system_error>
#include <vector>

#include "backend.hpp"
#include "bindings.hpp"
#include "descriptions.hpp"
#include "errors.hpp"
#include "ggml_failures.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace ggtts {
namespace {

// As GGML does it: each line is logged, then it gives up.
void log_and_abort(ggml_tensor *, const ggml_tensor *, int, int, void *errors) {
    ggml_log_callback log = nullptr;
    void *receiver = nullptr;
    ggml_log_get(&log, &receiver);
    for (const std::string &line : *static_cast<const std::vector<std::string> *>(errors))
        log(GGML_LOG_LEVEL_ERROR, (line + "\n").c_str(), receiver);
    GGML_ABORT("given up");
}

// Errors of Vulkan are those of a category of their own.
class DriverErrors : public std::error_category {
public:
    const char *name() const noexcept override { return "driver"; }
    std::string message(int) const override { return "as its driver says"; }
};

// What GGML's destructors do on a device that is lost: they give up, too.
struct GivesUp {
    bool then;
    ~GivesUp() {
        if (then)
            GGML_ABORT("given up while an error is on its way");
    }
};

struct Failure {
    std::string what;
    bool then_gives_up;
};

void throw_system_error(ggml_tensor *, const ggml_tensor *, int, int, void *data) {
    static const DriverErrors driver;
    const auto *failure = static_cast<const Failure *>(data);
    const GivesUp destroyed{failure->then_gives_up};
    throw std::system_error(std::error_code(-1, driver), failure->what);
}

// On one thread: exceptions do not leave others.
void compute(Backend &backend, ggml_custom1_op_t function, void *data) {
    const Descriptions descriptions(2 * ggml_tensor_overhead() + ggml_graph_overhead_custom(2, false));
    ggml_tensor *operand = ggml_new_tensor_1d(descriptions.get(), GGML_TYPE_F32, 1);
    ggml_tensor *operation = ggml_map_custom1(descriptions.get(), operand, function, 1, data);
    ggml_cgraph *graph = ggml_new_graph_custom(descriptions.get(), 2, false);
    ggml_build_forward_expand(graph, operation);
    const auto buffer = own(backend.device(), ggml_backend_alloc_ctx_tensors_from_buft(
                                                  descriptions.get(), backend.default_buffer_type()));
    backend.start(graph);
}

void give_up(Backend &backend, std::vector<std::string> errors, bool guarded) {
    const auto calls = [&] { compute(backend, log_and_abort, &errors); };
    const std::lock_guard lock(backend.turn());
    guarded ? backend.guarded(calls) : calls();
}

void fail_in_driver(Backend &backend, const std::string &what, bool then_gives_up) {
    Failure failure{what, then_gives_up};
    const std::lock_guard lock(backend.turn());
    backend.guarded([&] { compute(backend, throw_system_error, &failure); });
}

}  // namespace

void bind_failures(nb::module_ &module) {
    catch_failures_of_ggml();
    nb::exception<FileError>(module, "FileError", PyExc_RuntimeError);
    nb::exception<DeviceError>(module, "DeviceError", PyExc_RuntimeError);
    module.def(
        "give_up", &give_up, "backend"_a, "errors"_a, "guarded"_a = true,
        nb::call_guard<nb::gil_scoped_release>(),
        "Run an operation in which GGML logs some errors and gives up, on one thread of the CPU: for tests.");
    module.def("fail_in_driver", &fail_in_driver, "backend"_a, "what"_a, "then_gives_up"_a = false,
               nb::call_guard<nb::gil_scoped_release>(),
               "Run an operation that throws what Vulkan's headers do, on one thread of the CPU: for tests. "
               "With `then_gives_up`, GGML gives up while that is on its way.");
}

}  // namespace ggtts
