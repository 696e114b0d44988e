// Memory for intermediate results. The programs of a backend run one at a time, so all of them compute in the
// same place: it is as large as the largest of them needs, and warm when the next one begins.
#pragma once

#include <ggml.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ggml_failures.hpp"

namespace ggtts {

class Scratch;

// The buffer that the allocator has put the results of a graph into; null when there are none.
ggml_backend_buffer_t buffer_of(ggml_cgraph *graph);

// Where the tensors of one program lie in it.
class ScratchPlan {
public:
    // Takes the places that GGML's allocator has given to the tensors of a context, which lose their memory;
    // nothing when they lie in several buffers. `bytes` is what they need together.
    static std::optional<ScratchPlan> of(const ggml_context *context, ggml_backend_buffer_t buffer,
                                         size_t bytes);

    size_t bytes() const { return bytes_; }

private:
    friend class Scratch;

    // In the order in which they were made: what a view shows comes before it.
    std::vector<std::pair<ggml_tensor *, size_t>> places_;
    size_t bytes_ = 0;
    uint64_t generation_ = 0;  // of the memory that they point into
};

class Scratch {
public:
    // With `lasting`, for devices that stand still while memory is given back: it then grows in few steps,
    // and programs are planned in memory that is kept for that.
    Scratch(ggml_backend_dev_t device, ggml_backend_buffer_type_t type, bool lasting)
        : device_(device), type_(type), lasting_(lasting) {}

    // Gives every tensor of a graph its place; nothing when the allocator of a program has to do it: where
    // memory does not last, for large programs, and when there is not enough. May be called by any thread.
    std::optional<ScratchPlan> plan(const ggml_context *context, ggml_cgraph *graph);

    // Programs that are there: memory that none of them needs any more is given back when the next one runs.
    // These may be called by any thread.
    void add(const ScratchPlan &plan);
    void remove(const ScratchPlan &plan);

    // Lets the tensors of a plan point into the memory. False when there is not enough. For one thread at a
    // time, and not while a program runs.
    [[nodiscard]] bool attach(ScratchPlan &plan);

private:
    size_t most_needed() const;
    bool resize(size_t bytes);

    Owned<ggml_backend_buffer> allocated(size_t bytes) const;

    ggml_backend_dev_t device_;
    ggml_backend_buffer_type_t type_;
    bool lasting_;
    std::mutex planning_;
    Owned<ggml_gallocr> planner_;
    Owned<ggml_backend_buffer> buffer_;
    size_t bytes_ = 0;
    uint64_t generation_ = 0;
    mutable std::mutex mutex_;  // of the sizes
    std::multiset<size_t> sizes_;
};

}  // namespace ggtts
