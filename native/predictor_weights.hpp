// Weights of a file in the layout of the predictor's kernel (cuda/weight_types.hpp).
#pragma once

#include <model.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include "gguf_file.hpp"

namespace ggtts {

// The kind of a type, nothing for types that the kernel does not read.
std::optional<predictor::WeightKind> weight_kind(ggml_type type);

// Packs matrices [rows][width] of one type one below the other, or, interleaved, one row of each in turn.
// Rows and columns beyond are zero.
std::vector<uint8_t> pack_weights(const std::vector<const FileTensor *> &matrices, int width,
                                  bool interleaved);

// The power of two that brings the largest of these weights just below 2^15, within the range of float16; 1
// for types other than BFloat16.
float lift_of(const std::vector<const FileTensor *> &matrices);

}  // namespace ggtts
