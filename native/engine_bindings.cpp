// The Python face of the engine: devices, files, weights, graphs, programs and state.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include <packed_matrix.hpp>

#include "backend.hpp"
#include "bindings.hpp"
#include "gguf_file.hpp"
#include "graph.hpp"
#include "logging.hpp"
#include "metadata.hpp"
#include "tensor.hpp"
#include "weights.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace ggtts {
namespace {

// The bytes of a file name as os.fsencode gives them: on Linux a name need not be text.
std::string file_name(const nb::object &path) {
    PyObject *encoded = nullptr;
    if (PyUnicode_FSConverter(path.ptr(), &encoded) == 0)
        throw nb::python_error();
    const auto bytes = nb::steal<nb::bytes>(encoded);
    return {bytes.c_str(), bytes.size()};
}

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using IdArray = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::dlpack::dtype array_type(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32:
            return nb::dtype<float>();
        case GGML_TYPE_I32:
            return nb::dtype<int32_t>();
        case GGML_TYPE_I64:
            return nb::dtype<int64_t>();
        case GGML_TYPE_F16:
            return {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
        default:
            throw std::invalid_argument(std::string("no array of ") + ggml_type_name(type));
    }
}

// The array shape of a tensor: dimensions reversed, leading ones dropped.
std::vector<size_t> array_shape(const ggml_tensor *tensor) {
    std::vector<size_t> shape;
    for (int d = 3; d >= 0; --d) {
        if (!shape.empty() || tensor->ne[d] != 1 || d == 0)
            shape.push_back(static_cast<size_t>(tensor->ne[d]));
    }
    return shape;
}

std::string shape_text(const std::vector<size_t> &shape) {
    std::string text = "(";
    for (size_t i = 0; i < shape.size(); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    return text + ")";
}

void check_array(const std::string &name, const AnyArray &array, const ggml_tensor *tensor) {
    if (array.dtype() != array_type(tensor->type)) {
        throw nb::type_error(("'" + name + "' must be an array of " + ggml_type_name(tensor->type)).c_str());
    }
    std::vector<size_t> given;
    for (size_t d = 0; d < array.ndim(); ++d) {
        if (!given.empty() || array.shape(d) != 1 || d + 1 == array.ndim())
            given.push_back(array.shape(d));
    }
    if (given.empty())
        given.push_back(1);
    const auto wanted = array_shape(tensor);
    if (given != wanted) {
        throw std::invalid_argument("'" + name + "' must have the shape " + shape_text(wanted) + ", not " +
                                    shape_text(given));
    }
}

nb::ndarray<nb::numpy> new_array(const std::vector<size_t> &shape, ggml_type type) {
    size_t count = 1;
    for (const size_t size : shape)
        count *= size;
    auto *memory = new uint8_t[std::max<size_t>(1, count * ggml_type_size(type))];
    nb::capsule owner(memory, [](void *pointer) noexcept { delete[] static_cast<uint8_t *>(pointer); });
    return nb::ndarray<nb::numpy>(memory, shape.size(), shape.data(), owner, nullptr, array_type(type));
}

std::vector<Program::Input> bind_inputs(const Program &program, const nb::kwargs &arrays,
                                        std::vector<AnyArray> &held) {
    std::vector<Program::Input> inputs;
    for (const auto &[name, tensor] : program.inputs()) {
        if (!arrays.contains(name.c_str()))
            throw nb::type_error(("the input '" + name + "' is missing").c_str());
        AnyArray array;
        if (!nb::try_cast(arrays[name.c_str()], array)) {
            throw nb::type_error(("'" + name + "' must be a C-contiguous array").c_str());
        }
        check_array(name, array, tensor);
        inputs.push_back({array.data(), array.nbytes()});
        held.push_back(std::move(array));
    }
    if (arrays.size() != inputs.size()) {
        for (const auto &[key, value] : arrays) {
            const auto name = nb::cast<std::string>(key);
            if (program.inputs().count(name) == 0)
                throw nb::type_error(("there is no input '" + name + "'").c_str());
        }
    }
    return inputs;
}

nb::dict run_program(Program &program, const nb::kwargs &arrays) {
    std::vector<AnyArray> held;
    const auto inputs = bind_inputs(program, arrays, held);
    nb::dict results;
    std::vector<Program::Output> outputs;
    for (const auto &[name, tensor] : program.outputs()) {
        auto array = new_array(array_shape(tensor), tensor->type);
        outputs.push_back({array.data(), ggml_nbytes(tensor)});
        results[name.c_str()] = array;
    }
    nb::gil_scoped_release release;
    program.run(inputs, outputs);
    return results;
}

nb::list profile_program(Program &program, const nb::kwargs &arrays) {
    std::vector<AnyArray> held;
    const auto inputs = bind_inputs(program, arrays, held);
    std::vector<NodeTime> times;
    {
        nb::gil_scoped_release release;
        times = program.profile(inputs);
    }
    nb::list rows;
    for (const NodeTime &time : times) {
        rows.append(nb::make_tuple(time.operation, time.name, time.type, time.shape, time.milliseconds));
    }
    return rows;
}

// Weights in array order: dimensions reversed.
std::vector<size_t> stored_shape(const FileTensor &tensor) {
    std::vector<size_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    return shape;
}

nb::ndarray<nb::numpy> weight_array(const GgufFile &file, const std::string &name) {
    const FileTensor &tensor = file.weight(name);
    auto array = new_array(stored_shape(tensor), GGML_TYPE_F32);
    int64_t count = 1;
    for (const int64_t size : tensor.shape)
        count *= size;
    auto *out = static_cast<float *>(array.data());
    nb::gil_scoped_release release;
    to_float32(tensor.type, tensor.data, out, count);
    // A copy is made to be kept elsewhere: the pages it came from need not stay.
    file.mapping().release(tensor.data, tensor.bytes);
    return array;
}

constexpr size_t unlocked_values = 1 << 18;

nb::ndarray<nb::numpy> weight_rows(const GgufFile &file, const std::string &name, const IdArray &ids) {
    const FileTensor &tensor = file.weight(name);
    auto array = new_array({ids.shape(0), static_cast<size_t>(tensor.shape[0])}, GGML_TYPE_F32);
    auto *out = static_cast<float *>(array.data());
    // A few rows are read faster than the GIL comes back when other threads wait for it.
    std::optional<nb::gil_scoped_release> release;
    if (array.size() > unlocked_values)
        release.emplace();
    file.read_rows(tensor, ids.data(), ids.shape(0), out);
    return array;
}

void bind_devices(nb::module_ &m) {
    nb::class_<DeviceInfo>(m, "DeviceInfo", "A device GGML can compute on.")
        .def_ro("name", &DeviceInfo::name)
        .def_ro("description", &DeviceInfo::description)
        .def_ro("kind", &DeviceInfo::kind)
        .def_prop_ro(
            "memory",
            [](const DeviceInfo &info) {
                DeviceMemory memory;
                {
                    const nb::gil_scoped_release starts_drivers;
                    memory = info.memory();
                }
                return nb::make_tuple(memory.total, memory.free);
            },
            "(total, free) in bytes, 0 where unknown.");
    m.def("load_backends", &load_backends, "directory"_a, nb::call_guard<nb::gil_scoped_release>(),
          "Load the backends of a libggml built to find them at run time.");
    m.def("devices", &list_devices, "Every device of this build of GGML.");
    m.def("version", &ggml_version, "The version of GGML.");
    m.def(
        "set_log",
        [](nb::object receiver) {
            if (receiver.is_none())
                return set_log_sink({});
            // The log may outlive the interpreter, and be written to by a thread that has not got the GIL.
            const std::shared_ptr<PyObject> callable(receiver.release().ptr(), [](PyObject *object) {
                if (!Py_IsInitialized())
                    return;
                const nb::gil_scoped_acquire acquire;
                Py_DECREF(object);
            });
            set_log_sink([callable](LogLevel level, const std::string &line) {
                if (!Py_IsInitialized())
                    return;
                const nb::gil_scoped_acquire acquire;
                try {
                    nb::handle(callable.get())(static_cast<int>(level), line);
                } catch (const nb::python_error &) {
                    // A log line must not break a computation.
                }
            });
        },
        "receiver"_a.none(), "Send GGML's log lines to receiver(level, line); None silences them.");
}

// GGML may log, which takes the GIL, while it computes and while it allocates. So whoever waits for a lock
// that is held meanwhile does so without the GIL, or both would wait for ever.
const nb::call_guard<nb::gil_scoped_release> waits;

void bind_backends(nb::module_ &m) {
    nb::class_<ThreadShare>(m, "ThreadShare", "How two backends share the threads of the CPU: for tests.")
        .def(nb::init<int, int>(), "all"_a, "aside"_a)
        .def("first_begins", &ThreadShare::first_begins, waits)
        .def("first_ends", &ThreadShare::first_ends, waits)
        .def("second_begins", &ThreadShare::second_begins, waits)
        .def("second_ends", &ThreadShare::second_ends, waits)
        .def("begin_sharing", &ThreadShare::begin_sharing, waits)
        .def("end_sharing", &ThreadShare::end_sharing, waits);
    nb::class_<RightOfWay>(m, "RightOfWay", "Who goes first on a device that two backends share: for tests.")
        .def(nb::init<>())
        .def("take", &RightOfWay::take, waits)
        .def("leave", &RightOfWay::leave, waits)
        .def("give", &RightOfWay::give, waits);
    nb::class_<Backend>(m, "Backend", "A device ready to compute.")
        .def(nb::init<const std::string &, int, int, bool, bool>(), "device"_a, "threads"_a,
             "poll"_a = default_poll, "exact"_a = false, "stock"_a = false, waits)
        .def_static(
            "beside",
            [](std::shared_ptr<Backend> first, int aside) {
                return std::make_shared<Backend>(std::move(first), aside);
            },
            "first"_a, "aside"_a, waits,
            "A second one for the same device, whose programs run at the same time, `aside` of the CPU's "
            "threads for them.")
        .def("begin_sharing", &Backend::begin_sharing,
             "Of a second one: leave threads to the first one also between its runs, until `end_sharing`.")
        .def("end_sharing", &Backend::end_sharing)
        .def(
            "take_right_of_way", &Backend::take_right_of_way, waits,
            "Of a second one: what the first one is to run waits until `leave_right_of_way`. Not on the CPU.")
        .def("leave_right_of_way", &Backend::leave_right_of_way, waits)
        .def_prop_ro("info", &Backend::info)
        .def_prop_ro("has_own_operations", &Backend::has_own_operations)
        .def_prop_ro("threads", &Backend::threads)
        .def_prop_ro("features", &Backend::features)
        .def(
            "keeps_all_bits",
            [](Backend &backend, const std::string &type) {
                return backend.keeps_all_bits(parse_type(type));
            },
            "dtype"_a = "f32", waits,
            "Compute a product with weights of that type, and tell whether all bits of its float32 factors "
            "were kept.");
}

using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Columns = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::ndarray<nb::numpy> quantize_rows(const Rows &values, const std::string &type_name,
                                     const std::optional<Columns> &importance) {
    const ggml_type type = parse_type(type_name);
    const auto rows = static_cast<int64_t>(values.shape(0)), width = static_cast<int64_t>(values.shape(1));
    if (importance && importance->shape(0) != values.shape(1)) {
        throw std::invalid_argument("the importance of " + std::to_string(importance->shape(0)) +
                                    " columns for rows of " + std::to_string(width));
    }
    auto stored = std::make_unique<std::vector<uint8_t>>();
    {
        nb::gil_scoped_release release;
        *stored = from_float32(type, values.data(), rows, width, importance ? importance->data() : nullptr);
    }
    const size_t shape[1] = {stored->size()};
    uint8_t *data = stored->data();
    nb::capsule owner(stored.release(),
                      [](void *pointer) noexcept { delete static_cast<std::vector<uint8_t> *>(pointer); });
    return nb::ndarray<nb::numpy>(data, 1, shape, owner, nullptr, nb::dtype<uint8_t>());
}

void bind_types(nb::module_ &m) {
    m.def("quantize_rows", &quantize_rows, "values"_a, "dtype"_a, "importance"_a.none() = nb::none(),
          "float32 [rows, width] as bytes of `dtype`, by GGML's reference quantisation. Releases the GIL.");
    m.def(
        "type_layout",
        [](const std::string &name) {
            const ggml_type type = parse_type(name);
            return nb::make_tuple(ggml_blck_size(type), ggml_type_size(type), static_cast<int>(type));
        },
        "dtype"_a, "Values per block, bytes per block, and the number of the type in a GGUF file.");
}

void bind_files(nb::module_ &m) {
    nb::class_<GgufFile>(m, "GgufFile", "A GGUF file mapped into memory.")
        .def(
            "__init__", [](GgufFile *file, const nb::object &path) { new (file) GgufFile(file_name(path)); },
            "path"_a, nb::sig("def __init__(self, path: str | bytes | os.PathLike[str]) -> None"))
        .def_prop_ro("path",
                     [](const GgufFile &file) {
                         return nb::steal<nb::str>(PyUnicode_DecodeFSDefaultAndSize(
                             file.path().data(), static_cast<Py_ssize_t>(file.path().size())));
                     })
        .def_prop_ro("metadata", [](const GgufFile &file) { return metadata(file); })
        .def_prop_ro("names",
                     [](const GgufFile &file) {
                         std::vector<std::string> names;
                         for (const FileTensor &tensor : file.tensors())
                             names.push_back(tensor.name);
                         return names;
                     })
        .def("__contains__", &GgufFile::contains, "name"_a)
        .def(
            "shape",
            [](const GgufFile &file, const std::string &name) {
                return nb::tuple(nb::cast(stored_shape(file.tensor(name))));
            },
            "name"_a, "Array order, without leading ones.")
        .def(
            "dtype",
            [](const GgufFile &file, const std::string &name) {
                return std::string(ggml_type_name(file.tensor(name).type));
            },
            "name"_a)
        .def(
            "nbytes", [](const GgufFile &file, const std::string &name) { return file.tensor(name).bytes; },
            "name"_a)
        .def("array", &weight_array, "name"_a, "A float32 copy.")
        .def("rows", &weight_rows, "name"_a, "ids"_a, "Rows of a matrix as float32 [ids, width].");
}

std::optional<ggml_type> optional_type(const std::optional<std::string> &name) {
    return name ? std::optional(parse_type(*name)) : std::nullopt;
}

void bind_weights(nb::module_ &m) {
    m.def("packed_instruction_sets", &kernels::PackedMatrix::instruction_sets,
          "Of packed quantised matrices: what this processor can run, the best first.");
    nb::class_<Weights>(m, "Weights", "The weights of one file on one device.")
        .def(nb::new_([](std::shared_ptr<Backend> backend, std::shared_ptr<const GgufFile> file) {
                 return std::make_shared<Weights>(std::move(backend), std::move(file));
             }),
             "backend"_a, "file"_a)
        .def(
            "matrix",
            [](Weights &weights, const std::vector<std::string> &names,
               const std::optional<std::string> &instruction_set, const std::optional<std::string> &type) {
                return weights.matrix(names, instruction_set, optional_type(type));
            },
            "names"_a, "instruction_set"_a = nb::none(), "dtype"_a = nb::none(), waits,
            "Several names are one matrix; `instruction_set` is one of packed_instruction_sets().")
        .def(
            "can_join",
            [](const Weights &weights, const std::vector<std::string> &names,
               const std::optional<std::string> &type) {
                return weights.can_join(names, optional_type(type));
            },
            "names"_a, "dtype"_a = nb::none(), waits)
        .def(
            "tensor",
            [](Weights &weights, const std::string &name, const std::optional<std::string> &type) {
                return weights.tensor(name, optional_type(type));
            },
            "name"_a, "dtype"_a = nb::none(), waits)
        .def(
            "constant",
            [](Weights &weights, const std::string &name, const FloatArray &values, const std::string &type,
               bool matrix) {
                std::vector<int64_t> shape;
                for (size_t d = values.ndim(); d > 0; --d)
                    shape.push_back(static_cast<int64_t>(values.shape(d - 1)));
                if (shape.empty())
                    shape.push_back(1);
                const ggml_type parsed = parse_type(type);
                const nb::gil_scoped_release unlocked;
                return weights.constant(name, shape, values.data(), parsed, matrix);
            },
            "name"_a, "values"_a, "dtype"_a, "matrix"_a)
        .def("place", &Weights::place, waits)
        .def_prop_ro("allocated_bytes", &Weights::allocated_bytes)
        .def_prop_ro("mapped_bytes", &Weights::mapped_bytes);
}

void bind_graphs(nb::module_ &m) {
    nb::class_<Program>(m, "Program", "A graph allocated once and run many times.")
        .def("__call__", &run_program, "inputs"_a)
        .def("profile", &profile_program, "inputs"_a,
             "Run node by node: (operation, name, operand type, shape, milliseconds).")
        .def_prop_ro("nodes", &Program::node_count)
        .def_prop_ro("operations", &Program::operation_count, "Nodes that are no views.")
        .def_prop_ro("buffer_bytes", &Program::buffer_bytes);
    nb::class_<Graph>(m, "Graph", "A graph under construction.")
        .def(nb::init<std::shared_ptr<Backend>, size_t>(), "backend"_a, "max_operations"_a)
        .def("input", &Graph::input, "name"_a, "shape"_a, "dtype"_a = "f32")
        .def("use", &Graph::use, "leaf"_a)
        .def("effect", &Graph::effect, "tensor"_a, "early"_a = false)
        .def("program", &Graph::program, "outputs"_a, waits);
    nb::class_<State>(m, "State", "Named tensors on a device that keep their contents between runs.")
        .def(nb::new_([](std::shared_ptr<Backend> backend, const State::Layout &layout) {
                 const nb::gil_scoped_release unlocked;
                 return std::make_shared<State>(std::move(backend), layout);
             }),
             "backend"_a, "layout"_a)
        .def("__getitem__", &State::tensor, "name"_a)
        .def_prop_ro("names", &State::names)
        .def_prop_ro("bytes", &State::bytes)
        .def("zero", &State::zero, waits)
        .def("copy_from", &State::copy_from, "other"_a, waits)
        .def(
            "read",
            [](State &state, const std::string &name) {
                const ggml_tensor *tensor = state.find(name);
                auto array = new_array(array_shape(tensor), tensor->type);
                const nb::gil_scoped_release unlocked;
                state.read(name, array.data(), ggml_nbytes(tensor));
                return array;
            },
            "name"_a)
        .def(
            "write",
            [](State &state, const std::string &name, const AnyArray &array) {
                check_array(name, array, state.find(name));
                const nb::gil_scoped_release unlocked;
                state.write(name, array.data(), array.nbytes());
            },
            "name"_a, "array"_a);
}

}  // namespace

void bind_engine(nb::module_ &module) {
    bind_devices(module);
    bind_backends(module);
    bind_types(module);
    bind_files(module);
    bind_weights(module);
    bind_plans(module);
    bind_tensors(module);
    bind_graphs(module);
}

}  // namespace ggtts
