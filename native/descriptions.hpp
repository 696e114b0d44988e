// Room for descriptions of tensors and graphs.
#pragma once

#include <ggml-cpp.h>

#include <cstddef>
#include <memory>

namespace ggtts {

// A context of GGML that holds no values. Its memory is asked for here: GGML would end the process when there
// is none.
class Descriptions {
public:
    // Throws std::bad_alloc.
    explicit Descriptions(size_t bytes)
        : memory_(new std::byte[bytes + alignment]),
          context_(ggml_init({bytes, aligned(memory_.get()), /*no_alloc=*/true})) {}

    ggml_context *get() const { return context_.get(); }

private:
    static constexpr size_t alignment = 64;

    static void *aligned(std::byte *memory) {
        const auto address = reinterpret_cast<uintptr_t>(memory);
        return memory + (alignment - address % alignment) % alignment;
    }

    std::unique_ptr<std::byte[]> memory_;
    ggml_context_ptr context_;
};

}  // namespace ggtts
