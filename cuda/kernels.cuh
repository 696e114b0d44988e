// The kernels of one type of weight: one for each number of columns.
#pragma once

#include <cuda_runtime.h>

#include "cuda_flow.cuh"
#include "cuda_grid.cuh"
#include "flow_frame.hpp"
#include "frame.hpp"

namespace ggtts::predictor {

// More warps hide more of the latency of memory, as long as the sums of all columns stay in registers.
constexpr int warps_for(int columns) {
    return columns <= 4 ? 16 : 8;
}

// Bytes of the tables that `with_tables` copies.
inline int64_t table_bytes(const Sizes &sizes) {
    const int64_t bytes = sizes.layers * static_cast<int64_t>(sizeof(Layer)) +
                          2 * (sizes.codebooks - 1) * static_cast<int64_t>(sizeof(Matrix));
    return (bytes + 255) / 256 * 256;
}

template <class Entry>
__device__ const Entry *copy_table(const Entry *table, int entries, uint8_t *&room) {
    auto *copy = reinterpret_cast<Entry *>(room);
    const auto *source = reinterpret_cast<const uint32_t *>(table);
    auto *target = reinterpret_cast<uint32_t *>(copy);
    const int words = entries * static_cast<int>(sizeof(Entry) / sizeof(uint32_t));
    for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x))
        target[i] = source[i];
    room += entries * sizeof(Entry);
    return copy;
}

// The model with its tables in shared memory: a barrier of the grid empties the first-level cache, and every
// phase begins with finding its weights.
__device__ inline Model with_tables(const Model &model, uint8_t *room) {
    Model result = model;
    const int codes = model.sizes.codebooks - 1;
    result.layers = copy_table(model.layers, model.sizes.layers, room);
    result.heads = copy_table(model.heads, codes, room);
    result.embeddings = copy_table(model.embeddings, codes, room);
    __syncthreads();
    return result;
}

template <class Type, int columns>
__global__ void __launch_bounds__(warps_for(columns) * lanes, 1)
    frame_kernel(const __grid_constant__ Model model, const __grid_constant__ Buffers buffers,
                 const __grid_constant__ int64_t tables) {
    extern __shared__ float shared[];
    auto *room = reinterpret_cast<uint8_t *>(shared + reserved_floats);
    const Model local = with_tables(model, room);
    CudaGrid grid(shared, reinterpret_cast<float *>(room + tables), buffers.arrivals);
    Frame<Type, columns, CudaGrid>(grid, local, buffers).run();
}

constexpr int64_t whole_lines(int64_t bytes) {
    return (bytes + 127) / 128 * 128;
}

// The tiles of more than a phase for each warp. With more slots less is left to the first-level cache, and a
// frame takes longer (measured on an H200: 1.46 ms with 2, 1.54 with 6).
constexpr int most_slots = 3;

// As many warps, and then as many slots for each, as there is room for.
template <class Type, int columns>
FlowRoom flow_room(const Model &model, int blocks, int64_t limit) {
    const auto floats = [](int64_t count) {
        return whole_lines(count * static_cast<int64_t>(sizeof(float)));
    };
    FlowRoom room{};
    room.portions = table_bytes(model.sizes);
    room.kept = room.portions + whole_lines(model.step_count * static_cast<int64_t>(sizeof(Portion)));
    room.shared = room.kept + floats(flow_kept_size(model, columns));
    room.feed = room.shared + floats(flow_shared_size(model, columns, blocks));
    const auto all = [&] {
        return room.feed + floats(reserved_floats) + CudaFeed<Type>::room(room.warps, room.depth);
    };
    room.depth = 1;
    room.warps = warps_for(columns);
    while (room.warps > 1 && all() > limit)
        room.warps /= 2;
    room.depth = most_slots;
    while (room.depth > 1 && all() > limit)
        --room.depth;
    room.all = all();
    return room;
}

template <class Type, int columns>
__global__ void __launch_bounds__(warps_for(columns) * lanes, 1)
    flow_kernel(const __grid_constant__ Model model, const __grid_constant__ Buffers buffers,
                const __grid_constant__ FlowRoom room) {
    extern __shared__ float shared[];
    auto *memory = reinterpret_cast<uint8_t *>(shared + reserved_floats);
    auto *portions = reinterpret_cast<Portion *>(memory + room.portions);
    for (int step = static_cast<int>(threadIdx.x); step < model.step_count;
         step += static_cast<int>(blockDim.x))
        portions[step] =
            portion_of<Type>(model.steps[step], static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
    const Model local = with_tables(model, memory);
    CudaFlowBlock<Type> block(shared, memory, room, model.step_count);
    CudaFlowGrid<Type> grid(block);
    FlowFrame<Type, columns, CudaFlowGrid<Type>>(grid, local, buffers).run();
}

// What a launch needs to know of a kernel.
struct Kernel {
    const void *function = nullptr;
    int threads = 0;
    // Of the kernel for few columns, else null.
    FlowRoom (*room)(const Model &model, int blocks, int64_t limit) = nullptr;
};

template <class Type, int columns>
Kernel flow_kernel_of() {
    return {reinterpret_cast<const void *>(&flow_kernel<Type, columns>), warps_for(columns) * lanes,
            &flow_room<Type, columns>};
}

template <class Type>
Kernel kernel_of(int columns) {
    switch (columns) {
        case 1:
            return flow_kernel_of<Type, 1>();
        case 2:
            return flow_kernel_of<Type, 2>();
        case 4:
            return flow_kernel_of<Type, 4>();
        case 8:
            return {reinterpret_cast<const void *>(&frame_kernel<Type, 8>), warps_for(8) * lanes};
        default:
            return {reinterpret_cast<const void *>(&frame_kernel<Type, 16>), warps_for(16) * lanes};
    }
}

// One source file each, so that they are compiled side by side.
Kernel q8_0_kernel(int columns);
Kernel f16_kernel(int columns);
Kernel bf16_kernel(int columns);
Kernel f32_kernel(int columns);

}  // namespace ggtts::predictor
