// Memory on its way into the slots of a warp: by the copy engine of Hopper and later, by asynchronous copies
// of each lane on GPUs since Ampere, and by plain ones on others and on the CPU.
#pragma once

#include "portable.hpp"

#ifdef __CUDACC__
#include <cuda_pipeline.h>
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GGTTS_COPY_ENGINE
#endif

namespace ggtts::talker {

inline constexpr int copy_bytes = 16;  // all copies are of so many, and begin at a multiple of it

// How far behind a multiple of 16 bytes memory begins.
GGTTS_ANYWHERE int misalignment(const uint8_t *memory) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(memory) % copy_bytes);
}

// Bytes of a row, and where they begin once they are copied as they lie.
struct Bytes {
    const uint8_t *begin;
    int count;

    GGTTS_ANYWHERE const uint8_t *aligned() const { return begin - misalignment(begin); }
    GGTTS_ANYWHERE int copied() const {
        return (misalignment(begin) + count + copy_bytes - 1) / copy_bytes * copy_bytes;
    }
};

#ifdef GGTTS_COPY_ENGINE
__device__ __forceinline__ uint32_t shared_address(const void *memory) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(memory));
}
#endif

// What is on its way to the slots of one warp, which are asked for and waited for in turn.
class Arrivals {
public:
    // `barriers` has one for each slot.
    GGTTS_ANYWHERE Arrivals(uint64_t *barriers, int slots) : barriers_(barriers), slots_(slots) {}

    template <class Warp>
    GGTTS_ANYWHERE void begin(const Warp &warp) {
#ifdef GGTTS_COPY_ENGINE
        warp.each(slots_, [&](int slot) {
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(barriers_ + slot))
                         : "memory");
        });
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
#endif
        (void)warp;
    }

    // Copies rows into a slot, `row_room` bytes apart.
    template <int rows, class Warp>
    GGTTS_ANYWHERE void ask(const Warp &warp, int slot, uint8_t *target, int row_room,
                            const Bytes (&bytes)[rows], int used) {
#ifdef GGTTS_COPY_ENGINE
        warp.each(1, [&](int) {
            const uint32_t barrier = shared_address(barriers_ + slot);
            int all = 0;
#pragma unroll
            for (int row = 0; row < rows; ++row)
                all += row < used ? bytes[row].copied() : 0;
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(all)
                         : "memory");
#pragma unroll
            for (int row = 0; row < rows; ++row) {
                if (row < used)
                    engine_copy(target + row * row_room, bytes[row].aligned(), bytes[row].copied(), barrier);
            }
        });
#else
        for (int row = 0; row < rows && row < used; ++row) {
            warp.each(bytes[row].copied() / copy_bytes, [&](int i) {
                copy(target + row * row_room + i * copy_bytes, bytes[row].aligned() + i * copy_bytes,
                     bytes[row]);
            });
        }
#ifdef __CUDACC__
        __pipeline_commit();
#endif
        (void)slot;
#endif
    }

    // Waits for what was asked for first of all that is on its way, `others` slots of it after this one.
    template <class Warp>
    GGTTS_ANYWHERE void wait(const Warp &warp, int slot, int others) const {
#ifdef GGTTS_COPY_ENGINE
        const uint32_t barrier = shared_address(barriers_ + slot);
        uint32_t done = 0;
        while (done == 0) {
            asm volatile(
                "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                : "=r"(done)
                : "r"(barrier), "r"(round_)
                : "memory");
        }
#elif defined(__CUDACC__)
        wait_for_all_but(others);
#endif
        warp.each(0, [](int) {});  // each lane waited for its own copies
        (void)slot, (void)others;
    }

    // Every slot has had its turn.
    GGTTS_ANYWHERE void next_round() { round_ ^= 1U; }

private:
#ifdef GGTTS_COPY_ENGINE
    static __device__ __forceinline__ void engine_copy(uint8_t *target, const uint8_t *source, int count,
                                                       uint32_t barrier) {
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_address(target)),
            "l"(source), "r"(count), "r"(barrier)
            : "memory");
    }
#else
    // On the CPU no more than is there: a file ends where it ends.
    static GGTTS_ANYWHERE void copy(uint8_t *target, const uint8_t *source, const Bytes &bytes) {
#ifdef __CUDACC__
        __pipeline_memcpy_async(target, source, copy_bytes);
        (void)bytes;
#else
        const uint8_t *end = bytes.begin + bytes.count;
        const uint8_t *from = source < bytes.begin ? bytes.begin : source;
        const uint8_t *to = source + copy_bytes > end ? end : source + copy_bytes;
        std::memcpy(target + (from - source), from, static_cast<size_t>(to - from));
#endif
    }
#ifdef __CUDACC__
    static __device__ __forceinline__ void wait_for_all_but(int count) {
        switch (count) {
            case 0:
                return __pipeline_wait_prior(0);
            case 1:
                return __pipeline_wait_prior(1);
            case 2:
                return __pipeline_wait_prior(2);
            default:
                return __pipeline_wait_prior(3);
        }
    }
#endif
#endif

    uint64_t *barriers_;
    int slots_;
    uint32_t round_ = 0;
};

}  // namespace ggtts::talker
