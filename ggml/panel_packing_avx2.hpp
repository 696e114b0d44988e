// pack_panel of vector_kernels.hpp for x86-64 with AVX2: 8 outputs x 8 weights are transposed in registers.
// Included by the files of the instruction sets that have it, behind their `panel_width`.
#pragma once

#include <ggml.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "stored_elements.hpp"
#include "vector_kernels.hpp"

namespace ggtts::kernels {
namespace {

constexpr int side = 8;

inline __m256 load_side(const float *from) {
    return _mm256_loadu_ps(from);
}
inline __m256 load_side(const ggml_fp16_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}
inline __m256 load_side(const ggml_bf16_t *from) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

inline void transpose(__m256 (&rows)[side]) {
    __m256 pairs[side], quads[side];
    for (int i = 0; i < side; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < side; i += 4) {
        quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
        quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
        quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
        quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
    }
    for (int i = 0; i < 4; ++i) {
        rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
        rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
    }
}

// Where the weights of neighbouring taps and inputs go: tap by tap, input by input.
class PanelRows {
public:
    PanelRows(const StoredPanel &from, float *panel) : from_(from), panel_(panel) {}

    float *next() {
        float *row = panel_ + (tap_ * from_.inputs + input_) * panel_width;
        if (++tap_ == from_.taps) {
            tap_ = 0;
            ++input_;
        }
        return row;
    }

private:
    const StoredPanel &from_;
    float *panel_;
    int64_t input_ = 0, tap_ = 0;
};

// Up to 8 neighbouring weights, from `values` on, of all outputs.
template <class Element>
void pack_side(const StoredPanel &from, const Element *values, int64_t count, PanelRows &destinations) {
    float *to[side];
    for (int64_t j = 0; j < count; ++j) {
        to[j] = destinations.next();
    }
    for (int64_t first = 0; first < panel_width; first += side) {
        __m256 rows[side];
        for (int64_t r = 0; r < side; ++r) {
            rows[r] = _mm256_setzero_ps();
            if (first + r < from.outputs) {
                const Element *row = values + (first + r) * from.row;
                Element part[side] = {};
                if (count < side) {
                    std::memcpy(part, row, static_cast<size_t>(count) * sizeof(Element));
                    row = part;
                }
                rows[r] = load_side(row);
            }
        }
        transpose(rows);
        for (int64_t j = 0; j < count; ++j) {
            _mm256_storeu_ps(to[j] + first, rows[j]);
        }
    }
}

template <class Element>
void pack_elements(const StoredPanel &from, float *panel) {
    const auto *values = static_cast<const Element *>(from.values);
    const int64_t length = from.inputs * from.taps;
    PanelRows destinations(from, panel);
    for (int64_t j = 0; j < length; j += side) {
        pack_side(from, values + j, std::min<int64_t>(side, length - j), destinations);
    }
}

void pack_panel(const StoredPanel &from, float *panel) {
    with_element(from.type, [&](auto element) { pack_elements<decltype(element)>(from, panel); });
}

}  // namespace
}  // namespace ggtts::kernels
