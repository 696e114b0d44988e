#include <cstring>
#include <limits>
#include <vector>

#include "emulated_flow.hpp"
#include "emulated_grid.hpp"
#include "emulated_tensor.hpp"
#include "flow_frame.hpp"
#include "frame.hpp"
#include "machine.hpp"
#include "tensor_sizes.hpp"

namespace ggtts::predictor {
namespace {

class EmulatedMachine : public Machine {
public:
    EmulatedMachine(int blocks, int warps) : blocks_(blocks), warps_(warps) {}

    void *allocate(size_t bytes) override {
        // Whole cache lines, so that everything begins at one.
        memory_.emplace_back((bytes + sizeof(Line) - 1) / sizeof(Line));
        return memory_.back().data();
    }
    void *allocate_host(size_t bytes) override { return allocate(bytes); }
    void release(void *memory) override {
        std::erase_if(memory_, [=](const std::vector<Line> &one) { return one.data() == memory; });
    }
    void release_host(void *memory) override { release(memory); }
    void upload(void *device, const void *host, size_t bytes) override { std::memcpy(device, host, bytes); }
    void download(void *host, const void *device, size_t bytes) override { std::memcpy(host, device, bytes); }
    int most_columns(WeightKind, const Model &) override { return column_counts[0]; }
    int most_tensor_columns(WeightKind kind, const Model &model) override {
        return kind != WeightKind::f32 && fits_tensor(model.sizes) ? predictor::most_tensor_columns : 0;
    }
    void finish() override {}

    void run(WeightKind kind, int columns, const Model &model, const Buffers &buffers) override {
        switch (kind) {
            case WeightKind::q8_0:
                return run_columns<EightBits>(columns, model, buffers);
            case WeightKind::f16:
                return run_columns<SixteenBits<Float16>>(columns, model, buffers);
            case WeightKind::bf16:
                return run_columns<SixteenBits<BrainFloat16>>(columns, model, buffers);
            case WeightKind::f32:
                return run_columns<ThirtyTwoBits>(columns, model, buffers);
        }
    }

    void run_tensor(WeightKind kind, const Model &model, const Buffers &buffers,
                    const TensorBuffers &tensor) override {
        switch (kind) {
            case WeightKind::q8_0:
                return run_tensor_frame<EightBits>(model, buffers, tensor);
            case WeightKind::f16:
                return run_tensor_frame<SixteenBits<Float16>>(model, buffers, tensor);
            case WeightKind::bf16:
                return run_tensor_frame<SixteenBits<BrainFloat16>>(model, buffers, tensor);
            case WeightKind::f32:
                throw std::invalid_argument("matrix units take no weights of this type");
        }
    }

private:
    struct alignas(64) Line {
        char bytes[64] = {};
    };

    template <class Type>
    void run_columns(int columns, const Model &model, const Buffers &buffers) {
        switch (columns) {
            case 1:
                return run_flow<Type, 1>(model, buffers);
            case 2:
                return run_flow<Type, 2>(model, buffers);
            case 4:
                return run_flow<Type, 4>(model, buffers);
            case 8:
                return run_frame<Type, 8>(model, buffers);
            default:
                return run_frame<Type, 16>(model, buffers);
        }
    }

    template <class Type, int columns>
    void run_frame(const Model &model, const Buffers &buffers) {
        EmulatedGrid grid(blocks_, warps_, shared_size(model, columns, blocks_));
        Frame<Type, columns, EmulatedGrid>(grid, model, buffers).run();
    }

    template <class Type, int columns>
    void run_flow(const Model &model, const Buffers &buffers) {
        constexpr int depth = 3;
        EmulatedFlowGrid<Type> grid(blocks_, warps_, depth, flow_kept_size(model, columns),
                                    flow_shared_size(model, columns, blocks_), model.steps, model.step_count);
        FlowFrame<Type, columns, EmulatedFlowGrid<Type>>(grid, model, buffers).run();
    }

    template <class Type>
    void run_tensor_frame(const Model &model, const Buffers &buffers, const TensorBuffers &tensor) {
        const TensorRooms rooms = tensor_rooms<Type>(model.sizes, most_columns_of(tensor));
        EmulatedTensorGrid grid(blocks_, warps_, rooms.lasting(), rooms.size());
        TensorFrame<Type, EmulatedTensorGrid>(grid, model, buffers, tensor, rooms).run();
    }

    int blocks_, warps_;
    std::vector<std::vector<Line>> memory_;
};

}  // namespace

std::unique_ptr<Machine> emulated_machine(int blocks, int warps) {
    if (blocks < 1 || warps < 1)
        throw std::invalid_argument("a machine has at least one block and one warp");
    return std::make_unique<EmulatedMachine>(blocks, warps);
}

int emulated_choice(const float *logits, int entries, const Draw &draw, uint64_t codebook) {
    std::vector<float> shared(static_cast<size_t>(sampling_scratch(entries)));
    const EmulatedBlock block(0, 1, 1, shared.data());
    return CodeSampler(block, entries).choose(logits, draw, codebook);
}

TensorNeeds tensor_needs_of(const Sizes &sizes, int columns) {
    return tensor_needs(sizes, columns);
}

#ifndef GGTTS_CUDA
std::unique_ptr<Machine> cuda_machine(int) {
    throw std::runtime_error("this module was built without CUDA");
}
bool has_cuda() {
    return false;
}
#endif

}  // namespace ggtts::predictor
