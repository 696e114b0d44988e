// The grid of a GPU for the kernel for few columns. All blocks are resident, because they wait for each
// other.
#pragma once

#include "cuda_feed.cuh"
#include "letters.hpp"

namespace ggtts::predictor {

// Where things lie in the shared memory of a block: tables, portions, kept, phases, feed. In bytes.
struct FlowRoom {
    int64_t portions, kept, shared, feed, all;
    int warps;
    int depth;  // slots of a warp
};

// Loops of this kernel are not unrolled by themselves: what matters is that all code stays in the instruction
// cache.
class CompactWarp : public CudaWarp {
public:
    template <class Function>
    __device__ __forceinline__ void each(int count, Function function) const {
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x) % lanes; i < count; i += lanes)
            function(i);
        __syncwarp();
    }
};

template <class Type>
class CudaFlowBlock : public CudaBlock {
public:
    __device__ CudaFlowBlock(float *scratch, uint8_t *memory, const FlowRoom &room, int steps)
        : CudaBlock(scratch, reinterpret_cast<float *>(memory + room.shared)),
          portions_(reinterpret_cast<const Portion *>(memory + room.portions)),
          kept_(reinterpret_cast<float *>(memory + room.kept)),
          feed_(memory + room.feed, room.depth, portions_, steps) {}

    __device__ __forceinline__ const Portion &portion(int step) const { return portions_[step]; }
    __device__ __forceinline__ float *kept() const { return kept_; }
    __device__ __forceinline__ CudaFeed<Type> &feed() { return feed_; }

    __device__ __forceinline__ void join() const { __syncthreads(); }

    template <class Function>
    __device__ __forceinline__ void spread(int count, Function function) const {
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
            function(i);
    }

    template <class Function>
    __device__ __forceinline__ void each(int count, Function function) const {
        spread(count, function);
        __syncthreads();
    }

    // The warps that have the fewest tiles of a product are the last.
    template <class Function>
    __device__ __forceinline__ void spread_tasks(int count, Function function) const {
        const CompactWarp warp;
#pragma unroll 1
        for (int task = warps() - 1 - warp.index(); task < count; task += warps())
            function(warp, task);
    }

    template <class Function>
    __device__ __forceinline__ void each_task(int count, Function function) const {
        const CompactWarp warp;
#pragma unroll 1
        for (int task = warp.index(); task < count; task += warps())
            function(warp, task);
        __syncthreads();
    }

    template <int columns, class Prepare, class Take>
    __device__ __forceinline__ void receive_columns(const Letter *letters, const float *kept, int kept_stride,
                                                    int width, int stride, uint32_t time, Prepare prepare,
                                                    Take take) const {
        constexpr int together = 4;
        const int half = stride / 2, threads = static_cast<int>(blockDim.x);
#pragma unroll 1
        for (int first = static_cast<int>(threadIdx.x); first < columns * half; first += together * threads) {
            const Letter *places[together];
            decltype(prepare(0)) prepared[together];
            Pair pairs[together];
#pragma unroll
            for (int i = 0; i < together; ++i) {
                const int pair = first + i * threads, column = columns == 1 ? 0 : pair / half;
                const int at = 2 * (pair - column * half);
                const bool wanted = pair < columns * half && at < width;
                places[i] = wanted && letters != nullptr ? letters + column * width + at : nullptr;
                prepared[i] = {};
                if (wanted)
                    prepared[i] = prepare(at);
            }
            receive_pairs<Forever>(places, time, pairs);
#pragma unroll
            for (int i = 0; i < together; ++i) {
                const int pair = first + i * threads, column = columns == 1 ? 0 : pair / half;
                const int at = 2 * (pair - column * half);
                if (pair >= columns * half)
                    continue;
                if (letters == nullptr && at < width)
                    pairs[i] = *reinterpret_cast<const Pair *>(kept + column * kept_stride + at);
                take(column, at, pairs[i], prepared[i]);
            }
        }
        __syncthreads();
    }

private:
    static __device__ __forceinline__ int warps() { return static_cast<int>(blockDim.x) / lanes; }

    const Portion *portions_;
    float *kept_;
    CudaFeed<Type> feed_;
};

template <class Type>
class CudaFlowGrid {
public:
    __device__ explicit CudaFlowGrid(const CudaFlowBlock<Type> &block) : block_(block) {}

    __device__ __forceinline__ const Portion &portion(int step) const { return block_.portion(step); }

    // Nothing is waited for: a phase receives what it needs.
    template <class Function>
    __device__ __forceinline__ void phase(Function function) {
        function(block_);
    }

private:
    CudaFlowBlock<Type> block_;
};

}  // namespace ggtts::predictor
