// What the kernel for steps of several utterances asks of a GPU, beside cuda_tensor.cuh.
#pragma once

#include "batch_operands.hpp"
#include "cuda_tensor.cuh"

namespace ggtts::talker::batch {

using predictor::CudaBlock;
using predictor::CudaWarp;
using predictor::lanes;

template <class Block, class Own>
class AllWarps;

template <class Own>
class AllWarps<CudaBlock, Own> {
public:
    __device__ __forceinline__ explicit AllWarps(int) : all_(warp_) {}
    AllWarps(const AllWarps &) = delete;
    AllWarps &operator=(const AllWarps &) = delete;
    __device__ __forceinline__ predictor::Lanes<CudaWarp, Own> &of(const CudaWarp &) { return all_; }

private:
    CudaWarp warp_;
    predictor::Lanes<CudaWarp, Own> all_;
};

namespace detail {

__device__ __forceinline__ void begin_copy(uint8_t *target, const uint8_t *source) {
#if __CUDA_ARCH__ >= 800
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(target));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(source) : "memory");
#endif
}

// Rows of small models, which begin anywhere.
__device__ __forceinline__ void copy_slowly(int lane, const RowCopy &copy) {
    for (int at = 2 * lane; at < copy.bytes; at += 2 * lanes)
        *reinterpret_cast<uint16_t *>(copy.target + at) =
            __ldg(reinterpret_cast<const uint16_t *>(copy.source + at));
}

}  // namespace detail

template <class Locate>
__device__ __forceinline__ void begin_rows(const CudaBlock &, int rows, Locate locate) {
    constexpr int word = 16;
    const int thread = predictor::unknown(static_cast<int>(threadIdx.x)), lane = thread % lanes;
#pragma unroll 1
    for (int row = thread / lanes; row < rows;
         row += static_cast<int>(blockDim.x) / lanes) {
        const RowCopy copy = locate(row);
        if ((reinterpret_cast<uintptr_t>(copy.source) | static_cast<uintptr_t>(copy.bytes)) % word == 0) {
#pragma unroll 1
            for (int at = lane * word; at < copy.bytes; at += lanes * word)
                detail::begin_copy(copy.target + at, copy.source + at);
        } else {
            detail::copy_slowly(lane, copy);
        }
        for (int at = copy.bytes + 2 * lane; at < copy.room; at += 2 * lanes)
            *reinterpret_cast<uint16_t *>(copy.target + at) = 0;
    }
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_copies(const CudaBlock &, int newer) {
#if __CUDA_ARCH__ >= 800
    switch (newer) {
        case 0:
            asm volatile("cp.async.wait_group 0;" ::: "memory");
            break;
        case 1:
            asm volatile("cp.async.wait_group 1;" ::: "memory");
            break;
        case 2:
            asm volatile("cp.async.wait_group 2;" ::: "memory");
            break;
        case 3:
            asm volatile("cp.async.wait_group 3;" ::: "memory");
            break;
        case 4:
            asm volatile("cp.async.wait_group 4;" ::: "memory");
            break;
        default:
            asm volatile("cp.async.wait_group 5;" ::: "memory");
            break;
    }
#endif
    __syncthreads();
}

// Copies that a warp begins: locate(lane, i) for i in [0, count).
template <class Own, class Locate>
__device__ __forceinline__ void begin_pieces(predictor::Lanes<CudaWarp, Own> &all, int count, Locate locate) {
#if __CUDA_ARCH__ >= 800
    all.each([&](int lane, const Own &) {
#pragma unroll 4
        for (int i = 0; i < count; ++i) {
            const PieceCopy copy = locate(lane, i);
            const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(copy.target));
            const int bytes = copy.exists ? 16 : 0;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(copy.source), "r"(bytes)
                         : "memory");
        }
    });
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all copies of a warp but those that were begun last by `newer` calls.
template <int newer, class Own>
__device__ __forceinline__ void wait_for_pieces(predictor::Lanes<CudaWarp, Own> &all) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(newer) : "memory");
#endif
    all.meet();
}

// What lanes tell each other. Sums of all lanes are made in the order of CudaWarp.
template <int count, class Own, class Get, class Set>
__device__ __forceinline__ void add_up(predictor::Lanes<CudaWarp, Own> &all, Get get, Set set) {
    all.each([&](int, Own &own) {
        float values[count];
        get(own, values);
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2) {
#pragma unroll
            for (float &value : values)
                value += __shfl_xor_sync(predictor::all_lanes, value, step);
        }
        set(own, values);
    });
}

// Of numbers that are not negative, nor no numbers.
template <int count, class Own, class Get, class Set>
__device__ __forceinline__ void largest(predictor::Lanes<CudaWarp, Own> &all, Get get, Set set) {
#if __CUDA_ARCH__ >= 800
    all.each([&](int lane, Own &own) {
        float values[count];
        get(own, values);
#pragma unroll
        for (float &value : values)
            value = __uint_as_float(__reduce_max_sync(predictor::all_lanes, __float_as_uint(value)));
        set(lane, own, values);
    });
#endif
}

template <class Own, class Get, class Combine, class Set>
__device__ __forceinline__ void combine_fours(predictor::Lanes<CudaWarp, Own> &all, Get get, Combine combine,
                                              Set set) {
    all.each([&](int, Own &own) {
        float value = get(own);
#pragma unroll
        for (int step = 2; step > 0; step /= 2)
            value = combine(value, __shfl_xor_sync(predictor::all_lanes, value, step));
        set(own, value);
    });
}

template <class Own, class From, class Get, class Set>
__device__ __forceinline__ void exchange(predictor::Lanes<CudaWarp, Own> &all, From from, Get get, Set set) {
    all.each([&](int lane, Own &own) {
        const predictor::Floats given = get(own);
        predictor::Floats taken;
        for (int i = 0; i < 4; ++i)
            taken.at[i] = __shfl_sync(predictor::all_lanes, given.at[i], from(lane));
        set(lane, own, taken);
    });
}

template <class Own, class Test>
__device__ __forceinline__ bool any(predictor::Lanes<CudaWarp, Own> &all, Test test) {
    bool result = false;
    all.each([&](int, const Own &own) { result = __any_sync(predictor::all_lanes, test(own) ? 1 : 0) != 0; });
    return result;
}

__device__ __forceinline__ bool comes_last(const CudaWarp &, uint32_t *counter, int count) {
    __syncwarp();
    int last = 0;
    if (threadIdx.x % lanes == 0) {
        last = predictor::meet_others(counter) + 1 == static_cast<uint32_t>(count) ? 1 : 0;
        if (last != 0)
            *counter = 0;
    }
    last = __shfl_sync(predictor::all_lanes, last, 0);
    __syncwarp();
    return last != 0;
}

}  // namespace ggtts::talker::batch
