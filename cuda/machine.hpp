// What runs the kernel of the code predictor: a GPU, or its emulation for tests.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include "model.hpp"
#include "tensor_model.hpp"

namespace ggtts::predictor {

// Memory of the machine ran out: how many bytes were wanted, and how many are free.
struct OutOfMemory : std::runtime_error {
    OutOfMemory(size_t wanted, size_t left)
        : std::runtime_error("out of memory"), wanted(wanted), left(left) {}
    size_t wanted, left;
};

// Throws OutOfMemory, or std::runtime_error where the machine fails. Used by one thread at a time.
class Machine {
public:
    virtual ~Machine() = default;

    // Zeros; freed with the machine.
    virtual void *allocate(size_t bytes) = 0;
    // The same on the host, for what is sent and received often.
    virtual void *allocate_host(size_t bytes) = 0;
    // Free what was allocated, before the machine goes; null is nothing.
    virtual void release(void *memory) = 0;
    virtual void release_host(void *memory) = 0;
    virtual void upload(void *device, const void *host, size_t bytes) = 0;
    virtual void download(void *host, const void *device, size_t bytes) = 0;

    // How many columns a kernel can take together, of 1, 2, 4, 8, 16; 0: not even one.
    virtual int most_columns(WeightKind kind, const Model &model) = 0;
    // Begins to compute a frame with a kernel for `columns` columns, after what was asked for before.
    virtual void run(WeightKind kind, int columns, const Model &model, const Buffers &buffers) = 0;
    // The same for the kernel that multiplies on matrix units: how many columns it can take, 0: none.
    virtual int most_tensor_columns(WeightKind kind, const Model &model) = 0;
    virtual void run_tensor(WeightKind kind, const Model &model, const Buffers &buffers,
                            const TensorBuffers &tensor) = 0;
    // Waits for everything that was asked for.
    virtual void finish() = 0;
    // What a GPU works off in order (cudaStream_t); null in an emulation.
    virtual void *stream() { return nullptr; }
};

// How much memory the blocks of the tensor kernel need where they meet.
TensorNeeds tensor_needs_of(const Sizes &sizes, int columns);
// The fewest columns of the kernel in frame.hpp: with fewer that of flow_frame.hpp computes, in another
// order.
inline constexpr int least_frame_columns = 8;
inline constexpr int column_counts[] = {16, 8, 4, 2, 1};

std::unique_ptr<Machine> emulated_machine(int blocks, int warps);
// One choice of the kernel, emulated: the code, -1 where the logits are no numbers.
int emulated_choice(const float *logits, int entries, const Draw &draw, uint64_t codebook);
// A matrix product of the tensor kernel, emulated: x [columns][width] -> result [columns][rows]. The width is
// a multiple of 32, the columns are one of 8. `gated`: with tiles of the size that gates have.
void emulated_product(WeightKind kind, const Matrix &matrix, bool gated, const float *x, int width,
                      int columns, float *result);
// Device number `index` of the CUDA runtime. Throws std::runtime_error: this module was built without CUDA,
// or the device cannot hold all blocks of a kernel at once.
std::unique_ptr<Machine> cuda_machine(int index);
bool has_cuda();

}  // namespace ggtts::predictor
