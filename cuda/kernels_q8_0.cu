#include "kernels.cuh"

namespace ggtts::predictor {

Kernel q8_0_kernel(int columns) {
    return kernel_of<EightBits>(columns);
}

}  // namespace ggtts::predictor
