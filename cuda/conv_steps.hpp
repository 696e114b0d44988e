// What is no work for matrix units: convolutions to a channel or two, and what streams keep of their inputs.
#pragma once

#include "conv_tile.hpp"

namespace ggtts::conv {

// `narrow_rows` positions of one stream, each for a few threads. Blocks go over the streams, and within them.
template <Kind kind, class Block>
class NarrowProduct {
    using Numbers = Stored<kind>;
    using Number = typename Numbers::Number;

public:
    GGTTS_ANYWHERE NarrowProduct(const Block &block, const Pass &pass, float *shared)
        : block_(block), pass_(pass), inputs_(shared) {
        const int tiles = (pass.time + narrow_rows - 1) / narrow_rows;
        stream_ = block.block() / tiles;
        first_ = block.block() % tiles * narrow_rows;
        const int left = pass.time - first_;
        count_ = left < narrow_rows ? left : narrow_rows;
        weights_ = shared + (narrow_rows + pass.layer.past()) * stride();
        sums_ = weights_ + pass.layer.outputs * pass.layer.taps * pass.layer.narrow_width();
    }

    GGTTS_ANYWHERE void run() {
        const Layer &layer = pass_.layer;
        const int width = layer.narrow_width(), rows = count_ + layer.past();
        block_.let_next_begin();
        block_.spread(layer.outputs * layer.taps * width, [&](int index) {
            weights_[index] = reinterpret_cast<const float *>(layer.weights)[index];
        });
        block_.await_earlier();
        block_.template spread_together<words_together>(
            rows * width / 4, [&](int index) { return inputs(index * 4 / width, index * 4 % width); },
            [&](int index, const Floats &values) {
                store_four(values, inputs_ + index * 4 / width * stride() + index * 4 % width);
            });
        block_.meet();
        block_.spread(narrow_threads, [&](int index) {
            const int row = index % narrow_rows, part = index / narrow_rows;
            for (int output = 0; row < count_ && output < layer.outputs; ++output)
                *sum_of(row, output, part) = sum(row, output, part);
        });
        block_.meet();
        block_.spread(count_, [&](int row) {
            for (int output = 0; output < layer.outputs; ++output)
                leave(row, output,
                      (*sum_of(row, output, 0) + *sum_of(row, output, 1)) +
                          (*sum_of(row, output, 2) + *sum_of(row, output, 3)));
        });
    }

private:
    GGTTS_ANYWHERE int stride() const { return (pass_.layer.narrow_width() + 31) / 32 * 32 + 4; }

    // Four neighbours of a row.
    GGTTS_ANYWHERE Floats inputs(int row, int channel) const {
        const Layer &layer = pass_.layer;
        const int past = layer.past(), position = first_ + row;
        const int source = position >= past ? stream_ * pass_.time + position - past
                                            : ~(pass_.lanes[stream_] * past + position);
        const Number *found = input_row<Number>(pass_, source);
        if (found != nullptr && layer.inputs % 4 == 0)
            return load_four(found + channel);
        Floats values{};
        for (int i = 0; found != nullptr && i < 4 && channel + i < layer.inputs; ++i)
            values.at[i] = Numbers::value(found[channel + i]);
        return values;
    }

    GGTTS_ANYWHERE float *sum_of(int row, int output, int part) const {
        return sums_ + (output * narrow_parts + part) * narrow_rows + row;
    }

    // Of every few inputs.
    GGTTS_ANYWHERE float sum(int row, int output, int part) const {
        const Layer &layer = pass_.layer;
        const int width = layer.narrow_width();
        Floats sums{};
        for (int tap = 0; tap < layer.taps; ++tap) {
            const float *inputs = inputs_ + (row + tap * layer.dilation) * stride();
            const float *weights = weights_ + (output * layer.taps + tap) * width;
#pragma unroll 3
            for (int channel = part * 4; channel < width; channel += narrow_parts * 4) {
                const Floats x = *reinterpret_cast<const Floats *>(inputs + channel);
                const Floats w = *reinterpret_cast<const Floats *>(weights + channel);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    sums.at[i] = fmaf(x.at[i], w.at[i], sums.at[i]);
            }
        }
        return (sums.at[0] + sums.at[1]) + (sums.at[2] + sums.at[3]);
    }

    GGTTS_ANYWHERE void leave(int row, int output, float value) const {
        const Layer &layer = pass_.layer;
        const int64_t at =
            (static_cast<int64_t>(stream_) * pass_.time + first_ + row) * layer.outputs + output;
        value += layer.bias[output];
        if (pass_.trunk != nullptr)
            value = pass_.trunk[at] + value;
        if (pass_.raw != nullptr)
            pass_.raw[at] = value;
        if (layer.frequency != nullptr)
            value = snake(value, layer.frequency[output], layer.magnitude[output]);
        value = layer.limited ? limit(value) : value;
        if (pass_.active != nullptr)
            static_cast<Number *>(pass_.active)[at] = Numbers::of(value);
        if (pass_.results != nullptr)
            pass_.results[at] = value;
    }

    // What is no number stays so.
    static GGTTS_ANYWHERE float limit(float value) {
        return value < -1.0F ? -1.0F : value > 1.0F ? 1.0F : value;
    }

    static constexpr int words_together = 4;

    const Block &block_;
    const Pass &pass_;
    float *inputs_, *weights_, *sums_;
    int stream_, first_, count_;
};

// Moves the memory of one stream on: its last inputs, one channel for each thread. With few new ones the
// older move to the front; a thread reads some before it writes them, and in their order.
template <class Number>
GGTTS_ANYWHERE void keep(const Keeping &keeping, int stream, int lane, int channel) {
    constexpr int together = 32;
    Number *memory = static_cast<Number *>(keeping.memory) +
                     static_cast<int64_t>(lane) * keeping.past * keeping.inputs + channel;
    const Number *x = static_cast<const Number *>(keeping.x) +
                      static_cast<int64_t>(stream) * keeping.time * keeping.inputs + channel;
    for (int first = 0; first < keeping.past; first += together) {
        Number values[together];
#pragma unroll
        for (int i = 0; i < together; ++i) {
            const int position = first + i + keeping.time;  // in memory and x as one sequence
            if (first + i < keeping.past) {
                values[i] = position < keeping.past ? memory[position * keeping.inputs]
                                                    : x[(position - keeping.past) * keeping.inputs];
            }
        }
#pragma unroll
        for (int i = 0; i < together; ++i) {
            if (first + i < keeping.past)
                memory[(first + i) * keeping.inputs] = values[i];
        }
    }
}

}  // namespace ggtts::conv
