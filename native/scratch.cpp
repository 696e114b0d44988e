#include "scratch.hpp"

#include <ggml-backend.h>

#include "logging.hpp"

namespace ggtts {
namespace {

// Below this, memory that lies idle is not worth giving back.
constexpr size_t kept_bytes = size_t{32} << 20;

// Up to this, memory that lasts is as large as the next power of two, and programs are planned in memory of
// their own.
constexpr size_t lasting_bytes = size_t{128} << 20;

size_t rounded(size_t bytes) {
    size_t result = kept_bytes;
    while (result < bytes)
        result *= 2;
    return bytes <= lasting_bytes ? result : bytes;
}

// Takes the memory from tensors that the allocator has placed.
void take_back(const ggml_context *context) {
    for (ggml_tensor *tensor = ggml_get_first_tensor(context); tensor != nullptr;
         tensor = ggml_get_next_tensor(context, tensor)) {
        if (tensor->buffer != nullptr &&
            ggml_backend_buffer_get_usage(tensor->buffer) == GGML_BACKEND_BUFFER_USAGE_COMPUTE) {
            tensor->buffer = nullptr;
            tensor->data = nullptr;
        }
    }
}

}  // namespace

ggml_backend_buffer_t buffer_of(ggml_cgraph *graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor *operation = ggml_graph_node(graph, i);
        if (operation->view_src == nullptr && operation->buffer != nullptr)
            return operation->buffer;
    }
    return nullptr;
}

std::optional<ScratchPlan> ScratchPlan::of(const ggml_context *context, ggml_backend_buffer_t buffer,
                                           size_t bytes) {
    ScratchPlan plan;
    const auto *base = static_cast<const char *>(ggml_backend_buffer_get_base(buffer));
    for (ggml_tensor *tensor = ggml_get_first_tensor(context); tensor != nullptr;
         tensor = ggml_get_next_tensor(context, tensor)) {
        if (tensor->buffer == buffer) {
            plan.places_.emplace_back(tensor,
                                      static_cast<size_t>(static_cast<const char *>(tensor->data) - base));
        } else if (tensor->buffer != nullptr && tensor->view_src == nullptr) {
            return {};
        }
    }
    plan.bytes_ = bytes;
    return plan;
}

std::optional<ScratchPlan> Scratch::plan(const ggml_context *context, ggml_cgraph *graph) {
    if (!lasting_)
        return {};
    const std::lock_guard lock(planning_);
    if (!planner_)
        planner_ = own(device_, ggml_gallocr_new(type_));
    size_t bytes = 0;
    ggml_gallocr_reserve_n_size(planner_.get(), graph, nullptr, nullptr, &bytes);
    // Reserved explicitly: the allocator would take a graph of the same sizes for the one before.
    if (bytes > lasting_bytes || !ggml_gallocr_reserve(planner_.get(), graph) ||
        !ggml_gallocr_alloc_graph(planner_.get(), graph))
        return {};
    const ggml_backend_buffer_t buffer = buffer_of(graph);
    std::optional<ScratchPlan> plan;
    if (buffer != nullptr)
        plan = ScratchPlan::of(context, buffer, bytes);
    if (!plan)
        take_back(context);
    return plan;
}

void Scratch::add(const ScratchPlan &plan) {
    const std::lock_guard lock(mutex_);
    sizes_.insert(plan.bytes());
}

void Scratch::remove(const ScratchPlan &plan) {
    const std::lock_guard lock(mutex_);
    sizes_.erase(sizes_.find(plan.bytes()));
}

size_t Scratch::most_needed() const {
    const std::lock_guard lock(mutex_);
    return sizes_.empty() ? 0 : *sizes_.rbegin();
}

Owned<ggml_backend_buffer> Scratch::allocated(size_t bytes) const {
    return own(device_, ggml_backend_buft_alloc_buffer(type_, bytes));
}

bool Scratch::resize(size_t bytes) {
    buffer_.reset();  // before the other one is made: both may not fit
    bytes_ = 0;
    ++generation_;  // also when GGML gives up now
    const ErrorsAre level(LogLevel::info);
    const size_t roomy = lasting_ ? rounded(bytes) : bytes;
    buffer_ = allocated(roomy);
    bytes_ = buffer_ ? roomy : 0;
    if (!buffer_ && roomy > bytes) {
        buffer_ = allocated(bytes);
        bytes_ = buffer_ ? bytes : 0;
    }
    return buffer_ != nullptr;
}

bool Scratch::attach(ScratchPlan &plan) {
    if (plan.places_.empty())
        return true;
    const bool idle = bytes_ > kept_bytes && bytes_ / 2 > most_needed();
    if ((bytes_ < plan.bytes_ || idle) && !resize(plan.bytes_))
        return false;
    if (plan.generation_ == generation_)
        return true;
    auto *base = static_cast<char *>(ggml_backend_buffer_get_base(buffer_.get()));
    for (const auto &[tensor, offset] : plan.places_) {
        tensor->buffer = nullptr;
        tensor->data = nullptr;
        const ggml_status status = tensor->view_src != nullptr
                                       ? ggml_backend_view_init(tensor)
                                       : ggml_backend_tensor_alloc(buffer_.get(), tensor, base + offset);
        if (status != GGML_STATUS_SUCCESS)
            return false;
    }
    plan.generation_ = generation_;
    return true;
}

}  // namespace ggtts
