// pack_panel of vector_kernels.hpp in portable form. Included by the files of the instruction sets that have
// no other, behind their `panel_width`.
#pragma once

#include <ggml.h>

#include <algorithm>
#include <cstdint>

#include "stored_elements.hpp"
#include "vector_kernels.hpp"

namespace ggtts::kernels {
namespace {

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
    std::fill_n(panel, from.taps * from.inputs * panel_width, 0.0f);
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
    with_element(from.type, [&](auto element) { pack_elements<decltype(element)>(from, panel); });
}

}  // namespace
}  // namespace ggtts::kernels
