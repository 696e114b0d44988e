#include "graph.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "errors.hpp"
#include "logging.hpp"

namespace ggtts {
namespace {

constexpr char intermediate_results[] = "the intermediate results of a program";

void check_status(ggml_status status, const Backend &backend) {
    if (status == GGML_STATUS_SUCCESS)
        return;
    const std::string why =
        status == GGML_STATUS_ALLOC_FAILED ? "it ran out of memory" : "the computation failed";
    throw DeviceError("device '" + backend.info().name + "': " + why);
}

template <class Id>
void check_range(const std::string &name, const void *data, size_t bytes, int64_t rows) {
    const auto *ids = static_cast<const Id *>(data);
    for (size_t i = 0; i < bytes / sizeof(Id); ++i) {
        if (ids[i] < 0 || ids[i] >= rows) {
            throw std::out_of_range("input '" + name + "' holds the id " + std::to_string(ids[i]) +
                                    "; the table has " + std::to_string(rows) + " rows");
        }
    }
}

// What a device cannot run is named when the program is made, not found out while it runs.
void check_supported(const Backend &backend, ggml_cgraph *graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor *operation = ggml_graph_node(graph, i);
        if (!ggml_backend_supports_op(backend.handle(), operation)) {
            throw DeviceError(
                "device '" + backend.info().name + "' cannot run " + ggml_op_desc(operation) + " on " +
                ggml_type_name(operation->src[0] != nullptr ? operation->src[0]->type : operation->type));
        }
    }
}

size_t needed_bytes(const Backend &backend, ggml_cgraph *graph) {
    const auto plan = own(backend.device(), ggml_gallocr_new(backend.default_buffer_type()));
    size_t bytes = 0;
    if (plan)
        ggml_gallocr_reserve_n_size(plan.get(), graph, nullptr, nullptr, &bytes);
    return bytes;
}

// An input with the rows behind it that flash attention wants of a mask.
ggml_tensor *new_mask(ggml_context *room, const std::vector<int64_t> &shape) {
    Shape sizes{1, 1, 1, 1};
    std::copy(shape.begin(), shape.end(), sizes.begin());
    const int64_t rows = sizes[1] * sizes[2] * sizes[3];
    ggml_tensor *all = ggml_new_tensor_2d(room, GGML_TYPE_F16, sizes[0], rows + mask_rows_behind);
    const size_t row = all->nb[1], matrix = row * static_cast<size_t>(sizes[1]);
    return ggml_view_4d(room, all, sizes[0], sizes[1], sizes[2], sizes[3], row, matrix,
                        matrix * static_cast<size_t>(sizes[2]), 0);
}

}  // namespace

Program::Program(std::shared_ptr<GraphContext> context, const std::map<std::string, Tensor> &inputs,
                 const std::vector<std::pair<std::string, Tensor>> &outputs, const Effects &effects)
    : context_(std::move(context)) {
    guarded(context_->backend().device(), nullptr, [&] { build(outputs, effects); });
    for (const auto &[name, tensor] : inputs) {
        if (tensor.raw->buffer == nullptr)
            throw std::invalid_argument("nothing reads the input '" + name + "'");
        inputs_.emplace(name, tensor.raw);
    }
}

void Program::build(const std::vector<std::pair<std::string, Tensor>> &outputs, const Effects &effects) {
    std::vector<Tensor> results;
    for (const auto &[name, tensor] : outputs) {
        results.push_back(ggml_is_contiguous(tensor.raw) ? tensor : contiguous(tensor));
        ggml_set_output(results.back().raw);
        outputs_.emplace_back(name, results.back().raw);
    }
    ggml_context *room = context_->room();
    graph_ = ggml_new_graph_custom(room, context_->tensor_count() + tensors_per_operation, false);
    context_->place_leaves();
    // Late effects come last: a result that reads a piece of state sees it as it was before this run.
    for (const Tensor &effect : effects.early)
        ggml_build_forward_expand(graph_, effect.raw);
    for (const Tensor &result : results)
        ggml_build_forward_expand(graph_, result.raw);
    for (const Tensor &effect : effects.late)
        ggml_build_forward_expand(graph_, effect.raw);
    check_supported(context_->backend(), graph_);
    allocate();
}

Program::~Program() {
    if (scratch_plan_)
        context_->backend().scratch().remove(*scratch_plan_);
}

void Program::allocate() {
    Backend &backend = context_->backend();
    const ErrorsAre level(LogLevel::info);
    scratch_plan_ = backend.scratch().plan(context_->room(), graph_);
    if (!scratch_plan_) {
        allocator_ = own(backend.device(), ggml_gallocr_new(backend.default_buffer_type()));
        if (!allocator_ || !ggml_gallocr_alloc_graph(allocator_.get(), graph_)) {
            backend.refuse_memory(intermediate_results, needed_bytes(backend, graph_));
        }
        ggml_backend_buffer_t buffer = buffer_of(graph_);
        if (buffer != nullptr)
            scratch_plan_ = ScratchPlan::of(context_->room(), buffer, ggml_backend_buffer_get_size(buffer));
    }
    if (scratch_plan_) {
        allocator_.reset();
        backend.scratch().add(*scratch_plan_);
    }
}

void Program::take_scratch() {
    Backend &backend = context_->backend();
    if (scratch_plan_ && !backend.scratch().attach(*scratch_plan_)) {
        backend.refuse_memory(intermediate_results, scratch_plan_->bytes());
    }
}

int Program::node_count() const {
    return ggml_graph_n_nodes(graph_);
}

int Program::operation_count() const {
    int count = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph_); ++i) {
        const ggml_op operation = ggml_graph_node(graph_, i)->op;
        count += operation != GGML_OP_NONE && operation != GGML_OP_VIEW && operation != GGML_OP_RESHAPE &&
                 operation != GGML_OP_PERMUTE && operation != GGML_OP_TRANSPOSE;
    }
    return count;
}

size_t Program::buffer_bytes() const {
    return scratch_plan_ ? scratch_plan_->bytes() : ggml_gallocr_get_buffer_size(allocator_.get(), 0);
}

void Program::check_ids(const std::vector<Input> &inputs) const {
    size_t i = 0;
    for (const auto &[name, tensor] : inputs_) {
        const Input &input = inputs[i++];
        const int64_t *rows = context_->input_limit(tensor);
        if (rows == nullptr)
            continue;
        if (tensor->type == GGML_TYPE_I64) {
            check_range<int64_t>(name, input.data, input.bytes, *rows);
        } else {
            check_range<int32_t>(name, input.data, input.bytes, *rows);
        }
    }
}

void Program::set_inputs(const std::vector<Input> &inputs) {
    size_t i = 0;
    for (const auto &[name, tensor] : inputs_) {
        const Input &input = inputs[i++];
        ggml_backend_tensor_set_async(context_->backend().handle(), tensor, input.data, 0, input.bytes);
    }
}

// On CUDA, GGML captures a graph that it has seen before, and no graph may need more memory meanwhile. One
// that did not come to its end may: it has to look like another one, which it does with anything of its first
// node changed.
void Program::begin() {
    if (std::exchange(under_way_, true))
        ++ggml_graph_node(graph_, 0)->padding[0];
    check_status(context_->backend().start(graph_), context_->backend());
}

void Program::run(const std::vector<Input> &inputs, const std::vector<Output> &outputs) {
    check_ids(inputs);
    Backend &backend = context_->backend();
    backend.give_way();
    std::lock_guard lock(backend.turn());
    backend.guarded([&] {
        take_scratch();
        set_inputs(inputs);
        begin();
        for (size_t i = 0; i < outputs.size(); ++i) {
            ggml_backend_tensor_get_async(backend.handle(), outputs_[i].second, outputs[i].data, 0,
                                          outputs[i].bytes);
        }
        ggml_backend_synchronize(backend.handle());
    });
    under_way_ = false;
}

std::vector<NodeTime> Program::profile(const std::vector<Input> &inputs) {
    check_ids(inputs);
    Backend &backend = context_->backend();
    std::lock_guard lock(backend.turn());
    return backend.guarded([&] { return time_nodes(inputs); });
}

std::vector<NodeTime> Program::time_nodes(const std::vector<Input> &inputs) {
    using Clock = std::chrono::steady_clock;
    Backend &backend = context_->backend();
    take_scratch();
    set_inputs(inputs);
    ggml_backend_synchronize(backend.handle());
    const Descriptions scratch(ggml_graph_overhead_custom(1, false) * 2);
    ggml_cgraph *single = ggml_new_graph_custom(scratch.get(), 1, false);
    std::vector<NodeTime> times;
    for (int i = 0; i < ggml_graph_n_nodes(graph_); ++i) {
        ggml_tensor *operation = ggml_graph_node(graph_, i);
        ggml_graph_clear(single);
        ggml_graph_add_node(single, operation);
        const auto start = Clock::now();
        check_status(backend.compute(single), backend);
        const double milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
        const ggml_tensor *read = operation->src[0] != nullptr ? operation->src[0] : operation;
        times.push_back({ggml_op_desc(operation),
                         operation->name,
                         ggml_type_name(read->type),
                         {operation->ne[0], operation->ne[1], operation->ne[2], operation->ne[3]},
                         milliseconds});
    }
    return times;
}

Graph::Graph(std::shared_ptr<Backend> backend, size_t max_operations)
    : context_(std::make_shared<GraphContext>(std::move(backend), max_operations * tensors_per_operation)) {}

Tensor Graph::input(const std::string &name, const std::vector<int64_t> &shape, const std::string &type) {
    if (inputs_.count(name) != 0)
        throw std::invalid_argument("there already is an input '" + name + "'");
    if (shape.empty() || shape.size() > 4)
        throw std::invalid_argument("an input has 1 to 4 dimensions");
    for (const int64_t size : shape) {
        if (size < 1)
            throw std::invalid_argument("input '" + name + "' has a dimension of " + std::to_string(size));
    }
    const ggml_type parsed = parse_type(type);
    if (ggml_is_quantized(parsed))
        throw std::invalid_argument("an input cannot be " + type);
    ggml_tensor *raw =
        parsed == GGML_TYPE_F16
            ? new_mask(context_->room(), shape)
            : ggml_new_tensor(context_->room(), parsed, static_cast<int>(shape.size()), shape.data());
    ggml_set_name(raw, name.substr(0, GGML_MAX_NAME - 1).c_str());
    ggml_set_input(raw->view_src != nullptr ? raw->view_src : raw);
    const Tensor tensor{raw, context_, nullptr, false};
    inputs_.emplace(name, tensor);
    return tensor;
}

Tensor Graph::use(const Tensor &leaf) {
    if (leaf.graph) {
        if (leaf.graph != context_)
            throw std::invalid_argument("the tensor belongs to another graph");
        return leaf;
    }
    if (leaf.packed) {
        return {leaf.raw, context_, leaf.owner, true, leaf.packed};
    }
    context_->retain_leaf(leaf);
    return {leaf.raw, context_, leaf.owner, leaf.matrix_only};
}

void Graph::effect(const Tensor &tensor, bool early) {
    if (tensor.graph != context_)
        throw std::invalid_argument("an effect must be a node of this graph");
    (early ? effects_.early : effects_.late).push_back(tensor);
}

std::shared_ptr<Program> Graph::program(const std::vector<std::pair<std::string, Tensor>> &outputs) {
    if (finished_)
        throw std::invalid_argument("this graph already became a program");
    std::set<std::string> names;
    for (const auto &[name, tensor] : outputs) {
        if (tensor.graph != context_)
            throw std::invalid_argument("output '" + name + "' is not a node of this graph");
        if (ggml_is_quantized(tensor.raw->type))
            throw std::invalid_argument("output '" + name + "' is quantised");
        if (!names.insert(name).second)
            throw std::invalid_argument("two outputs are called '" + name + "'");
    }
    if (outputs.empty() && effects_.empty())
        throw std::invalid_argument("a program without outputs or effects");
    finished_ = true;
    return std::make_shared<Program>(context_, inputs_, outputs, effects_);
}

State::State(std::shared_ptr<Backend> backend, const Layout &layout) : backend_(std::move(backend)) {
    if (layout.empty())
        throw std::invalid_argument("a state without tensors");
    context_.emplace(layout.size() * ggml_tensor_overhead());
    for (const auto &[name, description] : layout) {
        const auto &[shape, type] = description;
        if (shape.empty() || shape.size() > 4)
            throw std::invalid_argument("state '" + name + "' has 1 to 4 dimensions");
        for (const int64_t size : shape) {
            if (size < 1)
                throw std::invalid_argument("state '" + name + "' has a dimension of " +
                                            std::to_string(size));
        }
        ggml_tensor *tensor =
            ggml_new_tensor(context_->get(), parse_type(type), static_cast<int>(shape.size()), shape.data());
        ggml_set_name(tensor, name.substr(0, GGML_MAX_NAME - 1).c_str());
        if (!tensors_.emplace(name, tensor).second)
            throw std::invalid_argument("two states are called '" + name + "'");
    }
    const ErrorsAre level(LogLevel::info);
    buffer_ = guarded(backend_->device(), nullptr, [this] {
        return own(backend_->device(), ggml_backend_alloc_ctx_tensors_from_buft(
                                           context_->get(), backend_->default_buffer_type()));
    });
    if (!buffer_) {
        size_t needed = 0;
        for (const auto &entry : tensors_)
            needed += ggml_nbytes(entry.second);
        backend_->refuse_memory("the state of a session", needed);
    }
    zero();
}

ggml_tensor *State::find(const std::string &name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
        throw std::out_of_range("no state '" + name + "'");
    return found->second;
}

Tensor State::tensor(const std::string &name) {
    return {find(name), nullptr, shared_from_this(), false};
}

std::vector<std::string> State::names() const {
    std::vector<std::string> names;
    for (const auto &entry : tensors_)
        names.push_back(entry.first);
    return names;
}

void State::zero() {
    std::lock_guard lock(backend_->turn());
    backend_->guarded([this] { ggml_backend_buffer_clear(buffer_.get(), 0); });
}

void State::read(const std::string &name, void *data, size_t bytes) const {
    std::lock_guard lock(backend_->turn());
    backend_->guarded([&] { ggml_backend_tensor_get(find(name), data, 0, bytes); });
}

void State::write(const std::string &name, const void *data, size_t bytes) {
    std::lock_guard lock(backend_->turn());
    backend_->guarded([&] { ggml_backend_tensor_set(find(name), data, 0, bytes); });
}

void State::copy_from(const State &other) {
    std::lock_guard lock(backend_->turn());
    backend_->guarded([&] {
        for (const auto &[name, tensor] : tensors_) {
            ggml_tensor *source = other.find(name);
            if (!ggml_are_same_shape(source, tensor) || source->type != tensor->type) {
                throw std::invalid_argument("state '" + name + "' has another shape or type");
            }
            ggml_backend_tensor_copy(source, tensor);
        }
    });
}

size_t State::bytes() const {
    return ggml_backend_buffer_get_size(buffer_.get());
}

}  // namespace ggtts
