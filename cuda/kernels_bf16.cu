#include "kernels.cuh"

namespace ggtts::predictor {

Kernel bf16_kernel(int columns) {
    return kernel_of<SixteenBits<BrainFloat16>>(columns);
}

}  // namespace ggtts::predictor
