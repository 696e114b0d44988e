#include "conv_runner.hpp"

#include <stdexcept>
#include <string>

#include "conv_kernels.cuh"
#include "cuda_status.hpp"

namespace ggtts::conv {
namespace {

using Product = void (*)(Pass);

template <Kind kind>
Product product_of(int bands) {
    if constexpr (kind != Kind::exact) {
        if (bands == 4)
            return product_kernel<kind, 4>;
    }
    return bands == 2 ? product_kernel<kind, 2> : product_kernel<kind, 1>;
}

const void *narrow_of(Kind kind) {
    return kind == Kind::halves ? reinterpret_cast<const void *>(narrow_kernel<Kind::halves>)
                                : reinterpret_cast<const void *>(narrow_kernel<Kind::exact>);
}

const void *keep_of(Kind kind) {
    return kind == Kind::halves ? reinterpret_cast<const void *>(keep_kernel<uint16_t>)
                                : reinterpret_cast<const void *>(keep_kernel<float>);
}

const void *product_of(Kind kind, int bands) {
    switch (kind) {
        case Kind::exact:
            return reinterpret_cast<const void *>(product_of<Kind::exact>(bands));
        case Kind::halves:
            return reinterpret_cast<const void *>(product_of<Kind::halves>(bands));
        default:
            return reinterpret_cast<const void *>(product_of<Kind::rounded>(bands));
    }
}

class CudaRunner : public Runner {
public:
    CudaRunner(int index, predictor::Machine &machine, Kind kind, int processors, int shared_limit)
        : index_(index),
          stream_(static_cast<cudaStream_t>(machine.stream())),
          kind_(kind),
          processors_(processors),
          shared_limit_(shared_limit) {
        for (int bands = 1; bands <= most_bands(kind); bands *= 2)
            allow(product_of(kind, bands));
        allow(narrow_of(kind));
        allow(keep_of(kind));
        waits_ = waits(keep_of(kind));
    }

    int processors() const override { return processors_; }
    int shared_limit() const override { return shared_limit_; }

    void begin() override { follows_ = false; }

    void run(const Pass &pass, int bands) override {
        check(cudaSetDevice(index_), "the device");
        const int tiles =
            row_tiles(pass.rows(), warps_down * bands * band) * pass.layer.column_tiles() * pass.split;
        void *arguments[] = {const_cast<Pass *>(&pass)};
        launch(product_of(kind_, bands), dim3(static_cast<unsigned>(tiles)), tile_threads, arguments,
               shared_floats(pass.layer, kind_, warps_down * bands * band, pass.row_room));
    }

    void run_narrow(const Pass &pass) override {
        check(cudaSetDevice(index_), "the device");
        const int blocks = row_tiles(pass.time, narrow_rows) * pass.streams;
        void *arguments[] = {const_cast<Pass *>(&pass)};
        launch(narrow_of(kind_), dim3(static_cast<unsigned>(blocks)), narrow_threads, arguments,
               narrow_floats(pass.layer));
    }

    void keep(const Keeping *jobs, int count, int most_inputs, int streams, const int32_t *lanes) override {
        check(cudaSetDevice(index_), "the device");
        const dim3 blocks(static_cast<unsigned>(row_tiles(most_inputs, keeping_threads)),
                          static_cast<unsigned>(streams), static_cast<unsigned>(count));
        void *arguments[] = {&jobs, &lanes};
        launch(keep_of(kind_), blocks, keeping_threads, arguments, 0);
    }

private:
    // A kernel of a run begins beside the end of the one before it, where kernels know how to wait.
    void launch(const void *kernel, dim3 blocks, int threads, void **arguments, int64_t floats) {
        cudaLaunchAttribute beside{};
        beside.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        beside.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config{};
        config.gridDim = blocks;
        config.blockDim = dim3(static_cast<unsigned>(threads));
        config.dynamicSmemBytes = static_cast<size_t>(floats) * sizeof(float);
        config.stream = stream_;
        config.attrs = &beside;
        config.numAttrs = follows_ && waits_ ? 1 : 0;
        check(cudaLaunchKernelExC(&config, kernel, arguments), "the launch of a convolution");
        follows_ = true;
    }

    // All kernels divide the memory of a processor in one way: it would have to be idle for another.
    void allow(const void *kernel) const {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit_),
              "shared memory");
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                   cudaSharedmemCarveoutMaxShared),
              "shared memory");
    }

    // Whether kernels were compiled for a generation that has them wait by themselves.
    static bool waits(const void *kernel) {
        cudaFuncAttributes attributes{};
        check(cudaFuncGetAttributes(&attributes, kernel), "a kernel");
        return attributes.ptxVersion >= 90;
    }

    int index_;
    cudaStream_t stream_;
    Kind kind_;
    int processors_, shared_limit_;
    bool waits_ = false, follows_ = false;
};

}  // namespace

bool cuda_runs(int index) {
    int generation = 0;
    const cudaError_t status = cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, index);
    if (status != cudaSuccess)
        cudaGetLastError();
    return status == cudaSuccess && generation >= conv_generation;
}

std::unique_ptr<Runner> cuda_runner(int index, predictor::Machine &machine, Kind kind) {
    check(cudaSetDevice(index), "the device");
    int processors = 0, shared_limit = 0;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, index), "its processors");
    check(cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, index),
          "its shared memory");
    return std::make_unique<CudaRunner>(index, machine, kind, processors, shared_limit);
}

}  // namespace ggtts::conv
