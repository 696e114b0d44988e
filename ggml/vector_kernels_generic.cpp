// Portable kernels: plain loops that compilers turn into whatever vectors the target has.
#include <ggml.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "vector_kernels.hpp"

namespace ggtts::kernels {
namespace {

struct Vector {
    static constexpr int width = 8;
    struct Value {
        float lanes[width];
    };

    template <class Function>
    static Value each(Function function) {
        Value result;
        for (int i = 0; i < width; ++i) {
            result.lanes[i] = function(i);
        }
        return result;
    }
    static Value load(const float *from) {
        return each([&](int i) { return from[i]; });
    }
    static void store(float *to, const Value &a) {
        for (int i = 0; i < width; ++i) {
            to[i] = a.lanes[i];
        }
    }
    static Value broadcast(float a) {
        return each([&](int) { return a; });
    }
    static Value zero() { return broadcast(0.0f); }
    static Value multiply_add(const Value &a, const Value &b, const Value &c) {
        return each([&](int i) { return a.lanes[i] * b.lanes[i] + c.lanes[i]; });
    }
    static Value add(const Value &a, const Value &b) {
        return each([&](int i) { return a.lanes[i] + b.lanes[i]; });
    }
    static Value multiply(const Value &a, const Value &b) {
        return each([&](int i) { return a.lanes[i] * b.lanes[i]; });
    }
    static Value divide(const Value &a, const Value &b) {
        return each([&](int i) { return a.lanes[i] / b.lanes[i]; });
    }
    static Value round(const Value &a) {
        return each([&](int i) { return std::nearbyint(a.lanes[i]); });
    }
    static Value minimum(const Value &a, const Value &b) {
        return each([&](int i) { return a.lanes[i] < b.lanes[i] ? a.lanes[i] : b.lanes[i]; });
    }
    static Value maximum(const Value &a, const Value &b) {
        return each([&](int i) { return a.lanes[i] > b.lanes[i] ? a.lanes[i] : b.lanes[i]; });
    }
    static Value scale_by_power(const Value &a, const Value &n) {
        return each([&](int i) { return std::ldexp(a.lanes[i], static_cast<int>(n.lanes[i])); });
    }
    static float sum(const Value &a) {
        float total = 0.0f;
        for (const float lane : a.lanes) {
            total += lane;
        }
        return total;
    }
};

struct ExactVector {
    using Value = double;
    static constexpr int width = 1;

    static Value load(const double *from) { return *from; }
    static void store(double *to, Value a) { *to = a; }
    static Value broadcast(double a) { return a; }
    static Value multiply_add(Value a, Value b, Value c) { return a * b + c; }
};

constexpr int vectors_per_panel = 1;
constexpr int64_t panel_width = vectors_per_panel * Vector::width;
constexpr int rows_per_block = 4;

float value_of(float value) {
    return value;
}
float value_of(ggml_fp16_t value) {
    return ggml_fp16_to_fp32(value);
}
float value_of(ggml_bf16_t value) {
    return ggml_bf16_to_fp32(value);
}

template <class Element>
void pack_elements(const StoredPanel &from, float *panel) {
    const auto *values = static_cast<const Element *>(from.values);
    std::memset(panel, 0, static_cast<size_t>(from.taps * from.inputs * panel_width) * sizeof(float));
    for (int64_t r = 0; r < from.outputs; ++r) {
        for (int64_t i = 0; i < from.inputs; ++i) {
            for (int64_t k = 0; k < from.taps; ++k) {
                panel[(k * from.inputs + i) * panel_width + r] =
                    value_of(values[r * from.row + i * from.taps + k]);
            }
        }
    }
}

void pack_panel(const StoredPanel &from, float *panel) {
    if (from.type == GGML_TYPE_F32) {
        pack_elements<float>(from, panel);
    } else if (from.type == GGML_TYPE_F16) {
        pack_elements<ggml_fp16_t>(from, panel);
    } else {
        pack_elements<ggml_bf16_t>(from, panel);
    }
}

}  // namespace
}  // namespace ggtts::kernels

#include "vector_kernels_body.hpp"

namespace ggtts::kernels {

const VectorKernels generic_kernels = kernels_of_this_file;

}  // namespace ggtts::kernels
