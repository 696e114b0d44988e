// Memory for intermediate results. The programs of a backend run one at a time, so all of them compute in the
// same place: it is as large as the largest of them needs, and warm when the next one begins.
#pragma once

#include <ggml-cpp.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ggtts {

class Scratch;

// Where the tensors of one program lie in it.
class ScratchPlan {
public:
    // Takes the places that GGML's allocator has given to the tensors of a context, which lose their memory;
    // nothing when they lie in several buffers.
    static std::optional<ScratchPlan> of(const ggml_context *context, ggml_backend_buffer_t buffer);

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
    explicit Scratch(ggml_backend_buffer_type_t type) : type_(type) {}

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

    ggml_backend_buffer_type_t type_;
    ggml_backend_buffer_ptr buffer_;
    size_t bytes_ = 0;
    uint64_t generation_ = 0;
    mutable std::mutex mutex_;  // of the sizes
    std::multiset<size_t> sizes_;
};

}  // namespace ggtts
