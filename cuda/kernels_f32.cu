#include "kernels.cuh"

namespace ggtts::predictor {

Kernel f32_kernel(int columns) {
    return kernel_of<ThirtyTwoBits>(columns);
}

}  // namespace ggtts::predictor
