// Minimal filtering: an FIR filter by fewer multiplications than its taps ask for.
//
// Winograd, "Arithmetic Complexity of Computations" (1980): m outputs of a filter of r taps take m + r - 1
// multiplications, one for each point at which a product of polynomials is evaluated. Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks" (CVPR 2016): with channels each of them becomes a matrix
// product, and the transforms before and after are little work. In their notation, of d inputs and g taps:
//     y = A^T [(G g) * (B^T d)]
//
// Here m = r = 4. A kernel of up to 8 taps is the sum of two halves, and because a tile of outputs is as long
// as a half, the second half reads what the first half of the next tile reads. With X, Y, Z for three tiles
// in a row and g, h for the halves, all transformed, the products of two tiles are
//     X g + Y h = (X - Y) g + Y (g + h)
//     Y g + Z h = (Z - Y) h + Y (g + h)
// which are three in place of four: minimal filtering once more, with m = r = 2. Half of a kernel that has
// fewer taps than 4 is zero at infinity, so that 7 taps take 20 multiplications for 8 outputs in place of 56.
// A tile that is left alone takes 13 in place of 28.
//
// The points are among those whose results are closest to the exact ones (of all with numerators and
// denominators up to 4, for noise through 96 to 768 channels). In float32 their error is twice that of the
// direct sum, and hardly more than it where the sum begins with a bias, as it does there. Pairs do not add to
// it, since each of their sums is half as long.
#pragma once

#include <array>
#include <cstddef>

namespace ggtts::kernels::minimal_filter {

constexpr int outputs = 4;  // m
constexpr int taps = 4;     // r, of a half
constexpr int halves = 2;
constexpr int inputs = outputs + taps - 1;
constexpr int points = outputs + taps - 1;
constexpr int pair_outputs = 2 * outputs;
constexpr int pair_inputs = pair_outputs + halves * taps - 1;
constexpr int pair_planes = 3;        // X - Y, Y, Z - Y
constexpr int infinity = points - 1;  // the last point; the leading coefficient stands for the value there
constexpr std::array<double, points - 1> finite_points{0, 1, -1, 2, -2, -0.5};

// Rows of coefficients.
template <size_t rows, size_t columns>
using Matrix = std::array<std::array<double, columns>, rows>;

// What a row of B^T is multiplied by and one of G divided by: with 2, all coefficients of B^T are whole.
constexpr double input_scale = 2;

// B^T: row i has the coefficients of the product of x - p over all points p but the i-th.
constexpr Matrix<points, inputs> input_matrix() {
    Matrix<points, inputs> matrix{};
    for (int row = 0; row < points; ++row) {
        auto &polynomial = matrix[row];
        polynomial[0] = input_scale;
        for (int i = 0; i < infinity; ++i) {
            for (int power = i == row ? 0 : inputs - 1; power > 0; --power) {
                polynomial[power] = polynomial[power - 1] - finite_points[i] * polynomial[power];
            }
            polynomial[0] *= i == row ? 1 : -finite_points[i];
        }
    }
    return matrix;
}

// G: row i has the powers of a point, divided by the product of its differences from the others.
constexpr Matrix<points, taps> kernel_matrix() {
    Matrix<points, taps> matrix{};
    for (int row = 0; row < infinity; ++row) {
        double value = 1 / input_scale;
        for (int i = 0; i < infinity; ++i) {
            value /= i == row ? 1 : finite_points[row] - finite_points[i];
        }
        for (int power = 0; power < taps; ++power, value *= finite_points[row]) {
            matrix[row][power] = value;
        }
    }
    matrix[infinity][taps - 1] = 1 / input_scale;
    return matrix;
}

// A^T: row j has the j-th powers of the points.
constexpr Matrix<outputs, points> output_matrix() {
    Matrix<outputs, points> matrix{};
    for (int point = 0; point < infinity; ++point) {
        double value = 1;
        for (int power = 0; power < outputs; ++power, value *= finite_points[point]) {
            matrix[power][point] = value;
        }
    }
    matrix[outputs - 1][infinity] = 1;
    return matrix;
}

}  // namespace ggtts::kernels::minimal_filter
