#include "scratch.hpp"

#include <ggml-backend.h>

namespace ggtts {
namespace {

// Below this, memory that lies idle is not worth giving back.
constexpr size_t kept_bytes = size_t{32} << 20;

}  // namespace

std::optional<ScratchPlan> ScratchPlan::of(const ggml_context *context, ggml_backend_buffer_t buffer) {
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
    plan.bytes_ = ggml_backend_buffer_get_size(buffer);
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

bool Scratch::resize(size_t bytes) {
    buffer_.reset();  // before the other one is made: both may not fit
    buffer_.reset(ggml_backend_buft_alloc_buffer(type_, bytes));
    bytes_ = buffer_ ? bytes : 0;
    ++generation_;
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
