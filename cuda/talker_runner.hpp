// What runs the kernel of the talker: a GPU, or its emulation for tests.
#pragma once

#include <memory>

#include "machine.hpp"
#include "talker_model.hpp"

namespace ggtts::talker {

// Throws std::runtime_error where the device fails. Used by one thread at a time.
class Runner {
public:
    virtual ~Runner() = default;

    virtual int blocks() const = 0;
    // Begins to compute a step, after what was asked of the machine before.
    virtual void run(const Model &model, const Step &step) = 0;
};

// The machine has to outlive it.
std::unique_ptr<Runner> emulated_runner(WeightKind kind, int blocks, int warps);
// Nothing where the device cannot hold the kernel.
std::unique_ptr<Runner> cuda_runner(int index, predictor::Machine &machine, WeightKind kind,
                                    const Sizes &sizes);

// What a matrix of such weights is cut into; `width` is a multiple of what `width_multiple` says.
int piece_width(WeightKind kind);
int width_multiple(WeightKind kind);
// Keys that all blocks together attend to, at most.
int most_keys(const Sizes &sizes, int blocks);
// Into how many chunks so many keys are divided, over so many blocks, and how many keys each has.
struct Chunks {
    int size, count;
};
Chunks chunks_for(const Sizes &sizes, int keys, int blocks);

}  // namespace ggtts::talker
