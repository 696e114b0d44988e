// What runs the kernel for steps of several utterances: a GPU, or its emulation for tests.
#pragma once

#include <memory>
#include <vector>

#include "batch_model.hpp"
#include "machine.hpp"

namespace ggtts::talker::batch {

// Throws std::runtime_error where the device fails. Used by one thread at a time.
class BatchRunner {
public:
    virtual ~BatchRunner() = default;

    // How many columns the device can compute together.
    virtual int columns() const = 0;
    // Begins to compute a step, after what was asked of the machine before.
    virtual void run(const Model &model, const BatchStep &step) = 0;
};

// The machine has to outlive them. Nothing where the kernel does not know such weights or sizes, or the
// device cannot hold it.
std::unique_ptr<BatchRunner> emulated_batch_runner(WeightKind kind, const Sizes &sizes, int blocks);
std::unique_ptr<BatchRunner> cuda_batch_runner(int index, predictor::Machine &machine, WeightKind kind,
                                               const Sizes &sizes);

// What so many columns need.
struct BatchShapes {
    std::vector<Tiling> tilings;  // [product_kinds]
    int64_t joined, tiles;        // of `Meeting`
    int spans;                    // of a column
    int64_t tasks;                // of attention, at most
};
BatchShapes shapes_for(const Sizes &sizes, int columns);

// How keys of a new position are divided: into chunks of a size that depends on their number only. Small ones
// are soon done where few speak, large ones are less work where many do.
struct ChunkSize {
    int size, count;
};
ChunkSize chunk_size(int keys);

}  // namespace ggtts::talker::batch
