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

// Neighbouring inputs that a lane reads at once.
constexpr int together = 4;

void store(const float (&values)[together], Kind kind, uint8_t *target) {
    for (int i = 0; i < together; ++i) {
        if (kind == Kind::halves) {
            const uint16_t half = Stored<Kind::halves>::of(values[i]);
            std::memcpy(target + i * sizeof half, &half, sizeof half);
        } else {
            const float value = kind == Kind::exact ? values[i] : upper_part(values[i]);
            std::memcpy(target + i * sizeof value, &value, sizeof value);
        }
    }
}

// A group of outputs in a chunk of a tap.
void pack_group(const Layer &layer, const float *matrix, Kind kind, int chunk, int group, uint8_t *target) {
    for (int half = 0; half < halves_of_chunk; ++half) {
        for (int lane = 0; lane < lanes_of_warp; ++lane) {
            const int output = group * group_width + lane / 4;
            const int input = chunk * chunk_width + half * half_width + lane % 4 * together;
            float values[together] = {};
            for (int i = 0; output < layer.outputs && i < together && input + i < layer.inputs; ++i)
                values[i] = matrix[static_cast<int64_t>(output) * layer.inputs + input + i];
            store(values, kind, target + (half * lanes_of_warp + lane) * together * number_bytes(kind));
        }
    }
}

}  // namespace

std::vector<uint8_t> packed_weights(const Layer &layer, const float *matrices, Kind kind) {
    if (layer.narrow())
        return narrow_weights(layer, matrices);
    const int rows = layer.chunks() * layer.taps * layer.groups(), bytes = group_floats * number_bytes(kind);
    std::vector<uint8_t> values(static_cast<size_t>(rows) * bytes);
    for (int row = 0; row < rows; ++row) {
        const int group = row % layer.groups(), tap = row / layer.groups() % layer.taps;
        const int chunk = row / layer.groups() / layer.taps;
        const float *matrix = matrices + static_cast<int64_t>(tap) * layer.outputs * layer.inputs;
        pack_group(layer, matrix, kind, chunk, group, values.data() + static_cast<int64_t>(row) * bytes);
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
