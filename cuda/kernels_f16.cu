#include "kernels.cuh"

namespace ggtts::predictor {

Kernel f16_kernel(int columns) {
    return kernel_of<SixteenBits<Float16>>(columns);
}

}  // namespace ggtts::predictor
