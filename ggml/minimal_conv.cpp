#include "minimal_conv.hpp"

#include <algorithm>
#include <array>

#include "minimal_filter.hpp"
#include "work_share.hpp"

namespace ggtts::kernels {
namespace {

using namespace minimal_filter;

// Transformed inputs of a block: panels pass by them, so they should stay in the second-level cache.
constexpr int64_t block_bytes = int64_t{1} << 20;
// But weights that fill the third should not pass by fewer rows than this.
constexpr int64_t fewest_rows = 144;

// Threads with this many jobs each end at about the same time.
constexpr int64_t jobs_per_thread = 4;

// No panel is wider.
constexpr int64_t widest = 64;

// How many parts of at most so many there are.
int64_t parts(int64_t count, int64_t most) {
    return (count + most - 1) / most;
}

// A part of the weights is a half of the kernels at a point, and they come in this order. At infinity there
// is but the fourth tap of a half, which the second half may lack.
int64_t weight_parts(const ConvShape &shape) {
    return points * halves - (shape.taps < halves * taps ? 1 : 0);
}

}  // namespace

// Neighbouring tiles of one period. Row t * d + i of them is sample i of a row of d samples, of tile t.
struct MinimalConv::Run {
    int64_t dilation, tiles;
    int64_t first_sample, samples;  // what they are to compute, counted over all lanes
    int64_t first_read, readable;   // the rows of x that are there for them
    int64_t first_product;          // of the block
    int64_t first_input;            // of the block

    // How much of a row of samples the last tile needs.
    int64_t last() const { return std::min(dilation, samples - (tiles - 1) * outputs * dilation); }
    int64_t products() const { return (tiles - 1) * dilation + last(); }
    // The second half reads one tile more.
    int64_t inputs() const { return products() + dilation; }
};

struct MinimalConv::Block {
    std::vector<Run> runs;

    int64_t products() const { return runs.back().first_product + runs.back().products(); }
    int64_t inputs() const { return runs.back().first_input + runs.back().inputs(); }
};

// All tiles of all lanes, numbered one after the other.
class MinimalConv::Tiles {
public:
    Tiles(const ConvOperands &operands, const ConvShape &shape, int64_t period)
        : operands_(operands),
          dilation_(shape.dilation),
          beyond_(shape.reach() - 1),
          period_(period == 0 ? operands.samples : period),
          of_period_(tiles_of(period_)),
          of_lane_(operands.samples / period_ * of_period_ + tiles_of(operands.samples % period_)) {}

    int64_t count() const { return operands_.lanes * of_lane_; }

    Block block(int64_t first, int64_t end) const {
        Block block;
        while (first < end) {
            Run run = run_at(first, end);
            if (!block.runs.empty()) {
                run.first_product = block.products();
                run.first_input = block.inputs();
            }
            first += run.tiles;
            block.runs.push_back(run);
        }
        return block;
    }

private:
    int64_t tiles_of(int64_t samples) const { return parts(samples, outputs * dilation_); }

    // The beginning of the tiles [first, end), as far as they are of one period.
    Run run_at(int64_t first, int64_t end) const {
        const int64_t lane = first / of_lane_, in_lane = first % of_lane_;
        const int64_t tile = in_lane % of_period_, lane_end = (lane + 1) * of_lane_;
        const int64_t tiles = std::min({end - first, of_period_ - tile, lane_end - first});
        const int64_t begin = in_lane / of_period_ * period_, inside = tile * outputs * dilation_;
        const int64_t to_end = std::min(period_, operands_.samples - begin) - inside;
        return {dilation_,
                tiles,
                lane * operands_.samples + begin + inside,
                std::min(tiles * outputs * dilation_, to_end),
                lane * operands_.read + begin + inside,
                to_end + beyond_,
                0,
                0};
    }

    const ConvOperands &operands_;
    int64_t dilation_, beyond_, period_, of_period_, of_lane_;
};

bool MinimalConv::pays(const ConvShape &shape, int64_t period) {
    const bool fits =
        shape.stride == 1 && shape.groups == 1 && shape.taps > taps && shape.taps <= halves * taps;
    // Tiles that reach far over the end of a period are computed in vain, and so are transforms of few
    // channels.
    const int64_t of_tile = outputs * shape.dilation, computed = parts(period, of_tile) * of_tile;
    return fits && 4 * computed <= 5 * period && std::min(shape.inputs, shape.outputs) >= 32;
}

MinimalConv::MinimalConv(const ConvShape &shape, const StoredWeights &weights, const float *bias,
                         int64_t period, const std::string &instruction_set)
    : ConvPlan(shape),
      kernels_(vector_kernels(instruction_set)),
      period_(period),
      panels_(parts(shape.outputs, kernels_.panel_width)),
      values_(static_cast<size_t>(panels_ * weight_parts(shape) * shape.inputs * kernels_.panel_width)),
      bias_(static_cast<size_t>(panels_ * kernels_.panel_width), 0.0f),
      zeros_(static_cast<size_t>(shape.inputs), 0.0f) {
    weights.check();
    const int64_t room = shape.taps * shape.inputs * kernels_.panel_width;
    const PanelMemory kernels(static_cast<size_t>(weights.threads * room));
    share_out(panels_, weights.threads, [&](int thread, int64_t begin, int64_t end) {
        for (int64_t panel = begin; panel < end; ++panel) {
            const int64_t first = panel * kernels_.panel_width;
            const int64_t present = std::min(kernels_.panel_width, shape.outputs - first);
            float *direct = kernels.get() + thread * room;
            kernels_.pack_panel(weights.panel(first, present, shape.inputs, shape.taps), direct);
            pack(direct, panel);
        }
    });
    weights.done_with(shape.outputs * shape.inputs * shape.taps);
    if (bias != nullptr) {
        std::copy_n(bias, shape.outputs, bias_.begin());
    }
}

float *MinimalConv::weights_at(int64_t panel, int64_t part) const {
    return values_.get() + (panel * weight_parts(shape()) + part) * shape().inputs * kernels_.panel_width;
}

// The kernels [taps, inputs, outputs of a panel].
void MinimalConv::pack(const float *kernels, int64_t panel) {
    static constexpr auto matrix = kernel_matrix();
    const int64_t width = kernels_.panel_width, of_tap = shape().inputs * width;
    for (int64_t i = 0; i < shape().inputs; ++i, kernels += width) {
        for (int64_t part = 0; part < weight_parts(shape()); ++part) {
            const auto &powers = matrix[part / halves];
            const int64_t first = part % halves * taps;
            const int64_t present = std::min<int64_t>(taps, shape().taps - first);
            std::array<double, widest> sums{};
            for (int64_t tap = 0; tap < present; ++tap) {
                const float *values = kernels + (first + tap) * of_tap;
                for (int64_t output = 0; output < width; ++output) {
                    sums[output] += powers[tap] * values[output];
                }
            }
            std::copy_n(sums.data(), width, weights_at(panel, part) + i * width);
        }
    }
}

int64_t MinimalConv::blocks_of(const Tiles &tiles, int threads) const {
    const auto row_bytes = static_cast<int64_t>(sizeof(float)) * points * shape().inputs;
    const int64_t rows = tiles.count() * shape().dilation;
    const int64_t at_once = std::max(fewest_rows, block_bytes / row_bytes);
    const int64_t wanted = std::max(parts(rows, at_once), parts(jobs_per_thread * threads, panels_));
    // Weights are not read for fewer rows than the kernels take at once.
    const int64_t blocks = std::min(wanted, std::max<int64_t>(1, rows / kernels_.max_rows));
    // Threads with whole blocks each do not transform the same inputs.
    return blocks < threads ? blocks : std::min(parts(blocks, threads) * threads, tiles.count());
}

void MinimalConv::compute(const ConvOperands &operands, int thread, int threads) const {
    const Tiles tiles(operands, shape(), period_);
    const int64_t blocks = blocks_of(tiles, threads);
    const auto [begin, end] = share(blocks * panels_, thread, threads);
    for (int64_t job = begin; job < end;) {
        const int64_t index = job / panels_, last = std::min(end, (index + 1) * panels_);
        const auto [first_tile, end_tile] =
            share(tiles.count(), static_cast<int>(index), static_cast<int>(blocks));
        const Block block = tiles.block(first_tile, end_tile);
        const PanelMemory inputs(static_cast<size_t>(points * block.inputs() * shape().inputs));
        const PanelMemory products(static_cast<size_t>(points * block.products() * kernels_.panel_width));
        transform(operands, block, inputs.get());
        for (; job < last; ++job) {
            multiply(block, inputs.get(), job % panels_, products.get());
            finish(operands, block, job % panels_, products.get());
        }
    }
}

// To [points, rows of the block, inputs].
void MinimalConv::transform(const ConvOperands &operands, const Block &block, float *to) const {
    const int64_t channels = shape().inputs, dilation = shape().dilation;
    for (const Run &run : block.runs) {
        for (int64_t row = 0; row < run.inputs(); ++row) {
            const int64_t first = row / dilation * outputs * dilation + row % dilation;
            std::array<const float *, minimal_filter::inputs> rows;
            for (int64_t i = 0; i < minimal_filter::inputs; ++i) {
                const int64_t read = first + i * dilation;
                rows[i] =
                    read < run.readable ? operands.x + (run.first_read + read) * channels : zeros_.data();
            }
            kernels_.filter_inputs(rows.data(), channels, to + (run.first_input + row) * channels,
                                   block.inputs() * channels);
        }
    }
}

// To [points, rows of the block, outputs of a panel].
void MinimalConv::multiply(const Block &block, const float *inputs, int64_t panel, float *products) const {
    const int64_t channels = shape().inputs, width = kernels_.panel_width;
    for (int64_t point = 0; point < points; ++point) {
        const float *weights = weights_at(panel, point * halves);
        const bool both = point * halves + 1 < weight_parts(shape());
        for (const Run &run : block.runs) {
            const float *x = inputs + (point * block.inputs() + run.first_input) * channels;
            float *y = products + (point * block.products() + run.first_product) * width;
            const int64_t rows = run.products(), pieces = parts(rows, kernels_.max_rows);
            for (int64_t piece = 0; piece < pieces; ++piece) {
                const auto [first, end] = share(rows, static_cast<int>(piece), static_cast<int>(pieces));
                kernels_.multiply_runs(x + first * channels, channels, both ? run.dilation * channels : 0,
                                       weights, channels, y + first * width, width, end - first);
            }
        }
    }
}

void MinimalConv::finish(const ConvOperands &operands, const Block &block, int64_t panel,
                         const float *products) const {
    const int64_t dilation = shape().dilation;
    for (const Run &run : block.runs) {
        for (int64_t row = 0; row < run.products(); ++row) {
            const int64_t sample = row / dilation * outputs * dilation + row % dilation;
            finish_tile(operands, run.first_sample + sample, run.samples - sample, panel,
                        products + (run.first_product + row) * kernels_.panel_width,
                        block.products() * kernels_.panel_width);
        }
    }
}

// The outputs of one tile of an undilated row; `samples` are left from the first of them to the end.
void MinimalConv::finish_tile(const ConvOperands &operands, int64_t sample, int64_t samples, int64_t panel,
                              const float *products, int64_t stride) const {
    const int64_t width = kernels_.panel_width, channels = shape().outputs, first = panel * width;
    const int64_t present = std::min(width, channels - first);
    std::array<float, outputs * widest> aside;
    std::array<float *, outputs> rows;
    const auto place = [&](int64_t row) { return (sample + row * shape().dilation) * channels + first; };
    const auto wanted = [&](int64_t row) { return row * shape().dilation < samples; };
    for (int64_t row = 0; row < outputs; ++row) {
        const bool in_place = wanted(row) && present == width;
        rows[row] = in_place ? operands.y + place(row) : aside.data() + row * widest;
    }
    kernels_.filter_outputs(products, stride, bias_.data() + first, rows.data());
    for (int64_t row = 0; row < outputs && wanted(row); ++row) {
        float *y = operands.y + place(row);
        if (present < width) {
            std::copy_n(rows[row], present, y);
        }
        for (int64_t i = 0; operands.residual != nullptr && i < present; ++i) {
            y[i] += operands.residual[place(row) + i];
        }
    }
}

}  // namespace ggtts::kernels
