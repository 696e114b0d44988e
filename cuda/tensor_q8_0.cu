#include "tensor_kernels.cuh"

namespace ggtts::predictor {

TensorKernel q8_0_tensor_kernel() {
    return tensor_kernel_of<EightBits>();
}

}  // namespace ggtts::predictor
