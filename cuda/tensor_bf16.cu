#include "tensor_kernels.cuh"

namespace ggtts::predictor {

TensorKernel bf16_tensor_kernel() {
    return tensor_kernel_of<SixteenBits<BrainFloat16>>();
}

}  // namespace ggtts::predictor
