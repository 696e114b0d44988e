#include "batch_kernel.cuh"

namespace ggtts::talker::batch {

BatchKernel bf16_batch_kernel() {
    return batch_kernel_of<RowsOfBrainHalves>();
}

}  // namespace ggtts::talker::batch
