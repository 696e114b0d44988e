#include "talker_kernel.cuh"

namespace ggtts::talker {

const void *f16_step() {
    return reinterpret_cast<const void *>(&step_kernel<Halves>);
}

}  // namespace ggtts::talker
