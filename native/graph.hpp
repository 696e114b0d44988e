// Graphs built from Python, programs that replay them, and state that outlives a run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "descriptions.hpp"
#include "scratch.hpp"
#include "tensor.hpp"
#include "weights.hpp"

namespace ggtts {

struct NodeTime {
    std::string operation;
    std::string name;
    std::string type;  // of the first operand: what the kernel reads
    Shape shape;
    double milliseconds;
};

// Nodes that must run though no output reads them: the early ones before everything that does not need them,
// in their order, the late ones after all outputs.
struct Effects {
    std::vector<Tensor> early, late;

    bool empty() const { return early.empty() && late.empty(); }
};

// A graph allocated once and run many times.
class Program {
public:
    struct Input {
        const void *data;
        size_t bytes;
    };
    struct Output {
        void *data;
        size_t bytes;
    };

    Program(std::shared_ptr<GraphContext> context, const std::map<std::string, Tensor> &inputs,
            const std::vector<std::pair<std::string, Tensor>> &outputs, const Effects &effects);
    ~Program();
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;

    const std::map<std::string, ggml_tensor *> &inputs() const { return inputs_; }
    const std::vector<std::pair<std::string, ggml_tensor *>> &outputs() const { return outputs_; }
    int node_count() const;
    // Without views, which cost a device nothing.
    int operation_count() const;
    size_t buffer_bytes() const;

    // Sets all inputs (in the order of inputs()), runs, reads all outputs. Throws DeviceError when the device
    // fails and std::out_of_range when ids lie beyond their table.
    void run(const std::vector<Input> &inputs, const std::vector<Output> &outputs);
    // The same run, one node at a time.
    std::vector<NodeTime> profile(const std::vector<Input> &inputs);

private:
    void build(const std::vector<std::pair<std::string, Tensor>> &outputs, const Effects &effects);
    void allocate();
    void take_scratch();
    void begin();
    std::vector<NodeTime> time_nodes(const std::vector<Input> &inputs);
    void check_ids(const std::vector<Input> &inputs) const;
    void set_inputs(const std::vector<Input> &inputs);

    std::shared_ptr<GraphContext> context_;
    ggml_cgraph *graph_ = nullptr;
    // Where intermediate results lie: in what all programs share, or, when one buffer cannot hold them, in
    // what the allocator owns.
    std::optional<ScratchPlan> scratch_plan_;
    Owned<ggml_gallocr> allocator_;
    bool under_way_ = false;
    std::map<std::string, ggml_tensor *> inputs_;
    std::vector<std::pair<std::string, ggml_tensor *>> outputs_;
};

class Graph {
public:
    Graph(std::shared_ptr<Backend> backend, size_t max_operations);

    Tensor input(const std::string &name, const std::vector<int64_t> &shape, const std::string &type);
    // A leaf as a member of this graph.
    Tensor use(const Tensor &leaf);
    void effect(const Tensor &tensor, bool early);
    // Ends the graph: its weights are placed, its results allocated.
    std::shared_ptr<Program> program(const std::vector<std::pair<std::string, Tensor>> &outputs);

private:
    std::shared_ptr<GraphContext> context_;
    std::map<std::string, Tensor> inputs_;
    Effects effects_;
    bool finished_ = false;
};

// Named tensors on a device that keep their contents between runs: caches, convolution contexts.
class State : public LeafOwner, public std::enable_shared_from_this<State> {
public:
    using Layout = std::vector<std::pair<std::string, std::pair<std::vector<int64_t>, std::string>>>;

    State(std::shared_ptr<Backend> backend, const Layout &layout);

    Tensor tensor(const std::string &name);
    // Where it lies. Throws std::out_of_range.
    ggml_tensor *find(const std::string &name) const;
    std::vector<std::string> names() const;
    void zero();
    void read(const std::string &name, void *data, size_t bytes) const;
    void write(const std::string &name, const void *data, size_t bytes);
    void copy_from(const State &other);
    size_t bytes() const;

private:
    std::shared_ptr<Backend> backend_;
    std::optional<Descriptions> context_;
    Owned<ggml_backend_buffer> buffer_;
    std::map<std::string, ggml_tensor *> tensors_;
};

}  // namespace ggtts
