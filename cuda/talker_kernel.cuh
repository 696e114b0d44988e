// The kernel of the talker for one type of weight.
#pragma once

#include <cuda_runtime.h>

#include "cuda_grid.cuh"
#include "table_copies.cuh"
#include "talker_step.hpp"

namespace ggtts::talker {

inline constexpr int step_warps = 16;

// Loops stay loops: the caches of instructions are small, and most of them have a turn or two.
class StepWarp : public predictor::CudaWarp {
public:
    // Known to be the same in all lanes.
    __device__ __forceinline__ int index() const {
        return __shfl_sync(predictor::all_lanes, static_cast<int>(threadIdx.x) / lanes, 0);
    }

    template <class Function>
    __device__ __forceinline__ void each(int count, Function function) const {
#pragma unroll 1
        for (int i = lane(); i < count; i += lanes)
            function(i);
        __syncwarp();
    }

    template <class Function>
    __device__ __forceinline__ Pair highest_of_pairs(Function function) const {
        return combined(function(lane()), [](float a, float b) { return fmaxf(a, b); });
    }
    template <class Function>
    __device__ __forceinline__ Pair sum_of_pairs(Function function) const {
        return combined(function(lane()), [](float a, float b) { return a + b; });
    }

    // find(lane, turn) says what to bring in all turns. When all of that has come, store(lane, turn, brought,
    // top) takes it, where `top` is the highest of 16 lanes, if it is wanted. Returns the sum of what `store`
    // returns.
    template <int turns, bool with_top, class Brought, class Find, class Store>
    __device__ __forceinline__ float bring(uint32_t time, Find find, Store store) const {
        const int lane = StepWarp::lane();
        Brought brought[turns];
#pragma unroll
        for (int turn = 0; turn < turns; ++turn)
            brought[turn] = find(lane, turn);
        wait_for<turns>(time, brought);
        float own = 0;
#pragma unroll
        for (int turn = 0; turn < turns; ++turn) {
            uint32_t top = 0;
            if constexpr (with_top) {
                top = brought[turn].top();
#pragma unroll
                for (int step = lanes / 4; step > 0; step /= 2)
                    top = max(top, __shfl_xor_sync(predictor::all_lanes, top, step));
            }
            own += store(lane, turn, brought[turn], top);
        }
        return sum([&](int) { return own; });
    }

private:
    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % lanes; }

    template <class Combine>
    static __device__ __forceinline__ Pair combined(Pair values, Combine combine) {
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2) {
            for (float &value : values.at)
                value = combine(value, __shfl_xor_sync(predictor::all_lanes, value, step));
        }
        return values;
    }

    // While something is missing, one lane of a warp keeps looking: all of them would fill the second-level
    // cache with questions, which those who are waited for have to get through.
    template <int turns, class Brought>
    __device__ __forceinline__ void wait_for(uint32_t time, Brought (&brought)[turns]) const {
        while (true) {
#pragma unroll
            for (int turn = 0; turn < turns; ++turn)
                brought[turn].look();
            const Letter *missing = nullptr;
#pragma unroll
            for (int turn = turns - 1; turn >= 0; --turn)
                missing = brought[turn].has_come(time) ? missing : brought[turn].from;
            const unsigned waiting = __ballot_sync(predictor::all_lanes, missing != nullptr);
            if (waiting == 0)
                return;
            if (lane() == __ffs(static_cast<int>(waiting)) - 1)
                receive_two(missing, look_at_two(missing), time);
            __syncwarp();
        }
    }
};

class StepBlock : public predictor::CudaBlock {
public:
    using predictor::CudaBlock::CudaBlock;

    template <class Function>
    __device__ __forceinline__ void each(int count, Function function) const {
        spread(count, function);
        __syncthreads();
    }

    template <class Function>
    __device__ __forceinline__ void spread(int count, Function function) const {
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < count; i += step_warps * lanes)
            function(i);
    }

    template <class Function>
    __device__ __forceinline__ void each_task(int count, Function function) const {
        const StepWarp warp;
#pragma unroll 1
        for (int task = warp.index(); task < count; task += step_warps)
            function(warp, task);
        __syncthreads();
    }
};

// Bytes of the tables that the kernel copies or makes.
constexpr GGTTS_EVERYWHERE int table_bytes(const Sizes &sizes) {
    const int bytes = (sizes.layers * matrices_of_layer + 1) * static_cast<int>(sizeof(Matrix)) +
                      sizes.layers * static_cast<int>(sizeof(Norms) + sizeof(Cache)) +
                      sizes.head_dim * static_cast<int>(sizeof(float)) +
                      step_warps * matrix_kinds * static_cast<int>(sizeof(Tasks)) +
                      step_warps * most_slots * static_cast<int>(sizeof(uint64_t));
    return (bytes + 15) / 16 * 16;
}

// Shared memory but for the slots of weights.
constexpr GGTTS_EVERYWHERE int fixed_bytes(const Sizes &sizes, int blocks) {
    return predictor::reserved_floats * static_cast<int>(sizeof(float)) + table_bytes(sizes) +
           Room(sizes, blocks, step_warps).end * static_cast<int>(sizeof(float));
}

// The weights of the warp that asks.
template <class Type>
struct OwnStream {
    WeightStream<Type> own;

    __device__ __forceinline__ WeightStream<Type> &of(int) { return own; }
    __device__ __forceinline__ void refill() { own.refill(StepWarp()); }
};

template <class Type>
__global__ void __launch_bounds__(step_warps *predictor::lanes, 1)
    step_kernel(const __grid_constant__ Model model, const __grid_constant__ Step step,
                const __grid_constant__ int slots) {
    extern __shared__ __align__(16) uint8_t memory[];
    uint8_t *room = memory + predictor::reserved_floats * sizeof(float);
    auto *barriers = reinterpret_cast<uint64_t *>(room);
    const StepBlock block(reinterpret_cast<float *>(memory),
                          reinterpret_cast<float *>(room + table_bytes(model.sizes)));
    room += step_warps * most_slots * sizeof(uint64_t);
    Model local = model;
    Step own_step = step;
    local.matrices = copied(model.matrices, model.matrix_count, room);
    local.norms = copied(model.norms, model.sizes.layers, room);
    own_step.caches = copied(step.caches, model.sizes.layers, room);
    own_step.rotation = copied(step.rotation, model.sizes.head_dim, room);
    auto *tasks = reinterpret_cast<Tasks *>(room);
    __syncthreads();
    block.each(step_warps * matrix_kinds, [&](int i) {
        tasks[i] = tasks_of(local, i % matrix_kinds, {block.index(), block.blocks()},
                            {i / matrix_kinds, step_warps});
    });
    const StepWarp warp;
    OwnStream<Type> streams{WeightStream<Type>(
        local, tasks + warp.index() * matrix_kinds,
        memory + fixed_bytes(model.sizes, block.blocks()) + warp.index() * slots * slot_bytes,
        barriers + warp.index() * most_slots, slots)};
    streams.own.start(warp);
    TalkerStep<Type, StepBlock, OwnStream<Type>> talker(block, step_warps, streams, tasks, local, own_step);
    talker.begin();
#pragma unroll 1
    for (int index = 0; index <= model.sizes.layers * sections_of_layer; ++index)
        talker.section(index);
}

// One source file each, so that they are compiled side by side.
const void *q8_0_step();
const void *f16_step();
const void *bf16_step();
const void *f32_step();

}  // namespace ggtts::talker
