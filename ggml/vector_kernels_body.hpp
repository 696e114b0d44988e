// The loops of vector_kernels.hpp, written once over a vector type. Included by one file per instruction set,
// each compiled with that set's flags; everything stays in an anonymous namespace so that no two of them are
// merged.
//
// The including file defines `Vector` with: `Value`, `width`, load, store, broadcast, zero, multiply_add(a,
// b, c) = a b + c, multiply, round, maximum, sum, scale_by_power(a, n) = a 2^n for whole n; and the constants
// `vectors_per_panel` and `rows_per_block`.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "vector_kernels.hpp"

namespace ggtts::kernels {
namespace {

constexpr int64_t panel_width = vectors_per_panel * Vector::width;

// A block of the result stays in registers while the inputs pass.
template <int rows>
void multiply_rows(const float *x, int64_t x_stride, const float *panel, int64_t depth, float *y,
                   int64_t y_stride) {
    typename Vector::Value sums[rows][vectors_per_panel];
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors_per_panel; ++v) {
            sums[r][v] = Vector::load(y + r * y_stride + v * Vector::width);
        }
    }
    for (int64_t i = 0; i < depth; ++i, panel += panel_width) {
        typename Vector::Value weights[vectors_per_panel];
#pragma GCC unroll 4
        for (int v = 0; v < vectors_per_panel; ++v) {
            weights[v] = Vector::load(panel + v * Vector::width);
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
            const auto input = Vector::broadcast(x[r * x_stride + i]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors_per_panel; ++v) {
                sums[r][v] = Vector::multiply_add(input, weights[v], sums[r][v]);
            }
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors_per_panel; ++v) {
            Vector::store(y + r * y_stride + v * Vector::width, sums[r][v]);
        }
    }
}

template <int rows>
void multiply_at_most(const float *x, int64_t x_stride, const float *panel, int64_t depth, float *y,
                      int64_t y_stride, int64_t wanted) {
    if constexpr (rows > 0) {
        if (wanted == rows) {
            multiply_rows<rows>(x, x_stride, panel, depth, y, y_stride);
        } else {
            multiply_at_most<rows - 1>(x, x_stride, panel, depth, y, y_stride, wanted);
        }
    }
}

void multiply_panel(const float *x, int64_t x_stride, const float *panel, int64_t depth, float *y,
                    int64_t y_stride, int64_t rows) {
    multiply_at_most<rows_per_block>(x, x_stride, panel, depth, y, y_stride, rows);
}

float dot(const float *a, const float *b, int64_t count, float sum) {
    auto sums = Vector::zero();
    int64_t i = 0;
    for (; i + Vector::width <= count; i += Vector::width) {
        sums = Vector::multiply_add(Vector::load(a + i), Vector::load(b + i), sums);
    }
    for (; i < count; ++i) {
        sum += a[i] * b[i];
    }
    return sum + Vector::sum(sums);
}

// sin^2 has period pi: the argument is brought to [-pi/2, pi/2], where an odd polynomial of degree 11
// (interpolated at Chebyshev nodes) is exact to 2e-11 before rounding. The parts of pi have few bits, so that
// the products are exact.
typename Vector::Value squared_sine(typename Vector::Value y) {
    const auto turns = Vector::round(Vector::multiply(y, Vector::broadcast(0.318309886f)));
    auto r = Vector::multiply_add(turns, Vector::broadcast(-3.140625f), y);
    r = Vector::multiply_add(turns, Vector::broadcast(-0.0009676535846665502f), r);
    r = Vector::multiply_add(turns, Vector::broadcast(-5.126565838509123e-12f), r);
    const auto u = Vector::multiply(r, r);
    auto p = Vector::broadcast(-2.388694e-08f);
    for (const float coefficient : {2.7525143e-06f, -0.00019840858f, 0.008333331f, -0.16666667f, 1.0f}) {
        p = Vector::multiply_add(p, u, Vector::broadcast(coefficient));
    }
    const auto sine = Vector::multiply(p, r);
    return Vector::multiply(sine, sine);
}

typename Vector::Value snake_vector(const float *x, const float *frequency, const float *magnitude) {
    const auto value = Vector::load(x);
    return Vector::multiply_add(squared_sine(Vector::multiply(value, Vector::load(frequency))),
                                Vector::load(magnitude), value);
}

void snake(const float *x, const float *frequency, const float *magnitude, float *y, int64_t count) {
    int64_t i = 0;
    for (; i + Vector::width <= count; i += Vector::width) {
        Vector::store(y + i, snake_vector(x + i, frequency + i, magnitude + i));
    }
    if (i == count) {
        return;
    }
    // The rest goes through the same instructions, so that a value does not depend on where it lies.
    float rest[4][Vector::width] = {};
    const size_t bytes = static_cast<size_t>(count - i) * sizeof(float);
    std::memcpy(rest[0], x + i, bytes);
    std::memcpy(rest[1], frequency + i, bytes);
    std::memcpy(rest[2], magnitude + i, bytes);
    Vector::store(rest[3], snake_vector(rest[0], rest[1], rest[2]));
    std::memcpy(y + i, rest[3], bytes);
}

// e^x = 2^n e^r with n the nearest whole number to x log2(e): |r| <= ln(2) / 2, where the Taylor polynomial
// of degree 7 is exact to float32. Below -87 the result is no more than the smallest normal number.
typename Vector::Value exponential(typename Vector::Value x) {
    x = Vector::maximum(x, Vector::broadcast(-87.0f));
    const auto n = Vector::round(Vector::multiply(x, Vector::broadcast(1.442695041f)));
    auto r = Vector::multiply_add(n, Vector::broadcast(-0.693145752f), x);
    r = Vector::multiply_add(n, Vector::broadcast(-1.42860677e-6f), r);
    auto p = Vector::broadcast(1.0f / 5040.0f);
    for (const float coefficient :
         {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f}) {
        p = Vector::multiply_add(p, r, Vector::broadcast(coefficient));
    }
    return Vector::scale_by_power(p, n);
}

float exponentials(float *x, int64_t count, float highest, float scale) {
    const auto factor = Vector::broadcast(scale), offset = Vector::broadcast(-highest * scale);
    auto sums = Vector::zero();
    const auto ones = Vector::broadcast(1.0f);
    int64_t i = 0;
    for (; i + Vector::width <= count; i += Vector::width) {
        const auto value = exponential(Vector::multiply_add(Vector::load(x + i), factor, offset));
        Vector::store(x + i, value);
        sums = Vector::multiply_add(value, ones, sums);
    }
    float total = Vector::sum(sums);
    if (i < count) {
        float rest[Vector::width] = {};
        std::memcpy(rest, x + i, static_cast<size_t>(count - i) * sizeof(float));
        Vector::store(rest, exponential(Vector::multiply_add(Vector::load(rest), factor, offset)));
        for (int64_t k = 0; i < count; ++i, ++k) {
            x[i] = rest[k];
            total += rest[k];
        }
    }
    return total;
}

constexpr VectorKernels kernels_of_this_file{panel_width, rows_per_block, multiply_panel,
                                             dot,         snake,          exponentials};

}  // namespace
}  // namespace ggtts::kernels
