// The grid of a GPU: all blocks are resident (a cooperative launch), so they can wait for each other.
#pragma once

#include "weight_types.hpp"

namespace ggtts::predictor {

inline constexpr unsigned all_lanes = 0xFFFFFFFFU;
// Floats at the start of shared memory that sums over a block pass through: a double per warp, or several
// counts.
inline constexpr int reserved_floats = 4 * 32;

// Instructions that CUDA C++ has no name for.
__device__ __forceinline__ void prefetch_line(const uint8_t *memory) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(memory));
}
__device__ __forceinline__ void release_one(uint32_t *counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
__device__ __forceinline__ uint32_t acquire(const uint32_t *counter) {
    uint32_t value = 0;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

// The same number, of which the compiler knows nothing: so it does not compute what follows from it long
// before that is needed, and keep it in registers that others want.
__device__ __forceinline__ int unknown(int number) {
    asm volatile("" : "+r"(number));
    return number;
}

// Adds one to what others add to: those who come later see what was written before, and how many came.
__device__ __forceinline__ uint32_t meet_others(uint32_t *counter) {
    uint32_t before = 0;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

class CudaWarp {
public:
    __device__ CudaWarp() : lane_(static_cast<int>(threadIdx.x) % lanes) {}

    __device__ int index() const { return static_cast<int>(threadIdx.x) / lanes; }

    template <class Function>
    __device__ __forceinline__ void each(int count, Function function) const {
        for (int i = lane_; i < count; i += lanes)
            function(i);
        __syncwarp();
    }

    template <class Function>
    __device__ __forceinline__ float sum(Function function) const {
        float value = function(lane_);
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2)
            value += __shfl_xor_sync(all_lanes, value, step);
        return value;
    }

    template <class Function>
    __device__ __forceinline__ float highest(Function function) const {
        float value = function(lane_);
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2)
            value = fmaxf(value, __shfl_xor_sync(all_lanes, value, step));
        return value;
    }

    template <int count, class Add, class Take>
    __device__ __forceinline__ void sums(Add add, Take take) const {
        float values[count] = {};
        add(lane_, values);
        scatter<count, lanes / 2>(values, 0, take);
        __syncwarp();
    }

private:
    // Each step adds the values of two halves of the warp; as long as there are several, each half keeps one
    // half of them. Every sum is made in the same order, however many there are.
    template <int count, int step, class Take>
    __device__ __forceinline__ void scatter(float *values, int first, Take take) const {
        if constexpr (step == 0) {
#pragma unroll
            for (int i = 0; i < count; ++i)
                take(first + i, values[i]);
        } else if constexpr (count == 1) {
            finish<step>(values[0], first, take);
        } else {
            const bool upper = (lane_ & step) != 0;
#pragma unroll
            for (int i = 0; i < count / 2; ++i) {
                const float given = upper ? values[i] : values[i + count / 2];
                const float kept = upper ? values[i + count / 2] : values[i];
                values[i] = kept + __shfl_xor_sync(all_lanes, given, step);
            }
            scatter<count / 2, step / 2>(values, first + (upper ? count / 2 : 0), take);
        }
    }

    // The last value of a lane: all lanes that differ in the remaining steps only come to know it, one takes
    // it.
    template <int largest_step, class Take>
    __device__ __forceinline__ void finish(float value, int index, Take take) const {
#pragma unroll
        for (int step = largest_step; step > 0; step /= 2)
            value += __shfl_xor_sync(all_lanes, value, step);
        if ((lane_ & (2 * largest_step - 1)) == 0)
            take(index, value);
    }

    int lane_;
};

class CudaBlock {
public:
    // `scratch` has reserved_floats.
    __device__ CudaBlock(float *scratch, float *shared) : scratch_(scratch), shared_(shared) {}

    __device__ int index() const { return static_cast<int>(blockIdx.x); }
    __device__ int blocks() const { return static_cast<int>(gridDim.x); }
    __device__ float *shared() const { return shared_; }

    template <class Function>
    __device__ __forceinline__ void each(int count, Function function) const {
        for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
            function(i);
        __syncthreads();
    }

    template <class Function>
    __device__ __forceinline__ void each_task(int count, Function function) const {
        const CudaWarp warp;
        for (int task = warp.index(); task < count; task += warps())
            function(warp, task);
        __syncthreads();
    }

    template <class Number, class Function>
    __device__ __forceinline__ Number total(int count, Function function) const {
        return combine<Number>(count, Number(0), function, [](Number a, Number b) { return a + b; });
    }

    template <class Number, class Function>
    __device__ __forceinline__ Number highest(int count, Function function) const {
        return combine<Number>(count, function(0), function,
                               [](Number a, Number b) { return a > b ? a : b; });
    }

    template <int several, class Function>
    __device__ __forceinline__ void counts(int count, Function function, int (&totals)[several]) const {
        const int lane = static_cast<int>(threadIdx.x) % lanes, own = static_cast<int>(threadIdx.x) / lanes;
        int counted[several] = {};
#pragma unroll 4
        for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
            function(i, counted);
        auto *of_warps = reinterpret_cast<int *>(scratch_);
#pragma unroll
        for (int which = 0; which < several; ++which) {
            const int sum = sum_of_lanes(counted[which]);
            if (lane == 0)
                of_warps[which * lanes + own] = sum;
        }
        __syncthreads();
#pragma unroll
        for (int which = 0; which < several; ++which)
            totals[which] = sum_of_lanes(lane < warps() ? of_warps[which * lanes + lane] : 0);
        __syncthreads();
    }

    // Each thread adds up neighbours, the threads of a warp what is before them, and all of them the warps
    // before.
    template <class Function>
    __device__ __forceinline__ int place(int count, Function function, float part) const {
        const int thread = static_cast<int>(threadIdx.x), lane = thread % lanes;
        const int size = (count + static_cast<int>(blockDim.x) - 1) / static_cast<int>(blockDim.x);
        const int first = min(count, thread * size), last = min(count, first + size);
        double own = 0.0;
        for (int i = first; i < last; ++i)
            own += function(i);
        double until = own;
#pragma unroll
        for (int step = 1; step < lanes; step *= 2) {
            const double before = __shfl_up_sync(all_lanes, until, step);
            until += lane >= step ? before : 0.0;
        }
        double from = __shfl_up_sync(all_lanes, until, 1);
        from = lane == 0 ? 0.0 : from;
        double base = 0.0;
        const double target = part * sum_of_warps(until, base);
        auto *found = reinterpret_cast<int *>(scratch_);
        if (thread == 0)
            *found = -1;
        __syncthreads();
        if (base + from < target && target <= base + until)
            *found = place_among(first, last, function, base + from, target);
        __syncthreads();
        const int result = *found;
        __syncthreads();
        return result;
    }

    // Only the second-level cache is filled: nothing waits for it.
    __device__ __forceinline__ void prefetch(const uint8_t *memory, int64_t bytes) const {
        constexpr int64_t line = 128;
        for (int64_t at = line * threadIdx.x; at < bytes; at += line * blockDim.x)
            prefetch_line(memory + at);
    }

private:
    __device__ int warps() const { return static_cast<int>(blockDim.x) / lanes; }

    static __device__ __forceinline__ int sum_of_lanes(int value) {
#if __CUDA_ARCH__ >= 800
        return __reduce_add_sync(all_lanes, value);
#else
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2)
            value += __shfl_xor_sync(all_lanes, value, step);
        return value;
#endif
    }

    // The sum of what the last lane of each warp has; `base` is that of the warps before this one.
    __device__ __forceinline__ double sum_of_warps(double of_lane, double &base) const {
        const int own = static_cast<int>(threadIdx.x) / lanes;
        auto *of_warps = reinterpret_cast<double *>(scratch_);
        if (threadIdx.x % lanes == lanes - 1)
            of_warps[own] = of_lane;
        __syncthreads();
        double sum = 0.0;
        for (int warp = 0; warp < warps(); ++warp) {
            base = warp == own ? sum : base;
            sum += of_warps[warp];
        }
        __syncthreads();
        return sum;
    }

    template <class Function>
    __device__ __forceinline__ int place_among(int first, int last, Function function, double sum,
                                               double target) const {
        int found = first;
        for (int i = first; i < last; ++i) {
            const float value = function(i);
            found = value > 0.0F ? i : found;
            sum += value;
            if (sum >= target && value > 0.0F)
                break;
        }
        return found;
    }

    template <class Number, class Function, class Combine>
    __device__ __forceinline__ Number combine(int count, Number neutral, Function function,
                                              Combine combine) const {
        Number value = neutral;
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
            value = combine(value, function(i));
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2)
            value = combine(value, __shfl_xor_sync(all_lanes, value, step));
        auto *of_warps = reinterpret_cast<Number *>(scratch_);
        if (threadIdx.x % lanes == 0)
            of_warps[threadIdx.x / lanes] = value;
        __syncthreads();
        value = of_warps[0];
        for (int warp = 1; warp < warps(); ++warp)
            value = combine(value, of_warps[warp]);
        __syncthreads();
        return value;
    }

    float *scratch_, *shared_;
};

class CudaGrid {
public:
    __device__ CudaGrid(float *scratch, float *shared, uint32_t *arrivals)
        : block_(scratch, shared), arrivals_(arrivals) {}

    template <class Function>
    __device__ __forceinline__ void phase(Function function) {
        function(block_);
        wait_for_all();
    }

private:
    // Arrivals are counted over all phases, so nothing has to be set back. The release and the acquire of one
    // thread hold for its block through the block's own barriers (PTX memory model, causality order).
    __device__ __forceinline__ void wait_for_all() {
        __syncthreads();
        if (threadIdx.x == 0) {
            wanted_ += gridDim.x;
            release_one(arrivals_);
            while (acquire(arrivals_) < wanted_) {
            }
        }
        __syncthreads();
    }

    CudaBlock block_;
    uint32_t *arrivals_;
    uint32_t wanted_ = 0;
};

}  // namespace ggtts::predictor
