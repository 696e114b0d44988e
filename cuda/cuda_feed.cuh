// The feed of one warp on a GPU. Since compute capability 9.0 a copy is one instruction of one lane and
// completes on a barrier in shared memory (PTX: cp.async.bulk, mbarrier); since 8.0 each lane copies its part
// asynchronously; before, a copy is made at once.
#pragma once

#include "cuda_grid.cuh"
#include "weight_feed.hpp"

namespace ggtts::predictor {

namespace detail {

__device__ __forceinline__ uint32_t address(const void *shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void begin_copy(uint8_t *slot, const uint8_t *tile, int bytes, uint64_t *arrival,
                                           int lane) {
#if __CUDA_ARCH__ >= 900
    if (lane == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(arrival)),
                     "r"(bytes)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                address(slot)),
            "l"(tile), "r"(bytes), "r"(address(arrival))
            : "memory");
    }
#else
    for (int at = lane * 16; at < bytes; at += lanes * 16) {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(slot + at)), "l"(tile + at)
                     : "memory");
#else
        *reinterpret_cast<Words *>(slot + at) = load_words(tile + at);
#endif
    }
#endif
}

__device__ __forceinline__ void wait_for_copy(uint64_t *arrival, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    uint32_t done = 0;
    while (done == 0) {
        asm volatile(
            "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
            " selp.u32 %0, 1, 0, p;\n}"
            : "=r"(done)
            : "r"(address(arrival)), "r"(parity)
            : "memory");
    }
#else
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncwarp();
#endif
}

__device__ __forceinline__ void make_barrier(uint64_t *arrival) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(arrival)) : "memory");
#endif
}

// What was written so far is seen by copies, too.
__device__ __forceinline__ void show_to_copies() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace detail

template <class Type>
class CudaFeed {
public:
    static constexpr int bytes = tile_bytes<Type>;

    // Bytes of shared memory for all warps.
    static __host__ __device__ constexpr int64_t room(int warps, int depth) {
        return static_cast<int64_t>(warps) * depth * (bytes + static_cast<int>(sizeof(uint64_t)));
    }

    __device__ CudaFeed(uint8_t *memory, int depth, const Portion *portions, int count)
        : depth_(depth),
          lane_(static_cast<int>(threadIdx.x) % lanes),
          stream_(portions, count, static_cast<int>(threadIdx.x) / lanes,
                  static_cast<int>(blockDim.x) / lanes) {
        const int warps = static_cast<int>(blockDim.x) / lanes, warp = static_cast<int>(threadIdx.x) / lanes;
        slots_ = memory + static_cast<int64_t>(warp) * depth * bytes;
        arrivals_ = reinterpret_cast<uint64_t *>(memory + static_cast<int64_t>(warps) * depth * bytes) +
                    static_cast<int64_t>(warp) * depth;
        if (lane_ < depth)
            detail::make_barrier(arrivals_ + lane_);
        detail::show_to_copies();
        __syncwarp();
        used_ = depth;
        refill();
    }

    template <class Warp>
    __device__ __forceinline__ const uint8_t *wait(const Warp &) {
        if (used_ == depth_)
            refill();
        detail::wait_for_copy(arrivals_ + next_, parity_);
        const uint8_t *tile = slots_ + next_ * bytes;
        ++used_;
        if (++next_ == depth_) {
            next_ = 0;
            parity_ ^= 1;
        }
        return tile;
    }

    __device__ __forceinline__ void refill() {
        __syncwarp();
        for (; used_ > 0; --used_) {
            const uint8_t *tile = stream_.template next<bytes>();
            if (tile != nullptr)
                detail::begin_copy(slots_ + empty_ * bytes, tile, bytes, arrivals_ + empty_, lane_);
            empty_ = empty_ + 1 == depth_ ? 0 : empty_ + 1;
        }
    }

private:
    int depth_, lane_;
    TileStream stream_;
    uint8_t *slots_;
    uint64_t *arrivals_;
    int next_ = 0, empty_ = 0, used_ = 0;  // slots: to read next, to fill next; how many to fill
    uint32_t parity_ = 0;                  // of the copy into slot `next_`
};

}  // namespace ggtts::predictor
