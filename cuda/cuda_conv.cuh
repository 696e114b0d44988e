// What a tile of a convolution asks of a GPU: matrix units, and copies that nobody waits for.
#pragma once

#include <cuda_runtime.h>

#include "conv_steps.hpp"

namespace ggtts::conv {

// The first generation with these instructions; a kernel for older ones is empty, and is never launched.
inline constexpr int conv_generation = 8;

class CudaBlock {
public:
    __device__ int block() const { return static_cast<int>(blockIdx.x); }

    // Calls function(i) for i in [0, count), spread over the threads.
    template <class Function>
    __device__ __forceinline__ void spread(int count, Function function) const {
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
            function(i);
    }
    // The same as function(i, load(i)), where nobody waits for one load before the next few.
    template <int together, class Load, class Function>
    __device__ __forceinline__ void spread_together(int count, Load load, Function function) const {
        const int threads = static_cast<int>(blockDim.x);
#pragma unroll 1
        for (int first = static_cast<int>(threadIdx.x); first < count; first += together * threads) {
            decltype(load(0)) loaded[together];
#pragma unroll
            for (int i = 0; i < together; ++i) {
                if (first + i * threads < count)
                    loaded[i] = load(first + i * threads);
            }
#pragma unroll
            for (int i = 0; i < together; ++i) {
                if (first + i * threads < count)
                    function(first + i * threads, loaded[i]);
            }
        }
    }
    __device__ __forceinline__ void meet() const { __syncthreads(); }

    // The kernel behind this one may begin what it need not wait for, and waits for the results of those
    // before it (CUDA C++ Programming Guide, "Programmatic dependent launch").
    __device__ __forceinline__ void let_next_begin() const {
#if __CUDA_ARCH__ >= 900
        asm volatile("griddepcontrol.launch_dependents;");
#endif
    }
    __device__ __forceinline__ void await_earlier() const {
#if __CUDA_ARCH__ >= 900
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    }
};

template <class Shape>
class CudaTile : public CudaBlock {
public:
    __device__ CudaTile()
        : warp_(__shfl_sync(~0U, static_cast<int>(threadIdx.x) / lanes_of_warp, 0)),
          lane_(static_cast<int>(threadIdx.x) % lanes_of_warp) {}

    template <class Predicate>
    __device__ __forceinline__ void start(Predicate has_work) {
        busy_ = has_work(warp_);
    }
    __device__ __forceinline__ bool busy() const { return busy_; }

    template <class Function>
    __device__ __forceinline__ void each(Function function) {
        function(warp_, lane_, own_);
    }

    // Calls function(thread, registers) for all threads, those of warps without work, too.
    template <class Function>
    __device__ __forceinline__ void all(Function function) {
        function(static_cast<int>(threadIdx.x), own_);
    }

    template <class Function>
    __device__ __forceinline__ void multiply(Function operands) {
#if __CUDA_ARCH__ >= 800
        const Operands with = operands(own_);
        float *sums = with.sums;
        if constexpr (Shape::kind == Kind::halves) {
            asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                : "r"(with.outputs[0]), "r"(with.outputs[1]), "r"(with.outputs[2]), "r"(with.outputs[3]),
                  "r"(with.positions[0]), "r"(with.positions[1]));
        } else {
            asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                : "r"(with.outputs[0]), "r"(with.outputs[1]), "r"(with.outputs[2]), "r"(with.outputs[3]),
                  "r"(with.positions[0]), "r"(with.positions[1]));
        }
#endif
    }

    // Copies 16 bytes; zeros where nothing exists.
    __device__ __forceinline__ void copy_words(void *target, const void *source, bool exists) const {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(target)),
                     "l"(source), "r"(exists ? 16 : 0)
                     : "memory");
#endif
    }
    __device__ __forceinline__ void commit() const {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    }
    // Waits for all copies but those of the last `newer` commits, and for all threads.
    template <int newer>
    __device__ __forceinline__ void arrive() const {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_group %0;" ::"n"(newer) : "memory");
#endif
        __syncthreads();
    }

    // Whether this block is the last of `count`; it then sees what the others wrote before.
    __device__ __forceinline__ bool arrives_last(uint32_t *counter, int count) const {
        __syncthreads();
        int last = 0;
        if (threadIdx.x == 0) {
            __threadfence();
            last = atomicAdd(counter, 1U) + 1 == static_cast<uint32_t>(count) ? 1 : 0;
            if (last != 0)
                *counter = 0;
            __threadfence();
        }
        return __syncthreads_or(last) != 0;
    }

private:
    static __device__ __forceinline__ uint32_t shared_address(const void *place) {
        return static_cast<uint32_t>(__cvta_generic_to_shared(place));
    }

    int warp_, lane_;
    bool busy_ = true;
    Registers<Shape> own_;
};

}  // namespace ggtts::conv
