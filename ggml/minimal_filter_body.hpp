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

void filter_inputs(const float *const *rows, int64_t count, float *to, int64_t stride) {
    using namespace minimal_filter;
    static constexpr auto matrix = input_matrix();
    typename Vector::Value values[inputs], transformed[points];
    int64_t i = 0;
    for (; i + Vector::width <= count; i += Vector::width) {
#pragma GCC unroll 8
        for (int row = 0; row < inputs; ++row) {
            values[row] = Vector::load(rows[row] + i);
        }
        apply(matrix, values, transformed);
#pragma GCC unroll 8
        for (int point = 0; point < points; ++point) {
            Vector::store(to + point * stride + i, transformed[point]);
        }
    }
    if (i == count) {
        return;
    }
    const size_t bytes = static_cast<size_t>(count - i) * sizeof(float);
    float rest[Vector::width] = {};
    for (int row = 0; row < inputs; ++row) {
        std::memcpy(rest, rows[row] + i, bytes);
        values[row] = Vector::load(rest);
    }
    apply(matrix, values, transformed);
    for (int point = 0; point < points; ++point) {
        Vector::store(rest, transformed[point]);
        std::memcpy(to + point * stride + i, rest, bytes);
    }
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
