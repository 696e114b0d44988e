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

void store(float value, Kind kind, int place, uint8_t *target) {
    if (kind == Kind::halves) {
        const uint16_t half = Stored<Kind::halves>::of(value);
        std::memcpy(target + place * static_cast<int>(sizeof half), &half, sizeof half);
    } else {
        value = kind == Kind::exact ? value : upper_part(value);
        std::memcpy(target + place * static_cast<int>(sizeof value), &value, sizeof value);
    }
}

// Where one of the four inputs of a lane in a half lies, for the first of its outputs or the other, which is
// eight further: a register has two neighbours in float16, or one float32, and all four of an instruction
// lie side by side.
int place_in_half(Kind kind, int lane, int input, int other) {
    const int pair = input / 2, neighbour = input % 2;
    if (kind == Kind::halves)
        return lane * 8 + (pair * 2 + other) * 2 + neighbour;
    return (pair * lanes_of_warp + lane) * 4 + neighbour * 2 + other;
}

// A group of outputs in a chunk of a tap.
void pack_group(const Layer &layer, const float *matrix, Kind kind, int chunk, int group, uint8_t *target) {
    constexpr int half_floats = group_floats / halves_of_chunk;
    for (int row = 0; row < group_width; ++row) {
        const int output = group * group_width + row;
        if (output >= layer.outputs)
            break;
        const float *source = matrix + static_cast<int64_t>(output) * layer.inputs;
        for (int i = 0; i < chunk_width && chunk * chunk_width + i < layer.inputs; ++i) {
            const int half = i / half_width, lane = row % 8 * 4 + i % half_width / 4;
            const int place = half * half_floats + place_in_half(kind, lane, i % 4, row / 8);
            store(source[chunk * chunk_width + i], kind, place, target);
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
