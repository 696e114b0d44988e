// The types that weights of convolutions are stored in.
#pragma once

#include <ggml.h>

namespace ggtts::kernels {
namespace {

// Calls the function with a value of the type: float32, float16 or bfloat16.
template <class Function>
void with_element(int type, Function function) {
    if (type == GGML_TYPE_F32) {
        function(float{});
    } else if (type == GGML_TYPE_F16) {
        function(ggml_fp16_t{});
    } else {
        function(ggml_bf16_t{});
    }
}

}  // namespace
}  // namespace ggtts::kernels
