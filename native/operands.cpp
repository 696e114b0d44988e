#include "operands.hpp"

#include "backend.hpp"

#include <stdexcept>
#include <utility>

namespace ggtts {

void refuse(const char *operation, const std::string &why) {
    throw std::invalid_argument(std::string(operation) + ": " + why);
}

std::shared_ptr<GraphContext> common_graph(const char *operation,
                                           std::initializer_list<const Tensor *> operands) {
    std::shared_ptr<GraphContext> graph;
    for (const Tensor *operand : operands) {
        if (operand == nullptr || !operand->graph)
            continue;
        if (graph && graph != operand->graph)
            refuse(operation, "its operands belong to different graphs");
        graph = operand->graph;
    }
    if (!graph)
        refuse(operation, "no operand belongs to a graph (use graph.use(tensor))");
    for (const Tensor *operand : operands) {
        if (operand != nullptr && !operand->graph)
            graph->retain_leaf(*operand);
    }
    return graph;
}

Tensor node(const std::shared_ptr<GraphContext> &graph, ggml_tensor *raw) {
    if (raw == nullptr)
        throw std::runtime_error("GGML refused to make a tensor");
    return {raw, graph, nullptr, false};
}

void require_readable(const char *operation, const Tensor &a) {
    if (a.matrix_only)
        refuse(operation, "a matrix weight can only be the left operand of matmul: " + describe(a));
}

void require_type(const char *operation, const Tensor &a, ggml_type type) {
    require_readable(operation, a);
    if (a.raw->type != type)
        refuse(operation, "needs " + std::string(ggml_type_name(type)) + ", got " + describe(a));
}

void require_dimension(const char *operation, int dimension) {
    if (dimension < 0 || dimension > 3)
        refuse(operation, "dimension " + std::to_string(dimension) + " is not 0..3");
}

void limit_ids(GraphContext &graph, const Tensor &ids, int64_t rows) {
    const ggml_tensor *source = ids.raw;
    while (source->view_src != nullptr)
        source = source->view_src;
    if ((source->flags & GGML_TENSOR_FLAG_INPUT) != 0)
        graph.limit_input(source, rows);
}

bool has_usual_strides(const ggml_tensor *tensor) {
    for (int d = 1; d < 4; ++d) {
        if (tensor->nb[d] != ggml_row_size(tensor->type, tensor->ne[0]) * (d > 1 ? tensor->ne[1] : 1) *
                                 (d > 2 ? tensor->ne[2] : 1)) {
            return false;
        }
    }
    return tensor->nb[0] == ggml_type_size(tensor->type);
}

bool begins_in_line(const Tensor &a) {
    return a.graph == nullptr || a.raw->view_offs % a.graph->backend().view_alignment() == 0;
}

// Most kernels read all values in a line: a tensor with its values out of line is copied first. Dimensions of
// length 1 may have any stride and still be in line, which some of GGML's checks do not accept: a reshape
// gives the usual ones.
Tensor dense(const Tensor &a) {
    if (has_usual_strides(a.raw) && begins_in_line(a)) {
        return a;
    }
    if (!ggml_is_contiguous(a.raw) || !begins_in_line(a)) {
        return contiguous(a);
    }
    const int64_t *ne = a.raw->ne;
    return node(a.graph, ggml_reshape_4d(a.graph->room(), a.raw, ne[0], ne[1], ne[2], ne[3]));
}

Tensor with_rows(const Tensor &a) {
    if (a.raw->nb[0] == ggml_type_size(a.raw->type) && begins_in_line(a))
        return a;
    return contiguous(a);
}

Tensor fused(const std::string &name, const std::shared_ptr<GraphContext> &graph,
             std::vector<ggml_tensor *> operands, int64_t width, int64_t rows, ggml_custom_op_t function,
             std::shared_ptr<const void> settings, int64_t lanes) {
    // GGML hands the settings back untouched; they are constant for the kernels too.
    auto *userdata = const_cast<void *>(settings.get());
    graph->retain(std::move(settings));
    ggml_tensor *result =
        ggml_custom_4d(graph->room(), GGML_TYPE_F32, width, rows, lanes, 1, operands.data(),
                       static_cast<int>(operands.size()), function, GGML_N_TASKS_MAX, userdata);
    ggml_set_name(result, name.c_str());
    return node(graph, result);
}

}  // namespace ggtts
