#include "talker_runner.hpp"

#include <algorithm>
#include <string>

#include "cuda_status.hpp"
#include "talker_kernel.cuh"

namespace ggtts::talker {
namespace {

const void *kernel_of(WeightKind kind) {
    switch (kind) {
        case WeightKind::q8_0:
            return q8_0_step();
        case WeightKind::f16:
            return f16_step();
        case WeightKind::bf16:
            return bf16_step();
        default:
            return f32_step();
    }
}

// A launch that fits a device.
struct Launch {
    const void *kernel;
    int blocks;
    int slots;  // of each warp, for weights on their way
    size_t shared;
};

class CudaRunner : public Runner {
public:
    CudaRunner(int index, predictor::Machine &machine, const Launch &launch)
        : index_(index), machine_(machine), launch_(launch) {}

    int blocks() const override { return launch_.blocks; }

    void run(const Model &model, const Step &step) override {
        check(cudaSetDevice(index_), "the device");
        int slots = launch_.slots;
        void *arguments[] = {const_cast<Model *>(&model), const_cast<Step *>(&step), &slots};
        check(cudaLaunchCooperativeKernel(launch_.kernel, dim3(static_cast<unsigned>(launch_.blocks)),
                                          dim3(step_warps * predictor::lanes), arguments, launch_.shared,
                                          static_cast<cudaStream_t>(machine_.stream())),
              "the launch of a step");
    }

private:
    int index_;
    predictor::Machine &machine_;
    Launch launch_;
};

}  // namespace

std::unique_ptr<Runner> cuda_runner(int index, predictor::Machine &machine, WeightKind kind,
                                    const Sizes &sizes) {
    check(cudaSetDevice(index), "the device");
    int blocks = 0, shared_limit = 0;
    check(cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, index), "its processors");
    check(cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, index),
          "its shared memory");
    const void *kernel = kernel_of(kind);
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, kernel), "the kernel for this device");
    const int room = shared_limit - static_cast<int>(attributes.sharedSizeBytes);
    const int slots = std::min((room - fixed_bytes(sizes, blocks)) / (step_warps * slot_bytes), most_slots);
    if (slots < 1)
        return nullptr;
    const int shared = fixed_bytes(sizes, blocks) + slots * step_warps * slot_bytes;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room), "shared memory");
    int resident = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, step_warps * predictor::lanes,
                                                        static_cast<size_t>(shared)),
          "the blocks it holds");
    if (resident < 1)
        return nullptr;
    return std::make_unique<CudaRunner>(index, machine,
                                        Launch{kernel, blocks, slots, static_cast<size_t>(shared)});
}

}  // namespace ggtts::talker
