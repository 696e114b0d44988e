// Portable kernels: plain loops that compilers turn into whatever vectors the target has.
#include <cmath>
#include <cstdint>

namespace ggtts::kernels {
namespace {

struct Vector {
    using Number = float;
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
    static Value subtract(const Value &a, const Value &b) {
        return each([&](int i) { return a.lanes[i] - b.lanes[i]; });
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
    using Number = double;
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

}  // namespace
}  // namespace ggtts::kernels

#include "panel_packing.hpp"
#include "vector_kernels_body.hpp"

namespace ggtts::kernels {

const VectorKernels generic_kernels = kernels_of_this_file;

}  // namespace ggtts::kernels
