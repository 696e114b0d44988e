#include "batch_kernel.cuh"

namespace ggtts::talker::batch {

BatchKernel q8_0_batch_kernel() {
    return batch_kernel_of<RowsOfEightBits>();
}

}  // namespace ggtts::talker::batch
