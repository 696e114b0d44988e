// Whether a device keeps all bits of products.
#pragma once

#include <ggml-backend.h>

#include <cstdint>

namespace ggtts {

// GGML multiplies float32 with few columns on tensor cores, rounded to TF32. From this number on it leaves
// the product to a library that can be told not to.
inline constexpr int64_t columns_without_rounding = 17;

// Computes a product that is another one when its factors are rounded to 11 bits, as TF32 and float16 are.
// `type` is that of one factor, a row of which has a whole number of blocks of up to 64.
bool keeps_all_bits(ggml_backend_t backend, ggml_type type = GGML_TYPE_F32);

}  // namespace ggtts
