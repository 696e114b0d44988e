#include "talker_kernel.cuh"

namespace ggtts::talker {

const void *q8_0_step() {
    return reinterpret_cast<const void *>(&step_kernel<EightBits>);
}

}  // namespace ggtts::talker
