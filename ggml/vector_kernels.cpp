#include "vector_kernels.hpp"

#include <algorithm>
#include <stdexcept>

namespace ggtts::kernels {
namespace {

bool runs_here(const std::string &instruction_set) {
#ifdef GGTTS_X86_KERNELS
    const bool has_avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (instruction_set == "avx512") {
        return __builtin_cpu_supports("avx512f") && has_avx2;
    }
    if (instruction_set == "avx2") {
        return has_avx2;
    }
#elif defined(GGTTS_ARM_KERNELS)
    if (instruction_set == "neon") {
        return true;  // all 64-bit processors of ARM
    }
#endif
    return instruction_set == "generic";
}

}  // namespace

std::vector<std::string> instruction_sets() {
    std::vector<std::string> present;
    for (const char *name : {"avx512", "avx2", "neon", "generic"}) {
        if (runs_here(name)) {
            present.emplace_back(name);
        }
    }
    return present;
}

const VectorKernels &vector_kernels(const std::string &instruction_set) {
    const auto present = instruction_sets();
    const std::string wanted = instruction_set == "best" ? present.front() : instruction_set;
    if (std::find(present.begin(), present.end(), wanted) == present.end()) {
        throw std::invalid_argument("this processor has no kernels called '" + instruction_set + "'");
    }
#ifdef GGTTS_X86_KERNELS
    if (wanted == "avx512") {
        return avx512_kernels;
    }
    if (wanted == "avx2") {
        return avx2_kernels;
    }
#elif defined(GGTTS_ARM_KERNELS)
    if (wanted == "neon") {
        return neon_kernels;
    }
#endif
    return generic_kernels;
}

const VectorKernels &best_vector_kernels() {
    static const VectorKernels &best = vector_kernels("best");
    return best;
}

}  // namespace ggtts::kernels
