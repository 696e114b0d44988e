// What the kernel for steps of several utterances asks of a GPU, beside cuda_tensor.cuh.
#pragma once

#include "batch_model.hpp"
#include "batch_operands.hpp"
#include "cuda_feed.cuh"
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

inline constexpr int bytes_of_word = 16;

__device__ __forceinline__ bool is_aligned(const RowCopy &copy) {
    return (reinterpret_cast<uintptr_t>(copy.source) | static_cast<uintptr_t>(copy.bytes)) % bytes_of_word ==
           0;
}

// A lane's part of a row, two bytes at once, as rows of small models begin anywhere.
__device__ __forceinline__ void copy_slowly(int lane, const RowCopy &copy) {
    for (int at = 2 * lane; at < copy.bytes; at += 2 * lanes)
        *reinterpret_cast<uint16_t *>(copy.target + at) =
            __ldg(reinterpret_cast<const uint16_t *>(copy.source + at));
}

#if __CUDA_ARCH__ >= 900
// A copy of one lane.
__device__ __forceinline__ void begin_row(const RowCopy &copy, uint64_t *arrival) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            predictor::detail::address(copy.target)),
        "l"(copy.source), "r"(copy.bytes), "r"(predictor::detail::address(arrival))
        : "memory");
}

// Says how many bytes a warp asks for.
__device__ __forceinline__ void expect(uint64_t *arrival, int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(predictor::detail::address(arrival)),
        "r"(bytes)
        : "memory");
}
#elif __CUDA_ARCH__ >= 800
// A lane's part of a row.
__device__ __forceinline__ void begin_row(int lane, const RowCopy &copy) {
#pragma unroll 1
    for (int at = lane * bytes_of_word; at < copy.bytes; at += lanes * bytes_of_word)
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(predictor::detail::address(copy.target + at)),
            "l"(copy.source + at)
            : "memory");
}
#endif

}  // namespace detail

// Since compute capability 9.0 a warp's copies are counted by a barrier in shared memory.
__device__ __forceinline__ void make_arrivals(const CudaBlock &, uint64_t *arrivals, int slots) {
#if __CUDA_ARCH__ >= 900
    if (static_cast<int>(threadIdx.x) < slots) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(
                         predictor::detail::address(arrivals + threadIdx.x)),
                     "r"(batch_warps)
                     : "memory");
    }
    predictor::detail::show_to_copies();
    __syncthreads();
#endif
}

template <class Locate>
__device__ __forceinline__ void begin_rows(const CudaBlock &, uint64_t *arrival, int rows, Locate locate) {
    const int thread = predictor::unknown(static_cast<int>(threadIdx.x)), lane = thread % lanes;
    const int warp = thread / lanes;
#if __CUDA_ARCH__ >= 900
    // A lane has a row of its warp.
    const int row = lane * batch_warps + warp;
    const bool exists = row < rows;
    const RowCopy own = locate(exists ? row : 0);
    const bool at_once = exists && detail::is_aligned(own) && own.bytes == own.room;
    const int bytes = __reduce_add_sync(predictor::all_lanes, at_once ? own.bytes : 0);
    if (lane == 0)
        detail::expect(arrival, bytes);
    __syncwarp();
    if (at_once)
        detail::begin_row(own, arrival);
    if (__all_sync(predictor::all_lanes, at_once == exists))
        return;
#endif
#pragma unroll 1
    for (int row = warp; row < rows; row += batch_warps) {
        const RowCopy copy = locate(row);
#if __CUDA_ARCH__ >= 900
        if (detail::is_aligned(copy) && copy.bytes == copy.room)
            continue;
        detail::copy_slowly(lane, copy);
#elif __CUDA_ARCH__ >= 800
        if (detail::is_aligned(copy))
            detail::begin_row(lane, copy);
        else
            detail::copy_slowly(lane, copy);
#endif
        for (int at = copy.bytes + 2 * lane; at < copy.room; at += 2 * lanes)
            *reinterpret_cast<uint16_t *>(copy.target + at) = 0;
    }
}

// What a warp has copied itself is there at the barrier of the block.
__device__ __forceinline__ void wait_for_rows(const CudaBlock &, uint64_t *arrival, uint32_t turn) {
#if __CUDA_ARCH__ >= 900
    predictor::detail::wait_for_copy(arrival, turn);
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
}

namespace detail {

__device__ __forceinline__ void begin_piece(const PieceCopy &copy) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(predictor::detail::address(copy.target)),
        "l"(copy.source), "r"(copy.exists ? bytes_of_word : 0)
        : "memory");
#endif
}
__device__ __forceinline__ void end_pieces() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

}  // namespace detail

// Copies that a warp begins: locate(lane, i) for i in [0, count).
template <class Own, class Locate>
__device__ __forceinline__ void begin_pieces(predictor::Lanes<CudaWarp, Own> &all, int count, Locate locate) {
    all.each([&](int lane, const Own &) {
#pragma unroll 1
        for (int i = 0; i < count; ++i)
            detail::begin_piece(locate(lane, i));
    });
    detail::end_pieces();
}
// As many as is known beforehand.
template <int count, class Own, class Locate>
__device__ __forceinline__ void begin_all_pieces(predictor::Lanes<CudaWarp, Own> &all, Locate locate) {
    all.each([&](int lane, const Own &) {
#pragma unroll
        for (int i = 0; i < count; ++i)
            detail::begin_piece(locate(lane, i));
    });
    detail::end_pieces();
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
