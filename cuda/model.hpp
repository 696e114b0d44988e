// What the kernel of the code predictor works on: sizes, weights and buffers, all of them in the memory of
// its device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ggtts::predictor {

// Weights of one matrix row that a warp reads at once; rows are padded to a multiple of it (see
// weight_types.hpp).
inline constexpr int chunk_width = 512;
// Rows that a warp works on at once: activations are read from shared memory once for all of them.
inline constexpr int rows_together = 4;

enum class WeightKind { q8_0, f16, bf16, f32 };

constexpr int whole_chunks(int width) {
    return (width + chunk_width - 1) / chunk_width;
}
constexpr int padded(int width) {
    return whole_chunks(width) * chunk_width;
}

// All from the file. A frame has as many positions as codebooks: the talker's state, then every code but the
// last.
struct Sizes {
    int layers, width, ffn_width, heads, kv_heads, head_dim, talker_width, codebooks, entries;
    float norm_eps;
};

// Packed: group of rows, chunk, row of the group.
struct Matrix {
    const uint8_t *data = nullptr;
    int rows = 0;
    int chunks = 0;
    // A power of two that brings weights of type BFloat16 into the range of float16 (see tensor_weights.hpp).
    float lift = 1.0F;
};

struct Layer {
    Matrix qkv;      // the rows of queries, keys, values
    Matrix output;   // of the attention
    Matrix gate_up;  // row 2 i is gate i, row 2 i + 1 is up i
    Matrix down;
    const float *attention_norm, *query_norm, *key_norm, *feed_forward_norm;
};

// A product of a frame: what goes in, and what becomes of it (see flow_frame.hpp).
enum class Product : uint8_t { entry, inputs, output, gate, down, logits };

// Products in the order in which a frame makes them.
struct Step {
    Matrix matrix;
    Product product;
    uint8_t enters;  // whether it is the first of a position
    uint16_t index;  // of the layer
};

struct Model {
    Sizes sizes;
    const Layer *layers;           // [layers]
    Matrix projection;             // from the talker's width; no data where both are equally wide
    const float *projection_bias;  // null where there is none
    const float *output_norm;
    const Matrix *heads;       // [codebooks - 1], of code 1, 2, ...
    const Matrix *embeddings;  // [codebooks - 1], of code 1, 2, ...
    const float *rotation;     // [codebooks][head_dim / 2][cosine, sine]
    const Step *steps;         // [step_count], of a whole frame
    int step_count;
};

// How the codes 1, 2, ... of one frame are chosen.
struct Draw {
    uint64_t seed;
    uint64_t subsequence;  // of code 0; that of code c is c more
    float temperature;
    float cut;      // 1 - top_p; below 0: off
    int32_t top_k;  // 0: off
    int32_t greedy;
};

// What a block sends to all others: a value, and the time it belongs to (see letters.hpp).
struct alignas(8) Letter {
    float value;
    uint32_t time;
};

// What the blocks of the kernel for few columns send each other; rows are columns of the batch.
struct Letters {
    Letter *x;         // [2][columns][width], what enters a layer, or leaves the last one
    Letter *middle;    // [columns][width], after the attention
    Letter *qkv;       // [2][columns][rows of qkv]
    Letter *attended;  // [columns][heads * head_dim]
    Letter *gated;     // [columns][ffn_width]
    Letter *logits;    // [columns][entries]
    Letter *codes;     // [columns]
};

// Rows are columns of the batch, as many as the kernel was compiled for; `columns` of them are in use.
struct Buffers {
    int columns;
    uint32_t *arrivals;   // of the grid's barrier; zero at the start
    const Draw *draws;    // [columns]
    const float *inputs;  // [columns][2][talker_width]: the talker's state, the embedding of code 0
    int32_t *codes;       // [columns][codebooks - 1]; -1 where the logits are no numbers
    float *sums;          // [columns][talker_width]: the embeddings of all codes
    float *entry;     // [columns][talker_width], what enters at a position; `x` itself without a projection
    float *x;         // [columns][width], the residual stream
    float *qkv;       // [columns][rows of qkv]
    float *attended;  // [columns][heads * head_dim]
    float *gated;     // [columns][ffn_width]
    float *keys, *values;  // [layers][columns][kv_heads][codebooks][head_dim]
    float *logits;         // [codebooks - 1][columns][entries]
    Letters letters;
    uint32_t time;  // after all times of letters that were sent before
};

}  // namespace ggtts::predictor
