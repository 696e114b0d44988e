// What runs the kernels of convolutions: a GPU, or its emulation for tests.
#pragma once

#include <memory>
#include <vector>

#include "conv_model.hpp"
#include "machine.hpp"

namespace ggtts::conv {

// Throws std::runtime_error where the device fails. Used by one thread at a time.
class Runner {
public:
    virtual ~Runner() = default;

    virtual int processors() const = 0;
    // Bytes that a block may have.
    virtual int shared_limit() const = 0;
    // What comes next follows something else than kernels of convolutions.
    virtual void begin() {}
    // Each begins its work after what was asked of the machine before.
    virtual void run(const Pass &pass, int bands) = 0;
    virtual void run_narrow(const Pass &pass) = 0;
    // Job by job for the same streams; the list is in the memory of the device.
    virtual void keep(const Keeping *jobs, int count, int most_inputs, int streams, const int32_t *lanes) = 0;
};

// The machine has to outlive it.
std::unique_ptr<Runner> emulated_runner(Kind kind, int processors);
// For a device that `cuda_runs` says yes to.
std::unique_ptr<Runner> cuda_runner(int index, predictor::Machine &machine, Kind kind);

// Whether the device has such matrix units.
bool cuda_runs(int index);

// The widest tiles, in bands, that products of a kind have.
constexpr int most_bands(Kind kind) {
    return kind == Kind::exact ? 2 : 4;
}
}  // namespace ggtts::conv
