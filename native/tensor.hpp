// Tensors and the operations on them, checked before GGML sees them: a wrong shape or type is an exception,
// never an abort.
#pragma once

#include <ggml.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "descriptions.hpp"

namespace ggtts {

namespace kernels {
class ConvPlan;
class PackedMatrix;
}  // namespace kernels

class Backend;

struct Tensor;

// What keeps a leaf alive: the weights of a file, the state of a session.
class LeafOwner {
public:
    virtual ~LeafOwner() = default;
    // Gives every leaf handed out so far its memory.
    virtual void place() {}
};

using Shape = std::array<int64_t, 4>;

// What one operation may add to a graph: its node, and the copies and views around it.
inline constexpr size_t tensors_per_operation = 4;

// Rows of a mask that GGML may read behind the last one: it takes queries in tiles, of up to 64.
inline constexpr int64_t mask_rows_behind = 63;

// The tensors of one graph under construction, and everything they refer to.
class GraphContext {
public:
    GraphContext(std::shared_ptr<Backend> backend, size_t max_tensors);

    Backend &backend() const { return *backend_; }
    const std::shared_ptr<Backend> &shared_backend() const { return backend_; }
    // GGML's context, with room for a few more tensors; throws when the graph has outgrown it.
    ggml_context *room();
    size_t tensor_count() const { return tensor_count_; }
    // Keeps something alive as long as the graph.
    void retain(std::shared_ptr<const void> owner);
    // The same for what its leaves belong to, which is placed with them.
    void retain_owner(std::shared_ptr<LeafOwner> owner) { leaf_owners_.insert(std::move(owner)); }
    // The same for a weight or a piece of state that the graph reads.
    void retain_leaf(const Tensor &leaf);
    // Gives every leaf its memory; throws when one is left without: GGML would compute with whatever lies
    // there.
    void place_leaves() const;
    // Ids in this input index a table of `rows` rows: checked whenever the input is set.
    void limit_input(const ggml_tensor *input, int64_t rows);
    // Nothing when the input's values are free.
    const int64_t *input_limit(const ggml_tensor *input) const;

private:
    std::shared_ptr<Backend> backend_;
    Descriptions context_;
    size_t max_tensors_;
    size_t tensor_count_ = 0;
    std::vector<std::shared_ptr<const void>> retained_;
    std::unordered_map<const void *, size_t> retained_index_;
    std::vector<const ggml_tensor *> leaves_;
    std::unordered_set<std::shared_ptr<LeafOwner>> leaf_owners_;
    std::unordered_map<const ggml_tensor *, int64_t> limits_;
};

// A node of a graph, or a leaf (a weight, a piece of state) that joins the graph of the tensor it meets.
struct Tensor {
    ggml_tensor *raw = nullptr;
    std::shared_ptr<GraphContext> graph;  // null for a leaf
    std::shared_ptr<LeafOwner> owner;     // what keeps a leaf alive
    bool matrix_only = false;             // may lie in a repacked layout that only matmul can read
    std::shared_ptr<const kernels::PackedMatrix> packed{};  // instead of memory of GGML's

    Shape shape() const { return {raw->ne[0], raw->ne[1], raw->ne[2], raw->ne[3]}; }
};

ggml_type parse_type(const std::string &name);
std::string describe(const Tensor &tensor);

// Elementwise, the second operand repeated to the first one's shape.
Tensor add(const Tensor &a, const Tensor &b);
Tensor subtract(const Tensor &a, const Tensor &b);
Tensor multiply(const Tensor &a, const Tensor &b);
Tensor divide(const Tensor &a, const Tensor &b);
// a * factor + offset
Tensor scale(const Tensor &a, float factor, float offset);

// weights [k, m] x inputs [k, n] -> [m, n]; further dimensions of the weights are shared among those of the
// inputs.
Tensor matmul(const Tensor &weights, const Tensor &inputs);

Tensor unary(const Tensor &a, const std::string &operation);
Tensor clamp(const Tensor &a, float low, float high);
Tensor swiglu(const Tensor &gate, const Tensor &up);
Tensor rms_norm(const Tensor &a, float epsilon);
Tensor layer_norm(const Tensor &a, float epsilon);
Tensor softmax(const Tensor &a, float scale, const Tensor *mask);
Tensor sum_rows(const Tensor &a);
Tensor mean_rows(const Tensor &a);
Tensor argmax(const Tensor &a);

Tensor reshape(const Tensor &a, const std::vector<int64_t> &shape);
Tensor permute(const Tensor &a, const std::array<int, 4> &axes);
Tensor contiguous(const Tensor &a);
Tensor slice(const Tensor &a, int dimension, int64_t start, int64_t length);
Tensor concat(const Tensor &a, const Tensor &b, int dimension);
Tensor repeat(const Tensor &a, const std::vector<int64_t> &shape);
Tensor pad(const Tensor &a, int dimension, int64_t before, int64_t after);
Tensor cast(const Tensor &a, const std::string &type);
Tensor copy_to(const Tensor &a, const Tensor &destination);

Tensor get_rows(const Tensor &table, const Tensor &ids);
// [channels, time - 1 + reach, lanes] -> [taps * channels, time * lanes]: the windows of a convolution.
Tensor unfold(const Tensor &a, int64_t taps, int64_t dilation);
// [channels, time - 1 + taps, lanes] -> [channels, time, lanes], every channel with its own row of the kernel
// [channels, taps].
Tensor depthwise_conv1d(const Tensor &a, const Tensor &kernel);
Tensor set_rows(const Tensor &destination, const Tensor &values, const Tensor &ids);
Tensor rope(const Tensor &a, const Tensor &positions, int dimensions, float theta);
Tensor flash_attention(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor *mask, float scale);
// Queries of the n-th of several sequences read slot slots[n] of the keys, or the n-th one.
Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &positions, float scale,
                 int64_t window, bool causal, const Tensor *slots);

// The fused operations below run on the CPU only. The plan lives as long as the graph.
// [inputs, (time - 1) * stride + reach] -> [outputs, time], to which the residual is added.
Tensor conv1d(const Tensor &a, std::shared_ptr<const kernels::ConvPlan> plan, const Tensor *residual);
// How an activated sequence lies in its result: behind `before` zero rows, or the rows of a context, and
// before `after` zero rows.
struct Surroundings {
    int64_t before = 0;
    int64_t after = 0;
    const Tensor *context = nullptr;
};
Tensor activate(const Tensor &a, const std::string &activation, const std::vector<Tensor> &vectors,
                const Surroundings &surroundings, const std::string &instruction_set);
Tensor affine_layer_norm(const Tensor &a, const Tensor &weight, const Tensor &bias, float epsilon,
                         const std::string &instruction_set);

}  // namespace ggtts
