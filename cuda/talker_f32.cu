#include "talker_kernel.cuh"

namespace ggtts::talker {

const void *f32_step() {
    return reinterpret_cast<const void *>(&step_kernel<Singles>);
}

}  // namespace ggtts::talker
