#include "conv_weights.hpp"

#include <algorithm>

#include "conv_tile.hpp"

namespace ggtts::conv {
namespace {

std::vector<float> narrow_weights(const Layer &layer, const float *matrices) {
    std::vector<float> values;
    for (int output = 0; output < layer.outputs; ++output) {
        for (int tap = 0; tap < layer.taps; ++tap) {
            const float *row = matrices + (tap * layer.outputs + output) * layer.inputs;
            values.insert(values.end(), row, row + layer.inputs);
            values.resize(values.size() + static_cast<size_t>(layer.narrow_width() - layer.inputs));
        }
    }
    return values;
}

}  // namespace

std::vector<float> packed_weights(const Layer &layer, const float *matrices, bool exact) {
    if (layer.narrow())
        return narrow_weights(layer, matrices);
    constexpr int half_floats = group_floats / halves_of_chunk, half_width = chunk_width / halves_of_chunk;
    const int rows = layer.chunks() * layer.taps * layer.groups();
    std::vector<float> values(static_cast<size_t>(rows) * group_floats);
    for (int row = 0; row < rows; ++row) {
        const int group = row % layer.groups(), tap = row / layer.groups() % layer.taps;
        const int chunk = row / layer.groups() / layer.taps;
        float *target = values.data() + static_cast<int64_t>(row) * group_floats;
        for (int place = 0; place < group_floats; ++place) {
            const int lane = place / 4 % lanes_of_warp, output = group * group_width + lane / 4;
            const int input =
                chunk * chunk_width + place / half_floats * half_width + lane % 4 * 4 + place % 4;
            if (output >= layer.outputs || input >= layer.inputs)
                continue;
            const float value =
                matrices[(static_cast<int64_t>(tap) * layer.outputs + output) * layer.inputs + input];
            target[place] = exact ? value : upper_part(value);
        }
    }
    return values;
}

int segment_chunks_of(const Layer &layer, bool exact) {
    if (exact)
        return layer.chunks();
    const int steps = layer.chunks() * layer.taps;
    const int segments = std::max(1, (steps + steps_of_segment / 2) / steps_of_segment);
    return (layer.chunks() + segments - 1) / segments;
}

}  // namespace ggtts::conv
