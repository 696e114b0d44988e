#include "talker_kernel.cuh"

namespace ggtts::talker {

const void *bf16_step() {
    return reinterpret_cast<const void *>(&step_kernel<BrainHalves>);
}

}  // namespace ggtts::talker
