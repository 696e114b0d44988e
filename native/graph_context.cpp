#include <algorithm>
#include <cctype>
#include <cstring>
#include <stdexcept>

#include "backend.hpp"
#include "errors.hpp"
#include "tensor.hpp"

namespace ggtts {

GraphContext::GraphContext(std::shared_ptr<Backend> backend, size_t max_tensors)
    : backend_(std::move(backend)),
      context_(max_tensors * ggml_tensor_overhead() +
               ggml_graph_overhead_custom(max_tensors + tensors_per_operation, false)),
      max_tensors_(max_tensors) {}

ggml_context *GraphContext::room() {
    tensor_count_ += tensors_per_operation;
    if (tensor_count_ > max_tensors_) {
        throw std::length_error("the graph has more than " +
                                std::to_string(max_tensors_ / tensors_per_operation) +
                                " operations; open it with a larger max_operations");
    }
    return context_.get();
}

void GraphContext::retain(std::shared_ptr<const void> owner) {
    if (owner && retained_index_.emplace(owner.get(), retained_.size()).second)
        retained_.push_back(std::move(owner));
}

void GraphContext::retain_leaf(const Tensor &leaf) {
    retain_owner(leaf.owner);
    leaves_.push_back(leaf.raw);
}

void GraphContext::place_leaves() const {
    for (const auto &owner : leaf_owners_)
        owner->place();
    for (const ggml_tensor *leaf : leaves_) {
        if (leaf->buffer == nullptr) {
            throw DeviceError("'" + std::string(leaf->name) + "' was not placed on the device");
        }
    }
}

void GraphContext::limit_input(const ggml_tensor *input, int64_t rows) {
    const auto [entry, added] = limits_.emplace(input, rows);
    if (!added)
        entry->second = std::min(entry->second, rows);
}

const int64_t *GraphContext::input_limit(const ggml_tensor *input) const {
    const auto found = limits_.find(input);
    return found == limits_.end() ? nullptr : &found->second;
}

ggml_type parse_type(const std::string &name) {
    const auto same = [&](const char *known) {
        return std::equal(name.begin(), name.end(), known, known + std::strlen(known), [](char a, char b) {
            return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
        });
    };
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_blck_size(type) > 0 && ggml_type_name(type) != nullptr && same(ggml_type_name(type))) {
            return type;
        }
    }
    throw std::invalid_argument("no such type: '" + name + "' (f32, f16, bf16, i32, i64, q8_0, ...)");
}

std::string describe(const Tensor &tensor) {
    std::string text = std::string(ggml_type_name(tensor.raw->type)) + " [";
    for (int i = 0; i < 4; ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(tensor.raw->ne[i]);
    text += "]";
    if (tensor.raw->name[0] != '\0')
        text += " '" + std::string(tensor.raw->name) + "'";
    return text;
}

}  // namespace ggtts
