// Fused attention for the CPU: softmax(q k^T * scale) v over a head-major cache, without a mask or a score
// matrix.
#pragma once

#include <cstdint>

struct ggml_tensor;

namespace ggtts::kernels {

struct AttentionSettings {
    float scale;
    int64_t window;  // 0: every earlier position
    bool causal;
};

// From this many queries without a window on, keys and values are packed for matrix products. The two ways
// round differently: with a window, where a query sees few keys, there is only one, so that a stream equals
// the whole bit by bit.
inline constexpr int64_t tiled_from_tokens = 32;

// A GGML custom operation. Sources: q f32 [head_dim, heads, tokens]; k, v f32 or f16 [head_dim, positions,
// kv_heads, slots] with any strides beyond the first; positions i32, one per token (causal: the query at
// position p sees the keys max(0, p - window + 1) .. p) or a single number of valid keys (not causal). Result
// f32 [head_dim * heads, tokens]. Query head h reads the keys of head h / (heads / kv_heads), token t those
// of slot t / (tokens / slots): so many sequences, each as long as it is. Where there is a fifth source,
// slots i32 [sequences], token t reads those of slot slots[t / (tokens / sequences)].
void attention(ggml_tensor *result, int thread, int threads, void *settings);

}  // namespace ggtts::kernels
