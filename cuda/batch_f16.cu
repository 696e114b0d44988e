#include "batch_kernel.cuh"

namespace ggtts::talker::batch {

BatchKernel f16_batch_kernel() {
    return batch_kernel_of<RowsOfHalves>();
}

}  // namespace ggtts::talker::batch
