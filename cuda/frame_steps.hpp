// The list of products of a frame, made on the host.
#pragma once

#include <vector>

#include "model.hpp"

namespace ggtts::predictor {

// What the kernel for few columns does in a frame. `layers` and `heads` are on the host; no data in
// `projection` where there is none.
inline std::vector<Step> frame_steps(const Sizes &sizes, const std::vector<Layer> &layers,
                                     const std::vector<Matrix> &heads, const Matrix &projection) {
    std::vector<Step> steps;
    for (int position = 0; position < sizes.codebooks; ++position) {
        const size_t begin = steps.size();
        if (projection.data != nullptr)
            steps.push_back({projection, Product::entry, 0, 0});
        for (int index = 0; index < sizes.layers; ++index) {
            const Layer &layer = layers[static_cast<size_t>(index)];
            const auto number = static_cast<uint16_t>(index);
            steps.push_back({layer.qkv, Product::inputs, 0, number});
            if (position == 0 && index + 1 == sizes.layers)
                break;  // nothing but keys and values is read of this position
            steps.push_back({layer.output, Product::output, 0, number});
            steps.push_back({layer.gate_up, Product::gate, 0, number});
            steps.push_back({layer.down, Product::down, 0, number});
        }
        if (position > 0)
            steps.push_back({heads[static_cast<size_t>(position - 1)], Product::logits, 0, 0});
        steps[begin].enters = 1;
    }
    return steps;
}

}  // namespace ggtts::predictor
