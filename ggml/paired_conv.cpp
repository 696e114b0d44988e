#include "paired_conv.hpp"

#include <algorithm>
#include <functional>

#include "work_share.hpp"

namespace ggtts::kernels {
namespace {

// Of differences and inputs: they should stay in the second-level cache while panels pass.
constexpr int64_t pairs_of_block = 48;

// Threads with this many jobs each end at about the same time.
constexpr int64_t jobs_per_thread = 4;

constexpr int64_t planes = 3;  // x - y, y, z - y

int64_t pairs_of(int64_t samples) {
    return parts(samples, 2);
}

}  // namespace

bool PairedConv::suits(const ConvShape &shape, int64_t period) {
    return shape.taps == 2 && shape.stride == 1 && shape.dilation == 1 && shape.groups == 1 && period > 0 &&
           period % 2 == 0;
}

void PairedConv::compute(const ConvOperands &operands, int thread, int threads) const {
    const int64_t pairs = operands.lanes * pairs_of(operands.samples);
    const int64_t wanted = std::max(parts(pairs, pairs_of_block), parts(jobs_per_thread * threads, panels()));
    const int64_t blocks = std::min(wanted, pairs);
    const auto [begin, end] = share(blocks * panels(), thread, threads);
    for (int64_t job = begin; job < end;) {
        const int64_t index = job / panels(), last = std::min(end, (index + 1) * panels());
        const auto [first, after] = share(pairs, static_cast<int>(index), static_cast<int>(blocks));
        const Block block{first, after - first};
        const PanelMemory inputs(static_cast<size_t>(planes * block.count * row()));
        const PanelMemory products(static_cast<size_t>(2 * block.count * panel_width()));
        transform(operands, block, inputs.get());
        for (; job < last; ++job) {
            multiply(block, inputs.get(), job % panels(), products.get());
            finish(operands, block, job % panels(), products.get());
        }
    }
}

// To [planes, pairs of the block, row()]. A pair that is cut short needs no third input.
void PairedConv::transform(const ConvOperands &operands, const Block &block, float *to) const {
    const int64_t channels = shape().inputs, plane = block.count * row(),
                  of_lane = pairs_of(operands.samples);
    for (int64_t pair = 0; pair < block.count; ++pair, to += row()) {
        const int64_t lane = (block.first + pair) / of_lane, first = (block.first + pair) % of_lane * 2;
        const float *x = operands.x + (lane * operands.read + first) * channels, *middle = x + channels;
        std::transform(x, middle, middle, to, std::minus<>());
        std::copy_n(middle, channels, to + plane);
        if (first + 2 < operands.read) {
            std::transform(middle + channels, middle + 2 * channels, middle, to + 2 * plane, std::minus<>());
        } else {
            std::fill_n(to + 2 * plane, channels, 0.0f);
        }
    }
}

// To [two outputs, pairs of the block, outputs of a panel].
void PairedConv::multiply(const Block &block, const float *inputs, int64_t panel, float *products) const {
    const int64_t channels = shape().inputs, plane = block.count * row(), width = panel_width();
    const float *weights = values_of(panel_at(panel), nullptr);
    const int64_t pieces = parts(block.count, kernels().max_rows);
    for (int64_t piece = 0; piece < pieces; ++piece) {
        const auto [first, end] = share(block.count, static_cast<int>(piece), static_cast<int>(pieces));
        const float *x = inputs + first * row();
        float *y = products + first * width;
        kernels().multiply_pairs({x, x + plane, x + 2 * plane, row(), weights, channels,
                                  weights + channels * width, y, y + block.count * width, width},
                                 end - first);
    }
}

void PairedConv::finish(const ConvOperands &operands, const Block &block, int64_t panel,
                        const float *products) const {
    const Panel outputs = panel_at(panel);
    const float *bias = bias_of(outputs);
    const int64_t of_lane = pairs_of(operands.samples), all = shape().outputs;
    for (int64_t pair = 0; pair < block.count; ++pair) {
        const int64_t lane = (block.first + pair) / of_lane, first = (block.first + pair) % of_lane * 2;
        for (int64_t sample = first; sample < std::min(first + 2, operands.samples); ++sample) {
            const float *from = products + ((sample - first) * block.count + pair) * panel_width();
            const int64_t place = (lane * operands.samples + sample) * all + outputs.first;
            float *y = operands.y + place;
            std::transform(from, from + outputs.width, bias, y, std::plus<>());
            if (operands.residual != nullptr) {
                std::transform(y, y + outputs.width, operands.residual + place, y, std::plus<>());
            }
        }
    }
}

}  // namespace ggtts::kernels
