#include <vector>

#include "cuda_status.hpp"
#include "kernels.cuh"
#include "machine.hpp"
#include "tensor_kernels.cuh"

namespace ggtts::predictor {
namespace {

Kernel find_kernel(WeightKind kind, int columns) {
    switch (kind) {
        case WeightKind::q8_0:
            return q8_0_kernel(columns);
        case WeightKind::f16:
            return f16_kernel(columns);
        case WeightKind::bf16:
            return bf16_kernel(columns);
        default:
            return f32_kernel(columns);
    }
}

TensorKernel find_tensor_kernel(WeightKind kind) {
    switch (kind) {
        case WeightKind::q8_0:
            return q8_0_tensor_kernel();
        case WeightKind::f16:
            return f16_tensor_kernel();
        case WeightKind::bf16:
            return bf16_tensor_kernel();
        default:
            return {};
    }
}

class CudaMachine : public Machine {
public:
    explicit CudaMachine(int index) : index_(index) {
        use();
        check(cudaDeviceGetAttribute(&blocks_, cudaDevAttrMultiProcessorCount, index), "its processors");
        check(cudaDeviceGetAttribute(&shared_limit_, cudaDevAttrMaxSharedMemoryPerBlockOptin, index),
              "its shared memory");
        int cooperative = 0;
        check(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, index), "its launches");
        if (cooperative == 0)
            throw std::runtime_error("CUDA: the device knows no cooperative launch");
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    }

    ~CudaMachine() override {
        if (cudaSetDevice(index_) != cudaSuccess)
            return;
        cudaStreamSynchronize(stream_);
        for (void *memory : device_memory_)
            cudaFree(memory);
        for (void *memory : host_memory_)
            cudaFreeHost(memory);
        cudaStreamDestroy(stream_);
    }

    void *allocate(size_t bytes) override {
        use();
        void *memory = nullptr;
        const cudaError_t status = cudaMalloc(&memory, bytes);
        if (status == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            size_t left = 0, total = 0;
            cudaMemGetInfo(&left, &total);
            throw OutOfMemory(bytes, left);
        }
        check(status, "memory");
        device_memory_.push_back(memory);
        check(cudaMemsetAsync(memory, 0, bytes, stream_), "clearing memory");
        return memory;
    }

    void *allocate_host(size_t bytes) override {
        use();
        void *memory = nullptr;
        check(cudaMallocHost(&memory, bytes), "memory of the host");
        host_memory_.push_back(memory);
        return memory;
    }

    void release(void *memory) override {
        if (memory == nullptr)
            return;
        use();
        finish();
        std::erase(device_memory_, memory);
        check(cudaFree(memory), "giving memory back");
    }

    void release_host(void *memory) override {
        if (memory == nullptr)
            return;
        use();
        finish();
        std::erase(host_memory_, memory);
        check(cudaFreeHost(memory), "giving memory of the host back");
    }

    void upload(void *device, const void *host, size_t bytes) override {
        use();
        check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "an upload");
    }

    void download(void *host, const void *device, size_t bytes) override {
        use();
        check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_), "a download");
    }

    int most_columns(WeightKind kind, const Model &model) override {
        use();
        for (const int columns : column_counts) {
            const Kernel kernel = find_kernel(kind, columns);
            const Shape shape = shape_of(kernel, columns, model);
            cudaFuncAttributes attributes;
            check(cudaFuncGetAttributes(&attributes, kernel.function), "the kernel for this device");
            if (shape.shared + attributes.sharedSizeBytes > static_cast<size_t>(shared_limit_))
                continue;
            check(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       shared_limit_ - static_cast<int>(attributes.sharedSizeBytes)),
                  "shared memory");
            int resident = 0;
            check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel.function, shape.threads,
                                                                shape.shared),
                  "the blocks it holds");
            if (resident > 0)
                return columns;
        }
        return 0;
    }

    void run(WeightKind kind, int columns, const Model &model, const Buffers &buffers) override {
        use();
        const Kernel kernel = find_kernel(kind, columns);
        Shape shape = shape_of(kernel, columns, model);
        check(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shape.shared)),
              "shared memory");
        int64_t tables = table_bytes(model.sizes);
        void *arguments[] = {const_cast<Model *>(&model), const_cast<Buffers *>(&buffers),
                             kernel.room == nullptr ? static_cast<void *>(&tables) : &shape.room};
        check(cudaLaunchCooperativeKernel(kernel.function, dim3(static_cast<unsigned>(blocks_)),
                                          dim3(static_cast<unsigned>(shape.threads)), arguments, shape.shared,
                                          stream_),
              "the launch of a frame");
    }

    int most_tensor_columns(WeightKind kind, const Model &model) override {
        use();
        const TensorKernel kernel = find_tensor_kernel(kind);
        int generation = 0;
        check(cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, index_),
              "its generation");
        if (kernel.function == nullptr || generation < tensor_generation || !fits_tensor(model.sizes))
            return 0;
        cudaFuncAttributes attributes;
        check(cudaFuncGetAttributes(&attributes, kernel.function), "the kernel for this device");
        int columns = predictor::most_tensor_columns;
        while (columns > 0 && tensor_bytes(kernel, model.sizes, columns) + attributes.sharedSizeBytes >
                                  static_cast<size_t>(shared_limit_))
            columns -= tensor_columns_step;
        return attributes.maxThreadsPerBlock >= tensor_warps * lanes ? columns : 0;
    }

    void run_tensor(WeightKind kind, const Model &model, const Buffers &buffers,
                    const TensorBuffers &tensor) override {
        use();
        const TensorKernel kernel = find_tensor_kernel(kind);
        const int columns = most_columns_of(tensor);
        const size_t shared = tensor_bytes(kernel, model.sizes, columns);
        check(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared)),
              "shared memory");
        TensorRooms rooms = kernel.rooms(model.sizes, columns);
        int64_t tables = table_bytes(model.sizes);
        void *arguments[] = {const_cast<Model *>(&model), const_cast<Buffers *>(&buffers),
                             const_cast<TensorBuffers *>(&tensor), &rooms, &tables};
        check(cudaLaunchCooperativeKernel(kernel.function, dim3(static_cast<unsigned>(blocks_)),
                                          dim3(static_cast<unsigned>(tensor_warps * lanes)), arguments,
                                          shared, stream_),
              "the launch of frames");
    }

    void finish() override {
        use();
        check(cudaStreamSynchronize(stream_), "a frame");
    }

    void *stream() override { return stream_; }

private:
    // The device is a setting of the calling thread.
    void use() const { check(cudaSetDevice(index_), "the device"); }

    // Threads and shared memory of a block.
    struct Shape {
        int threads;
        size_t shared;
        FlowRoom room;
    };

    Shape shape_of(const Kernel &kernel, int columns, const Model &model) const {
        if (kernel.room != nullptr) {
            const FlowRoom room = kernel.room(model, blocks_, shared_limit_);
            return {room.warps * lanes, static_cast<size_t>(room.all), room};
        }
        const int64_t floats = reserved_floats + shared_size(model, columns, blocks_);
        return {kernel.threads,
                static_cast<size_t>(floats) * sizeof(float) + static_cast<size_t>(table_bytes(model.sizes)),
                {}};
    }

    static size_t tensor_bytes(const TensorKernel &kernel, const Sizes &sizes, int columns) {
        return static_cast<size_t>(reserved_floats + kernel.rooms(sizes, columns).size()) * sizeof(float) +
               static_cast<size_t>(table_bytes(sizes));
    }

    int index_;
    int blocks_ = 0;
    int shared_limit_ = 0;
    cudaStream_t stream_ = nullptr;
    std::vector<void *> device_memory_, host_memory_;
};

}  // namespace

std::unique_ptr<Machine> cuda_machine(int index) {
    return std::make_unique<CudaMachine>(index);
}

bool has_cuda() {
    return true;
}

}  // namespace ggtts::predictor
