// What the kernel of the talker works on: sizes, weights where GGML keeps them, and letter boxes between
// blocks.
#pragma once

#include <cstdint>

#include "model.hpp"

#ifdef __CUDACC__
#define GGTTS_EVERYWHERE __host__ __device__
// Loops that have a turn or two: unrolled, they would only fill the caches of instructions.
#define GGTTS_SHORT_LOOP _Pragma("unroll 1")
// Of a lambda: what it refers to stays in registers.
#define GGTTS_INLINE __attribute__((always_inline))
#else
#define GGTTS_EVERYWHERE
#define GGTTS_SHORT_LOOP
#define GGTTS_INLINE
#endif

namespace ggtts::talker {

using predictor::Letter;
using predictor::WeightKind;

// All from the file.
struct Sizes {
    int layers, width, ffn_width, heads, kv_heads, head_dim, vocabulary;
    float norm_eps;
};

inline constexpr int most_parts = 3;

inline constexpr int most_rows_together = 2;

// A matrix as the rows of one tensor or several, each row as GGML stores it.
struct Matrix {
    const uint8_t *parts[most_parts] = {};
    int ends[most_parts] = {};  // of the rows of each part, counted through all of them
    int rows = 0;
    int width = 0;
    int row_bytes = 0;
    int pieces = 0;            // of a row, each as much as a warp works on at once
    int together = 1;          // rows that a warp works on at once
    bool alternating = false;  // row 2 i is row i of the first part, row 2 i + 1 that of the second
    int stride = 0;  // bytes from a group to the next one in each part; 0 where groups begin anywhere
};

// The matrices of a layer in the order in which they are used; after all layers comes the codec head.
enum MatrixOfLayer { inputs_matrix, output_matrix, gate_up_matrix, down_matrix, matrices_of_layer };

struct Norms {
    const float *attention, *query, *key, *feed_forward;
};

struct Model {
    Sizes sizes;
    int matrix_count;
    const Matrix *matrices;    // [layers * matrices_of_layer + 1]
    const Norms *norms;        // [layers]
    const float *output_norm;  // [width]
};

// Keys and values of one layer: [kv_heads][capacity][head_dim].
struct Cache {
    uint8_t *keys, *values;
};

// One step: one more position. Times count on from step to step.
struct Step {
    int position;
    int capacity;           // of the caches, in positions
    int half_cache;         // whether keys and values are float16, else float32
    int chunk;              // keys that a block attends to
    int chunks;             // how many make all of them
    uint32_t time;          // of the input
    const Cache *caches;    // [layers]
    const float *rotation;  // [head_dim / 2][cosine, sine]
    Letter *x;              // [width], the residual stream; at first the input
    Letter *inputs;         // [(heads + 2 kv_heads) * head_dim], queries, keys, values
    Letter *parts;          // [chunks][heads * head_dim], what each chunk attends to
    Letter *logs;           // [chunks][heads], of the sum of its exponentials
    Letter *attended;       // [heads * head_dim]
    Letter *gated;          // [ffn_width]
    float *hidden;          // [width], after the last norm
    float *logits;          // [vocabulary]
};

// How often the residual stream changes in a step.
constexpr uint32_t times_of_step(const Sizes &sizes) {
    return 2 * static_cast<uint32_t>(sizes.layers) + 1;
}

}  // namespace ggtts::talker
