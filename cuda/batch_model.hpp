// What the kernel for steps of several utterances works on (see batch_step.hpp), beside the talker's
// `Model`: one column for each utterance.
#pragma once

#include <cstdint>

#include "talker_model.hpp"
#include "tensor_products.hpp"

namespace ggtts::talker::batch {

using predictor::block_width;
using predictor::Meeting;
using predictor::PairedActivations;
using predictor::Tiling;

// Warps of a block. Few, so that each can hold weights and activations of a task, and those of the next one.
inline constexpr int batch_warps = 8;
// Columns of a launch, at most, and what their number is a multiple of.
inline constexpr int most_columns = predictor::most_tensor_columns;
inline constexpr int columns_step = predictor::tensor_columns_step;

// Query heads that a task of attention has, at most.
inline constexpr int queries_of_task = 2;

// Kinds of matrices: those of a layer, and the codec head.
inline constexpr int product_kinds = matrices_of_layer + 1;

// The new position of one utterance.
struct Column {
    int position;    // -1: nobody is here
    int chunk;       // keys that a warp attends to
    int chunks;      // how many make all of them
    int first_task;  // of those of all columns
    int64_t cache;   // bytes from the keys of the first slot to those of its own, and of values
};

// One step of all columns.
struct BatchStep {
    int columns;            // that are computed, a multiple of 8
    int tasks;              // of attention, in each layer
    int sharing;            // query heads that share a key head,
    int groups;             // in so many groups
    int capacity;           // of a slot, in positions
    int half_cache;         // whether keys and values are float16, else float32
    const Column *each;     // [columns]
    const Cache *caches;    // [layers], of the first slot
    const float *rows;      // [columns][width], the inputs
    const float *rotation;  // [positions][head_dim / 2][cosine, sine]
    const float *lifts;     // [matrices], the powers of two that bring BFloat16 into the range of float16
    const Tiling *tilings;  // [product_kinds]
    uint32_t *arrivals;     // of the grid's barrier; zero at the start
    float *x;               // [columns][width], the residual stream
    float *squares;         // [columns][blocks of the width], sums over each block of it
    float *inputs;          // [columns][(heads + 2 kv_heads) * head_dim], queries, keys, values
    // Of most_columns columns, so that nothing but zeros is ever behind their widths.
    PairedActivations normed, attended, gated;
    Meeting meeting;
    float *means;   // [tasks][queries_of_task][head_dim], what each chunk attends to
    float *logs;    // [tasks][queries_of_task], of the sum of its exponentials
    uint32_t *met;  // [columns][spans], of chunks; zero between launches
    float *hidden;  // [columns][width], after the last norm
    float *logits;  // [columns][vocabulary]
};

// Tables of the model and of the step, where a block reads them.
struct BatchTables {
    const Matrix *matrices;
    const Norms *norms;
    const Cache *caches;
    const Column *each;
    const Tiling *tilings;
    const float *lifts;
};

// How a block uses its shared memory.
struct BatchRoom {
    int stage_units;  // of the width of 32 rows, that are copied at once
    int slots;        // for stages on their way
    int slot_bytes;
    int attending;              // warps that attend
    int64_t scales, sums, end;  // in floats, behind the slots
};

}  // namespace ggtts::talker::batch
