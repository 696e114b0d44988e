#include "batch_runner.hpp"

#include <string>

#include "batch_kernel.cuh"
#include "cuda_status.hpp"

namespace ggtts::talker::batch {
namespace {

BatchKernel kernel_of(WeightKind kind) {
    switch (kind) {
        case WeightKind::q8_0:
            return q8_0_batch_kernel();
        case WeightKind::f16:
            return f16_batch_kernel();
        case WeightKind::bf16:
            return bf16_batch_kernel();
        default:
            return {};
    }
}

// A kernel on a device.
struct Launch {
    BatchKernel kernel;
    int blocks;
    int room;         // of a block in shared memory, in bytes
    int stage_units;  // the same for all numbers of columns, as sums are made in its order
    int columns;      // at most

    bool fits(const BatchRoom &of_block, const Sizes &sizes) const {
        return shared_bytes(sizes, of_block) <= static_cast<size_t>(room);
    }
    BatchRoom least_room(const Sizes &sizes, int columns, int units) const {
        return kernel.room(sizes, columns, units, least_slots, least_attending);
    }
};

// As many columns as there is room for, and then as large stages.
void choose_stages(Launch &launch, const Sizes &sizes) {
    launch.columns = 0;
    for (int units = launch.kernel.stage_units; units >= least_stage_units; units /= 2) {
        int columns = most_columns;
        while (columns > launch.columns && !launch.fits(launch.least_room(sizes, columns, units), sizes))
            columns -= columns_step;
        if (columns > launch.columns) {
            launch.columns = columns;
            launch.stage_units = units;
        }
    }
}

class CudaBatchRunner : public BatchRunner {
public:
    CudaBatchRunner(int index, predictor::Machine &machine, const Launch &launch)
        : index_(index), machine_(machine), launch_(launch) {}

    int columns() const override { return launch_.columns; }

    void run(const Model &model, const BatchStep &step) override {
        check(cudaSetDevice(index_), "the device");
        const BatchRoom room = choose_room(model.sizes, step.columns, step.tasks);
        void *arguments[] = {const_cast<Model *>(&model), const_cast<BatchStep *>(&step),
                             const_cast<BatchRoom *>(&room)};
        check(
            cudaLaunchCooperativeKernel(launch_.kernel.function, dim3(static_cast<unsigned>(launch_.blocks)),
                                        dim3(batch_warps * lanes), arguments, shared_bytes(model.sizes, room),
                                        static_cast<cudaStream_t>(machine_.stream())),
            "the launch of steps");
    }

private:
    // As many warps that attend as there is work and room for, and then as many slots.
    BatchRoom choose_room(const Sizes &sizes, int columns, int tasks) const {
        const auto room = [&](int slots, int attending) {
            return launch_.kernel.room(sizes, columns, launch_.stage_units, slots, attending);
        };
        int slots = most_slots_of_batch, attending = attending_warps(tasks, launch_.blocks);
        while (attending > least_attending && !launch_.fits(room(least_slots, attending), sizes))
            attending /= 2;
        while (slots > least_slots && !launch_.fits(room(slots, attending), sizes))
            --slots;
        return room(slots, attending);
    }

    int index_;
    predictor::Machine &machine_;
    Launch launch_;
};

}  // namespace

std::unique_ptr<BatchRunner> cuda_batch_runner(int index, predictor::Machine &machine, WeightKind kind,
                                               const Sizes &sizes) {
    Launch launch{kernel_of(kind), 0, 0, 0, 0};
    int generation = 0, shared_limit = 0;
    check(cudaSetDevice(index), "the device");
    check(cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, index), "its generation");
    if (launch.kernel.function == nullptr || generation < predictor::tensor_generation || !fits_batch(sizes))
        return nullptr;
    check(cudaDeviceGetAttribute(&launch.blocks, cudaDevAttrMultiProcessorCount, index), "its processors");
    check(cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, index),
          "its shared memory");
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, launch.kernel.function), "the kernel for this device");
    launch.room = shared_limit - static_cast<int>(attributes.sharedSizeBytes);
    choose_stages(launch, sizes);
    if (launch.columns == 0 || attributes.maxThreadsPerBlock < batch_warps * lanes)
        return nullptr;
    check(cudaFuncSetAttribute(launch.kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               launch.room),
          "shared memory");
    return std::make_unique<CudaBatchRunner>(index, machine, launch);
}

}  // namespace ggtts::talker::batch
