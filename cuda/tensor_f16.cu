#include "tensor_kernels.cuh"

namespace ggtts::predictor {

TensorKernel f16_tensor_kernel() {
    return tensor_kernel_of<SixteenBits<Float16>>();
}

}  // namespace ggtts::predictor
