// What the tensor kernel asks of a GPU: matrix units, and copies that nobody waits for.
#pragma once

#include "cuda_grid.cuh"
#include "tensor_operands.hpp"

namespace ggtts::predictor {

// The first generation with these instructions; a kernel for older ones is empty, and is never launched.
inline constexpr int tensor_generation = 8;

template <class Own>
class Lanes<CudaWarp, Own> {
public:
    __device__ explicit Lanes(const CudaWarp &warp)
        : warp_(warp), lane_(unknown(static_cast<int>(threadIdx.x) % lanes)) {}

    template <class Function>
    __device__ __forceinline__ void each(Function function) {
        function(lane_, own_);
    }
    template <class Function>
    __device__ __forceinline__ float sum(Function function) {
        return warp_.sum([&](int lane) { return function(lane, own_); });
    }
    template <class Function>
    __device__ __forceinline__ float highest(Function function) {
        return warp_.highest([&](int lane) { return function(lane, own_); });
    }
    template <int count, class Add, class Take>
    __device__ __forceinline__ void sums(Add add, Take take) {
        warp_.template sums<count>([&](int lane, float (&values)[count]) { add(lane, own_, values); }, take);
    }
    template <class Function>
    __device__ __forceinline__ Pair two_sums(Function function) {
        Pair values = function(lane_, own_);
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2) {
            values.at[0] += __shfl_xor_sync(all_lanes, values.at[0], step);
            values.at[1] += __shfl_xor_sync(all_lanes, values.at[1], step);
        }
        return values;
    }
    template <class Get, class From, class Set>
    __device__ __forceinline__ void exchange(Get get, From from, Set set) {
        const int other = from(lane_);
        Floats values = get(own_);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            values.at[i] = __shfl_sync(all_lanes, values.at[i], other);
        set(own_, values);
    }
    template <class Get, class Combine, class Set>
    __device__ __forceinline__ void combine_eights(Get get, Combine combine, Set set) {
        float value = get(own_);
#pragma unroll
        for (int step = 4; step > 0; step /= 2)
            value = combine(value, __shfl_xor_sync(all_lanes, value, step));
        set(own_, value);
    }

    __device__ __forceinline__ void meet() const { __syncwarp(); }

    template <class Function>
    __device__ __forceinline__ void multiply(Function operands) {
        const TensorOperands with = operands(own_);
        float *sums = with.sums;
#if __CUDA_ARCH__ >= 800
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(with.columns[0]), "r"(with.columns[1]), "r"(with.columns[2]), "r"(with.columns[3]),
              "r"(with.rows[0]), "r"(with.rows[1]));
#else
        (void)sums;
#endif
    }

private:
    CudaWarp warp_;
    int lane_;
    Own own_ = {};
};

template <class Locate>
__device__ __forceinline__ void begin_copies(const CudaBlock &, int runs, int words, Locate locate) {
#if __CUDA_ARCH__ >= 800
    for (int run = 0; run < runs; ++run) {
        for (int word = static_cast<int>(threadIdx.x); word < words; word += static_cast<int>(blockDim.x)) {
            const Copy copy = locate(run, word);
            const auto target = static_cast<uint32_t>(__cvta_generic_to_shared(copy.target));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(copy.source)
                         : "memory");
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int newer>
__device__ __forceinline__ void finish_copies(const CudaBlock &) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(newer) : "memory");
#endif
    __syncthreads();
}

__device__ __forceinline__ bool arrives_last(const CudaBlock &, uint32_t *counter, int count) {
    __syncthreads();
    int last = 0;
    if (threadIdx.x == 0) {
        last = meet_others(counter) + 1 == static_cast<uint32_t>(count) ? 1 : 0;
        if (last != 0)
            *counter = 0;
    }
    return __syncthreads_or(last) != 0;
}

}  // namespace ggtts::predictor
