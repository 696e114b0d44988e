// Memory whose beginning is that of a cache line, for weights read in whole vectors.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace ggtts::kernels {

class PanelMemory {
public:
    PanelMemory() = default;
    // `count` values, not set.
    explicit PanelMemory(size_t count)
        : values_(static_cast<float *>(::operator new(count * sizeof(float), alignment))) {}

    float *get() const { return values_.get(); }

private:
    static constexpr std::align_val_t alignment{64};

    struct Free {
        void operator()(float *values) const { ::operator delete(values, alignment); }
    };

    std::unique_ptr<float, Free> values_;
};

}  // namespace ggtts::kernels
