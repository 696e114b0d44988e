// The kernel for steps of several utterances, for one type of weight.
#pragma once

#include <cuda_runtime.h>

// What the phases ask of a GPU comes before them.
#include "cuda_batch.cuh"

#include "batch_sizes.hpp"
#include "batch_step.hpp"
#include "table_copies.cuh"

namespace ggtts::talker::batch {

// For about a second. A kernel that waits for ever would take the device from everybody.
inline constexpr int most_barrier_turns = 1 << 21;

// All blocks are resident (a cooperative launch), so they can wait for each other.
template <class Type>
class CudaBatchGrid {
public:
    using Ring = WeightRing<Type, CudaBlock>;

    __device__ __forceinline__ CudaBatchGrid(const CudaBlock &block, Ring &ring, uint32_t *arrivals)
        : block_(block), ring_(ring), arrivals_(arrivals) {}

    template <class Function>
    __device__ __forceinline__ void phase(Function function) {
        function(block_, ring_);
        wait_for_all([&]() GGTTS_INLINE { ring_.fill(); });
    }

private:
    // As that of CudaGrid. Something is done while others are waited for.
    template <class Meanwhile>
    __device__ __forceinline__ void wait_for_all(Meanwhile meanwhile) {
        __syncthreads();
        if (threadIdx.x == 0)
            predictor::release_one(arrivals_);
        meanwhile();
        if (threadIdx.x == 0) {
            wanted_ += gridDim.x;
            for (int turn = 0; predictor::acquire(arrivals_) < wanted_; ++turn) {
                if (turn == most_barrier_turns)
                    __trap();
            }
        }
        __syncthreads();
    }

    const CudaBlock &block_;
    Ring &ring_;
    uint32_t *arrivals_;
    uint32_t wanted_ = 0;
};

// Bytes of the tables that the kernel copies: a barrier of the grid empties the first-level cache, and every
// phase begins with finding its weights.
constexpr GGTTS_EVERYWHERE int table_bytes(const Sizes &sizes) {
    const int matrices = sizes.layers * matrices_of_layer + 1;
    const int bytes = matrices * static_cast<int>(sizeof(Matrix) + sizeof(float)) +
                      sizes.layers * static_cast<int>(sizeof(Norms) + sizeof(Cache)) +
                      product_kinds * static_cast<int>(sizeof(Tiling)) +
                      most_columns * static_cast<int>(sizeof(Column));
    return (bytes + 127) / 128 * 128;
}

__device__ __forceinline__ BatchTables copied_tables(const Model &model, const BatchStep &step,
                                                     uint8_t *room) {
    BatchTables tables;
    tables.matrices = copied(model.matrices, model.matrix_count, room);
    tables.norms = copied(model.norms, model.sizes.layers, room);
    tables.caches = copied(step.caches, model.sizes.layers, room);
    tables.each = copied(step.each, step.columns, room);
    tables.tilings = copied(step.tilings, product_kinds, room);
    tables.lifts = copied(step.lifts, model.matrix_count, room);
    __syncthreads();
    return tables;
}

template <class Type>
__global__ void __launch_bounds__(batch_warps *lanes, 1)
    batch_kernel(const __grid_constant__ Model model, const __grid_constant__ BatchStep step,
                 const __grid_constant__ BatchRoom room) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(128) uint8_t memory[];
    uint8_t *tables_room = memory + predictor::reserved_floats * sizeof(float);
    const BatchTables tables = copied_tables(model, step, tables_room);
    const CudaBlock block(reinterpret_cast<float *>(memory),
                          reinterpret_cast<float *>(tables_room + table_bytes(model.sizes)));
    WeightRing<Type, CudaBlock> ring(block, model, tables, room);
    CudaBatchGrid<Type> grid(block, ring, step.arrivals);
    TalkerBatchStep<Type, CudaBatchGrid<Type>>(grid, model, step, tables, room).run();
#endif
}

inline size_t shared_bytes(const Sizes &sizes, const BatchRoom &room) {
    return predictor::reserved_floats * sizeof(float) + static_cast<size_t>(table_bytes(sizes)) +
           static_cast<size_t>(room.end) * sizeof(float);
}

// What a launch needs to know.
struct BatchKernel {
    const void *function = nullptr;
    BatchRoom (*room)(const Sizes &, int columns, int stage_units, int slots, int attending) = nullptr;
    int stage_units = 0;  // at most
};

template <class Type>
BatchKernel batch_kernel_of() {
    return {reinterpret_cast<const void *>(&batch_kernel<Type>), &room_for<Type>, Type::most_stage_units};
}

// One source file each, so that they are compiled side by side.
BatchKernel q8_0_batch_kernel();
BatchKernel f16_batch_kernel();
BatchKernel bf16_batch_kernel();

}  // namespace ggtts::talker::batch
