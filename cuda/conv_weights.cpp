#include "conv_weights.hpp"

#include <algorithm>
#include <cstring>

#include "conv_numbers.hpp"

namespace ggtts::conv {
namespace {

std::vector<uint8_t> bytes_of(const std::vector<float> &values) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
    return {bytes, bytes + values.size() * sizeof(float)};
}

std::vector<uint8_t> narrow_weights(const Layer &layer, const float *matrices) {
    std::vector<float> values;
    for (int output = 0; output < layer.outputs; ++output) {
        for (int tap = 0; tap < layer.taps; ++tap) {
            const float *row = matrices + (tap * layer.outputs + output) * layer.inputs;
            values.insert(values.end(), row, row + layer.inputs);
            values.resize(values.size() + static_cast<size_t>(layer.narrow_width() - layer.inputs));
        }
    }
    return bytes_of(values);
}

void store(float value, Kind kind, int place, uint8_t *group) {
    if (kind == Kind::halves) {
        const uint16_t half = Stored<Kind::halves>::of(value);
        std::memcpy(group + place * sizeof half, &half, sizeof half);
    } else {
        value = kind == Kind::exact ? value : upper_part(value);
        std::memcpy(group + place * sizeof value, &value, sizeof value);
    }
}

}  // namespace

std::vector<uint8_t> packed_weights(const Layer &layer, const float *matrices, Kind kind) {
    if (layer.narrow())
        return narrow_weights(layer, matrices);
    constexpr int half_floats = group_floats / halves_of_chunk;
    const int rows = layer.chunks() * layer.taps * layer.groups(), bytes = group_floats * number_bytes(kind);
    std::vector<uint8_t> values(static_cast<size_t>(rows) * bytes);
    for (int row = 0; row < rows; ++row) {
        const int group = row % layer.groups(), tap = row / layer.groups() % layer.taps;
        const int chunk = row / layer.groups() / layer.taps;
        for (int place = 0; place < group_floats; ++place) {
            const int lane = place / 4 % lanes_of_warp, output = group * group_width + lane / 4;
            const int input =
                chunk * chunk_width + place / half_floats * half_width + lane % 4 * 4 + place % 4;
            if (output < layer.outputs && input < layer.inputs) {
                const int64_t at =
                    (static_cast<int64_t>(tap) * layer.outputs + output) * layer.inputs + input;
                store(matrices[at], kind, place, values.data() + static_cast<int64_t>(row) * bytes);
            }
        }
    }
    return values;
}

int segment_chunks_of(const Layer &layer, Kind kind) {
    if (kind == Kind::exact)
        return layer.chunks();
    const int steps = layer.chunks() * layer.taps;
    const int segments = std::max(1, (steps + steps_of_segment / 2) / steps_of_segment);
    return (layer.chunks() + segments - 1) / segments;
}

}  // namespace ggtts::conv
