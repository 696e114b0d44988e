// The loops of minimal filtering, written once over a vector type; included by vector_kernels_body.hpp, which
// see.
#pragma once

#include <cstdint>
#include <cstring>

#include "minimal_filter.hpp"

namespace ggtts::kernels {
namespace {

// matrix times vectors: each result in the order of the coefficients, those that are zero left out.
template <size_t rows, size_t columns>
[[gnu::always_inline]] inline void apply(const minimal_filter::Matrix<rows, columns> &matrix,
                                         const typename Vector::Value (&from)[columns],
                                         typename Vector::Value (&to)[rows]) {
#pragma GCC unroll 8
    for (size_t row = 0; row < rows; ++row) {
        auto sum = Vector::zero();
#pragma GCC unroll 8
        for (size_t column = 0; column < columns; ++column) {
            if (matrix[row][column] != 0) {
                const auto coefficient = Vector::broadcast(static_cast<float>(matrix[row][column]));
                sum = Vector::multiply_add(coefficient, from[column], sum);
            }
        }
        to[row] = sum;
    }
}

using Inputs = typename Vector::Value[minimal_filter::inputs];
using Transformed = typename Vector::Value[minimal_filter::points];

// One tile, from the rows that begin with its first.
[[gnu::always_inline]] inline void transform_inputs(const float *const *rows, int64_t i, Transformed &to) {
    static constexpr auto matrix = minimal_filter::input_matrix();
    Inputs values;
#pragma GCC unroll 8
    for (int row = 0; row < minimal_filter::inputs; ++row) {
        values[row] = Vector::load(rows[row] + i);
    }
    apply(matrix, values, to);
}

[[gnu::always_inline]] inline void store_points(const Transformed &values, float *to, int64_t stride) {
#pragma GCC unroll 8
    for (int point = 0; point < minimal_filter::points; ++point) {
        Vector::store(to + point * stride, values[point]);
    }
}

// left = left - right
[[gnu::always_inline]] inline void subtract_points(Transformed &left, const Transformed &right) {
#pragma GCC unroll 8
    for (int point = 0; point < minimal_filter::points; ++point) {
        left[point] = Vector::subtract(left[point], right[point]);
    }
}

// transform(rows, i, to) for every vector of channels i. What fills no vector is done with zeros beyond it,
// in memory of its own.
template <int rows_read, int planes, class Transform>
void each_vector(const float *const *rows, int64_t count, float *to, int64_t stride, int64_t plane,
                 Transform transform) {
    int64_t i = 0;
    for (; i + Vector::width <= count; i += Vector::width) {
        transform(rows, i, to + i, stride, plane);
    }
    if (i == count) {
        return;
    }
    const size_t bytes = static_cast<size_t>(count - i) * sizeof(float);
    float rest[rows_read][Vector::width] = {}, results[planes][minimal_filter::points][Vector::width];
    const float *rest_rows[rows_read];
    for (int row = 0; row < rows_read; ++row) {
        std::memcpy(rest[row], rows[row] + i, bytes);
        rest_rows[row] = rest[row];
    }
    transform(rest_rows, 0, results[0][0], Vector::width, minimal_filter::points * Vector::width);
    for (int index = 0; index < planes; ++index) {
        for (int point = 0; point < minimal_filter::points; ++point) {
            std::memcpy(to + index * plane + point * stride + i, results[index][point], bytes);
        }
    }
}

void filter_inputs(const float *const *rows, int64_t count, float *to, int64_t stride) {
    const auto transform = [](const float *const *from, int64_t i, float *points, int64_t apart, int64_t) {
        Transformed values;
        transform_inputs(from, i, values);
        store_points(values, points, apart);
    };
    each_vector<minimal_filter::inputs, 1>(rows, count, to, stride, 0, transform);
}

void filter_input_pairs(const float *const *rows, int64_t count, float *to, int64_t stride, int64_t plane) {
    const auto transform = [](const float *const *from, int64_t i, float *points, int64_t apart,
                              int64_t next) {
        using minimal_filter::outputs;
        Transformed middle, other;
        transform_inputs(from + outputs, i, middle);
        transform_inputs(from, i, other);
        subtract_points(other, middle);
        store_points(other, points, apart);
        store_points(middle, points + next, apart);
        transform_inputs(from + 2 * outputs, i, other);
        subtract_points(other, middle);
        store_points(other, points + 2 * next, apart);
    };
    each_vector<minimal_filter::pair_inputs, minimal_filter::pair_planes>(rows, count, to, stride, plane,
                                                                          transform);
}

void filter_outputs(const float *products, int64_t stride, const float *bias, float *const *rows) {
    using namespace minimal_filter;
    static constexpr auto matrix = output_matrix();
    typename Vector::Value values[points], sums[outputs];
    for (int64_t i = 0; i < panel_width; i += Vector::width) {
#pragma GCC unroll 8
        for (int point = 0; point < points; ++point) {
            values[point] = Vector::load(products + point * stride + i);
        }
        apply(matrix, values, sums);
        const auto added = Vector::load(bias + i);
#pragma GCC unroll 4
        for (int row = 0; row < outputs; ++row) {
            Vector::store(rows[row] + i, Vector::add(sums[row], added));
        }
    }
}

}  // namespace
}  // namespace ggtts::kernels
