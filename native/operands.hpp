// What every operation does before it hands its operands to GGML: find their graph, check them, bring them in
// line.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tensor.hpp"

namespace ggtts {

// std::invalid_argument that begins with the operation.
[[noreturn]] void refuse(const char *operation, const std::string &why);
// The graph that the operands belong to; leaves among them (and null pointers) belong to any.
std::shared_ptr<GraphContext> common_graph(const char *operation,
                                           std::initializer_list<const Tensor *> operands);

// A new member of a graph.
Tensor node(const std::shared_ptr<GraphContext> &graph, ggml_tensor *raw);

// Not a matrix that only matmul can read.
void require_readable(const char *operation, const Tensor &a);
void require_type(const char *operation, const Tensor &a, ggml_type type);
void require_dimension(const char *operation, int dimension);

bool has_usual_strides(const ggml_tensor *tensor);
// Most kernels read all values in a line: a tensor with its values out of line is copied first. Dimensions of
// length 1 may have any stride and still be in line, which some of GGML's checks do not accept: a reshape
// gives the usual ones.
Tensor dense(const Tensor &a);
// The same for kernels that only need the values of a row in line.
Tensor with_rows(const Tensor &a);

// An operation of our own with a result f32 [width, rows, lanes]; the graph keeps the settings. GGML calls
// all of them the same: profiles tell them apart by name.
Tensor fused(const std::string &name, const std::shared_ptr<GraphContext> &graph,
             std::vector<ggml_tensor *> operands, int64_t width, int64_t rows, ggml_custom_op_t function,
             std::shared_ptr<const void> settings, int64_t lanes = 1);

}  // namespace ggtts
