// The loops of vector_kernels.hpp, written once over a vector type. Included by one file per instruction set,
// each compiled with that set's flags; everything stays in an anonymous namespace so that no two of them are
// merged.
//
// The including file defines `Vector` with: `Value`, `width`, load, store, broadcast, zero, multiply_add(a,
// b, c) = a b + c, add, subtract, multiply, divide, round, minimum and maximum (of a number and none: the
// second, or none), sum, scale_by_power(a, n) = a 2^n for whole n; `ExactVector`, which has some of them for
// float64; the constants `vectors_per_panel`, `panel_width` and `rows_per_block`; and pack_panel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "minimal_filter_body.hpp"
#include "vector_kernels.hpp"

namespace ggtts::kernels {
namespace {

// A block of a result, which stays in registers while the inputs pass.
template <class V, int rows>
using Block = typename V::Value[rows][vectors_per_panel];

// Where the weights of a block come from: a panel,
template <class V>
struct OnePanel {
    const typename V::Number *panel;

    typename V::Value operator()(int64_t place) const { return V::load(panel + place); }
};

// or the sum of two.
struct TwoPanels {
    const float *first, *second;

    Vector::Value operator()(int64_t place) const {
        return Vector::add(Vector::load(first + place), Vector::load(second + place));
    }
};

template <class V, int rows, class Weights>
[[gnu::always_inline]] inline void multiply_block(const typename V::Number *x, int64_t x_stride,
                                                  const Weights &panel, int64_t depth, Block<V, rows> &sums) {
    for (int64_t i = 0; i < depth; ++i) {
        typename V::Value weights[vectors_per_panel];
#pragma GCC unroll 4
        for (int v = 0; v < vectors_per_panel; ++v) {
            weights[v] = panel((i * vectors_per_panel + v) * V::width);
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
            const auto input = V::broadcast(x[r * x_stride + i]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors_per_panel; ++v) {
                sums[r][v] = V::multiply_add(input, weights[v], sums[r][v]);
            }
        }
    }
}

template <class V, int rows, class Number>
[[gnu::always_inline]] inline void store_block(const Block<V, rows> &sums, Number *y, int64_t y_stride) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors_per_panel; ++v) {
            V::store(y + r * y_stride + v * V::width, sums[r][v]);
        }
    }
}

template <class V, int rows>
[[gnu::always_inline]] inline void load_block(const typename V::Number *y, int64_t y_stride,
                                              Block<V, rows> &sums) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors_per_panel; ++v) {
            sums[r][v] = V::load(y + r * y_stride + v * V::width);
        }
    }
}

template <int rows>
using Sums = Block<Vector, rows>;

template <int rows>
[[gnu::always_inline]] inline void clear(Sums<rows> &sums) {
#pragma GCC unroll 16
    for (auto &row : sums) {
        std::fill_n(row, vectors_per_panel, Vector::zero());
    }
}

// y = sums + added
template <int rows>
[[gnu::always_inline]] inline void store_with(const Sums<rows> &sums, const float *added, float *y,
                                              int64_t y_stride) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors_per_panel; ++v) {
            const int64_t place = r * y_stride + v * Vector::width;
            Vector::store(y + place, Vector::add(sums[r][v], Vector::load(added + place)));
        }
    }
}

template <int rows>
void multiply_panel_of(const PanelProduct &product, int64_t wanted) {
    if constexpr (rows > 0) {
        if (wanted != rows) {
            return multiply_panel_of<rows - 1>(product, wanted);
        }
        const auto &[x, x_stride, panel, depth, start, added, y, y_stride] = product;
        Sums<rows> sums;
        // Rows of the start lie at one place.
        load_block<Vector, rows>(start == nullptr ? y : start, start == nullptr ? y_stride : 0, sums);
        multiply_block<Vector, rows>(x, x_stride, OnePanel<Vector>{panel}, depth, sums);
        if (added == nullptr) {
            store_block<Vector, rows>(sums, y, y_stride);
        } else {
            store_with<rows>(sums, added, y, y_stride);
        }
    }
}

void multiply_panel(const PanelProduct &product, int64_t rows) {
    multiply_panel_of<rows_per_block>(product, rows);
}

template <int rows>
void multiply_runs_of(const float *x, int64_t x_stride, int64_t apart, const float *panel, int64_t depth,
                      float *y, int64_t y_stride, int64_t wanted) {
    if constexpr (rows > 0) {
        if (wanted != rows) {
            return multiply_runs_of<rows - 1>(x, x_stride, apart, panel, depth, y, y_stride, wanted);
        }
        Sums<rows> sums;
        clear<rows>(sums);
        multiply_block<Vector, rows>(x, x_stride, OnePanel<Vector>{panel}, depth, sums);
        if (apart != 0) {
            multiply_block<Vector, rows>(x + apart, x_stride, OnePanel<Vector>{panel + depth * panel_width},
                                         depth, sums);
        }
        store_block<Vector, rows>(sums, y, y_stride);
    }
}

void multiply_runs(const float *x, int64_t x_stride, int64_t apart, const float *panel, int64_t depth,
                   float *y, int64_t y_stride, int64_t rows) {
    multiply_runs_of<rows_per_block>(x, x_stride, apart, panel, depth, y, y_stride, rows);
}

template <int rows>
void multiply_pairs_of(const PairProduct &product, int64_t wanted) {
    if constexpr (rows > 0) {
        if (wanted != rows) {
            return multiply_pairs_of<rows - 1>(product, wanted);
        }
        const auto &[first, both, second, x_stride, panel, depth, second_panel, y, y2, y_stride] = product;
        Sums<rows> sums;
        clear<rows>(sums);
        if (second_panel != nullptr) {
            multiply_block<Vector, rows>(both, x_stride, TwoPanels{panel, second_panel}, depth, sums);
        } else {
            multiply_block<Vector, rows>(both, x_stride, OnePanel<Vector>{panel}, depth, sums);
        }
        store_block<Vector, rows>(sums, y2, y_stride);
        clear<rows>(sums);
        multiply_block<Vector, rows>(first, x_stride, OnePanel<Vector>{panel}, depth, sums);
        store_with<rows>(sums, y2, y, y_stride);
        if (second_panel != nullptr) {
            clear<rows>(sums);
            multiply_block<Vector, rows>(second, x_stride, OnePanel<Vector>{second_panel}, depth, sums);
            store_with<rows>(sums, y2, y2, y_stride);
        }
    }
}

void multiply_pairs(const PairProduct &product, int64_t rows) {
    multiply_pairs_of<rows_per_block>(product, rows);
}

template <int rows>
void multiply_exact_panel_of(const double *x, int64_t x_stride, const double *panel, int64_t depth, double *y,
                             int64_t y_stride, int64_t wanted) {
    if constexpr (rows > 0) {
        if (wanted != rows) {
            return multiply_exact_panel_of<rows - 1>(x, x_stride, panel, depth, y, y_stride, wanted);
        }
        Block<ExactVector, rows> sums;
        load_block<ExactVector, rows>(y, y_stride, sums);
        multiply_block<ExactVector, rows>(x, x_stride, OnePanel<ExactVector>{panel}, depth, sums);
        store_block<ExactVector, rows>(sums, y, y_stride);
    }
}

void multiply_exact_panel(const double *x, int64_t x_stride, const double *panel, int64_t depth, double *y,
                          int64_t y_stride, int64_t rows) {
    multiply_exact_panel_of<rows_per_block>(x, x_stride, panel, depth, y, y_stride, rows);
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

struct Exponent {
    typename Vector::Value power;      // n
    typename Vector::Value remainder;  // r
};

// x = n ln(2) + r with n whole and |r| <= ln(2) / 2. The first part of ln(2) has few bits, so that its
// product is exact.
Exponent exponent_of(typename Vector::Value x) {
    const auto n = Vector::round(Vector::multiply(x, Vector::broadcast(1.442695041f)));
    const auto r = Vector::multiply_add(n, Vector::broadcast(-0.693145752f), x);
    return {n, Vector::multiply_add(n, Vector::broadcast(-1.42860677e-6f), r)};
}

// (e^r - 1 - r) / r^2 by the Taylor polynomial that is exact to float32 for |r| <= ln(2) / 2.
typename Vector::Value exponential_tail(typename Vector::Value r) {
    auto p = Vector::broadcast(1.0f / 5040.0f);
    for (const float coefficient : {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f}) {
        p = Vector::multiply_add(p, r, Vector::broadcast(coefficient));
    }
    return p;
}

// e^x = 2^n e^r. Below -87 the result is no more than the smallest normal number.
typename Vector::Value exponential(typename Vector::Value x) {
    const auto [n, r] = exponent_of(Vector::maximum(x, Vector::broadcast(-87.0f)));
    const auto one = Vector::broadcast(1.0f);
    auto p = Vector::multiply_add(exponential_tail(r), r, one);
    p = Vector::multiply_add(p, r, one);
    return Vector::scale_by_power(p, n);
}

// e^x - 1 = 2^n (e^r - 1) + 2^n - 1, for x <= 0: near zero n is 0 and nothing cancels.
typename Vector::Value exponential_less_one(typename Vector::Value x) {
    const auto [n, r] = exponent_of(Vector::maximum(Vector::broadcast(-87.0f), x));
    const auto p = Vector::multiply_add(exponential_tail(r), Vector::multiply(r, r), r);
    const auto power = Vector::scale_by_power(Vector::broadcast(1.0f), n);
    return Vector::multiply_add(p, power, Vector::add(power, Vector::broadcast(-1.0f)));
}

// max(x, 0) + (e^min(x, 0) - 1): one of the two is zero.
typename Vector::Value elu_vector(typename Vector::Value x) {
    const auto zero = Vector::zero();
    return Vector::add(Vector::maximum(zero, x), exponential_less_one(Vector::minimum(zero, x)));
}

// max(x, 0) - |x| Q(|x|), where Q(a) = erfc(a / sqrt(2)) / 2 is the normal distribution beyond a. Abramowitz
// and Stegun, "Handbook of Mathematical Functions", 7.1.26, give Q(a) = e^(-a^2 / 2) times a polynomial in 1
// / (1 + p a); this one is of degree 6, fitted to a Q(a), which it meets to 9e-9 before rounding.
typename Vector::Value gelu_vector(typename Vector::Value x) {
    const auto zero = Vector::zero(), one = Vector::broadcast(1.0f);
    const auto a = Vector::maximum(Vector::multiply(x, Vector::broadcast(-1.0f)), x);
    const auto t = Vector::divide(one, Vector::multiply_add(a, Vector::broadcast(0.28f), one));
    auto p = Vector::broadcast(-0.106548591f);
    for (const float coefficient : {0.392974595f, -0.242155483f, 0.273179152f, 0.0657436336f, 0.116806682f}) {
        p = Vector::multiply_add(p, t, Vector::broadcast(coefficient));
    }
    const auto half_square = Vector::multiply(Vector::multiply(a, Vector::broadcast(-0.5f)), a);
    const auto beyond = Vector::multiply(Vector::multiply(p, t), exponential(half_square));
    const auto negative_a = Vector::multiply(a, Vector::broadcast(-1.0f));
    return Vector::multiply_add(negative_a, beyond, Vector::maximum(zero, x));
}

// y[i] = function(inputs[i]...). What fills no vector goes through the same instructions, so that a value
// does not depend on where it lies.
template <class Function, class... Inputs>
void each(float *y, int64_t count, Function function, const Inputs *...inputs) {
    int64_t i = 0;
    for (; i + Vector::width <= count; i += Vector::width) {
        Vector::store(y + i, function(Vector::load(inputs + i)...));
    }
    if (i == count) {
        return;
    }
    const size_t bytes = static_cast<size_t>(count - i) * sizeof(float);
    const auto rest_of = [&](const float *input) {
        float rest[Vector::width] = {};
        std::memcpy(rest, input + i, bytes);
        return Vector::load(rest);
    };
    float result[Vector::width];
    Vector::store(result, function(rest_of(inputs)...));
    std::memcpy(y + i, result, bytes);
}

void snake(const float *x, const float *frequency, const float *magnitude, float *y, int64_t count) {
    const auto function = [](auto value, auto frequencies, auto magnitudes) {
        return Vector::multiply_add(squared_sine(Vector::multiply(value, frequencies)), magnitudes, value);
    };
    each(y, count, function, x, frequency, magnitude);
}

void elu(const float *x, float *y, int64_t count) {
    each(y, count, [](auto value) { return elu_vector(value); }, x);
}

void gelu(const float *x, float *y, int64_t count) {
    each(y, count, [](auto value) { return gelu_vector(value); }, x);
}

void scaled_gelu(const float *x, const float *scale, const float *shift, float *y, int64_t count) {
    const auto function = [](auto value, auto scales, auto shifts) {
        return gelu_vector(Vector::multiply_add(value, scales, shifts));
    };
    each(y, count, function, x, scale, shift);
}

// Sum of function(x[i]).
template <class Function>
float sum_of(const float *x, int64_t count, Function function) {
    auto sums = Vector::zero();
    int64_t i = 0;
    for (; i + Vector::width <= count; i += Vector::width) {
        sums = Vector::add(sums, function(Vector::load(x + i)));
    }
    float total = Vector::sum(sums);
    if (i < count) {
        float rest[Vector::width];
        Vector::store(rest, Vector::zero());
        std::memcpy(rest, x + i, static_cast<size_t>(count - i) * sizeof(float));
        Vector::store(rest, function(Vector::load(rest)));
        for (int64_t k = 0; k < count - i; ++k) {
            total += rest[k];
        }
    }
    return total;
}

void normalise(const float *x, const float *weight, const float *bias, float epsilon, float *y,
               int64_t count) {
    const auto size = static_cast<float>(count);
    const auto mean = sum_of(x, count, [](auto value) { return value; }) / size;
    const auto offset = Vector::broadcast(-mean);
    const float squares = sum_of(x, count, [&](auto value) {
        const auto centred = Vector::add(value, offset);
        return Vector::multiply(centred, centred);
    });
    const auto scale = Vector::broadcast(1.0f / std::sqrt(squares / size + epsilon));
    const auto function = [&](auto value, auto weights, auto biases) {
        return Vector::multiply_add(Vector::multiply(Vector::add(value, offset), scale), weights, biases);
    };
    each(y, count, function, x, weight, bias);
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

constexpr VectorKernels kernels_of_this_file{panel_width,
                                             rows_per_block,
                                             multiply_panel,
                                             multiply_runs,
                                             multiply_pairs,
                                             vectors_per_panel * ExactVector::width,
                                             multiply_exact_panel,
                                             pack_panel,
                                             filter_inputs,
                                             filter_input_pairs,
                                             filter_outputs,
                                             dot,
                                             snake,
                                             elu,
                                             gelu,
                                             scaled_gelu,
                                             normalise,
                                             exponentials};

}  // namespace
}  // namespace ggtts::kernels
