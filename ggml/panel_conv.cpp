#include "panel_conv.hpp"

#include <ggml.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "work_share.hpp"

namespace ggtts::kernels {
namespace {

// A panel of this many inputs (64 KB with 32 outputs) stays in the second-level cache while samples pass.
constexpr int64_t depth_per_step = 512;
constexpr int64_t packed_samples = 96;

// Packing should serve many samples, and what was packed still be in the cache when the last of them pass.
constexpr int64_t stored_depth = 1024;
constexpr int64_t stored_samples = 1020;
// Shorter runs of inputs keep the kernels from their pace.
constexpr int64_t fewest_inputs = 16;
constexpr int64_t fewest_taps = 16;

// Threads with this many jobs each end at about the same time.
constexpr int64_t jobs_per_thread = 4;

// Less is not worth a call of the system.
constexpr size_t least_release = size_t{1} << 18;

}  // namespace

PanelConv::PanelConv(const ConvShape &shape, const float *bias, const std::string &instruction_set)
    : ConvPlan(shape), kernels_(vector_kernels(instruction_set)) {
    bias_.assign(static_cast<size_t>(shape.groups * panels() * panel_width()), 0.0f);
    for (int64_t group = 0; bias != nullptr && group < shape.groups; ++group) {
        std::copy_n(bias + group * shape.outputs, shape.outputs,
                    bias_.begin() + group * panels() * panel_width());
    }
}

PanelConv::Block PanelConv::make_block(int64_t first_input, int64_t inputs, int64_t first_tap,
                                       int64_t taps) const {
    const ConvShape &conv = shape();
    Block block{first_input, inputs, first_tap, taps, {}};
    // Without gaps the taps of an output are neighbours, and all its inputs one run.
    const bool in_a_row = conv.dilation == 1 && conv.groups == 1 && inputs == conv.inputs;
    const int64_t runs = in_a_row ? 1 : taps, length = in_a_row ? inputs * taps : inputs;
    for (int64_t run = 0; run < runs; ++run) {
        const int64_t begin = (first_tap + run) * conv.dilation * conv.all_inputs() + first_input;
        for (int64_t i = 0; i < length; i += depth_per_step) {
            block.steps.push_back(
                {begin + i, std::min(depth_per_step, length - i), (run * length + i) * panel_width()});
        }
    }
    return block;
}

void PanelConv::set_blocks(std::vector<Block> blocks, int64_t samples_at_once) {
    blocks_ = std::move(blocks);
    samples_at_once_ = samples_at_once;
}

PanelConv::Panel PanelConv::panel_at(int64_t index) const {
    const int64_t group = index / panels(), begin = index % panels() * panel_width();
    return {index, group, group * shape().outputs + begin, std::min(panel_width(), shape().outputs - begin)};
}

// Many samples are cut before the panels are shared; a few that would leave threads idle are cut too.
int64_t PanelConv::samples_per_job(int64_t samples, int threads) const {
    const int64_t all_panels = shape().groups * panels();
    const int64_t pieces = (jobs_per_thread * threads + all_panels - 1) / all_panels;
    return std::clamp((samples + pieces - 1) / pieces, packed_samples, samples_at_once_);
}

void PanelConv::compute(const ConvOperands &operands, int thread, int threads) const {
    const int64_t all_panels = shape().groups * panels();
    const int64_t at_once = samples_per_job(operands.samples, threads);
    const int64_t pieces = (operands.samples + at_once - 1) / at_once;
    const auto [begin, end] = share(pieces * all_panels, thread, threads);
    if (begin == end) {
        return;
    }
    const PanelMemory room(static_cast<size_t>(this->room()));
    for (int64_t job = begin; job < end; ++job) {
        const int64_t first = job / all_panels * at_once;
        compute_panel(operands, first, std::min(at_once, operands.samples - first),
                      panel_at(job % all_panels), room.get());
    }
    const bool saw_all = end - begin >= all_panels || begin % all_panels > (end - 1) % all_panels;
    const int64_t first_output = saw_all ? 0 : panel_at(begin % all_panels).first;
    const Panel last = panel_at(saw_all ? all_panels - 1 : (end - 1) % all_panels);
    done_with(first_output, last.first + last.width - first_output);
}

void PanelConv::accumulate(const float *x, int64_t samples, const Panel &panel, float *room, float *sums,
                           int64_t stride) const {
    const float *bias = bias_.data() + panel.index * panel_width();
    for (int64_t t = 0; t < samples; ++t) {
        std::copy_n(bias, panel_width(), sums + t * stride);
    }
    const int64_t x_stride = shape().stride * shape().all_inputs();
    for (const Block &block : blocks_) {
        const float *weights = weights_of(panel, block, room);
        for (const Step &step : block.steps) {
            for (int64_t t = 0; t < samples; t += kernels_.max_rows) {
                kernels_.multiply_panel(x + t * x_stride + step.offset, x_stride, weights + step.weights,
                                        step.depth, sums + t * stride, stride,
                                        std::min(kernels_.max_rows, samples - t));
            }
        }
    }
}

void PanelConv::compute_panel(const ConvOperands &operands, int64_t first, int64_t samples,
                              const Panel &panel, float *room) const {
    const int64_t outputs = shape().all_outputs();
    const float *x =
        operands.x + first * shape().stride * shape().all_inputs() + panel.group * shape().inputs;
    float *y = operands.y + first * outputs + panel.first;
    if (panel.width == panel_width()) {
        accumulate(x, samples, panel, room, y, outputs);
    } else {
        const PanelMemory sums(static_cast<size_t>(samples * panel_width()));
        accumulate(x, samples, panel, room, sums.get(), panel_width());
        for (int64_t t = 0; t < samples; ++t) {
            std::copy_n(sums.get() + t * panel_width(), panel.width, y + t * outputs);
        }
    }
    if (operands.residual == nullptr) {
        return;
    }
    const float *residual = operands.residual + first * outputs + panel.first;
    for (int64_t t = 0; t < samples; ++t) {
        for (int64_t i = 0; i < panel.width; ++i) {
            y[t * outputs + i] += residual[t * outputs + i];
        }
    }
}

PackedConv::PackedConv(const ConvShape &shape, const float *matrices, const float *bias,
                       const std::string &instruction_set)
    : PanelConv(shape, bias, instruction_set),
      weights_(static_cast<size_t>(shape.groups * panels() * shape.taps * shape.inputs * panel_width())) {
    std::fill_n(weights_.get(), shape.groups * panels() * shape.taps * shape.inputs * panel_width(), 0.0f);
    // Row by row of the source: reading it across its rows would miss the cache at every step.
    for (int64_t tap = 0; tap < shape.taps; ++tap) {
        for (int64_t output = 0; output < shape.all_outputs(); ++output) {
            const float *row = matrices + (tap * shape.all_outputs() + output) * shape.inputs;
            const int64_t group = output / shape.outputs, inside = output % shape.outputs;
            const int64_t panel = group * panels() + inside / panel_width();
            float *column = weights_.get() + (panel * shape.taps + tap) * shape.inputs * panel_width() +
                            inside % panel_width();
            for (int64_t input = 0; input < shape.inputs; ++input) {
                column[input * panel_width()] = row[input];
            }
        }
    }
    set_blocks({make_block(0, shape.inputs, 0, shape.taps)}, packed_samples);
}

const float *PackedConv::weights_of(const Panel &panel, const Block &block, float * /*room*/) const {
    return weights_.get() + panel.index * block.taps * block.inputs * panel_width();
}

bool StoredWeights::can_be(int type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

StoredConv::StoredConv(const ConvShape &shape, StoredWeights weights, const float *bias,
                       const std::string &instruction_set)
    : PanelConv(shape, bias, instruction_set),
      weights_(std::move(weights)),
      value_bytes_(weights_.type == GGML_TYPE_F32 ? sizeof(float) : sizeof(ggml_fp16_t)) {
    if (!StoredWeights::can_be(weights_.type)) {
        throw std::invalid_argument(std::string("weights of type ") +
                                    ggml_type_name(static_cast<ggml_type>(weights_.type)) +
                                    " cannot stay where they are");
    }
    // Neighbouring taps and inputs lie together: of a short kernel all taps, of a long one all inputs.
    const bool is_long = shape.taps * fewest_inputs > stored_depth;
    const int64_t taps = is_long ? fewest_taps : shape.taps;
    const int64_t most_inputs = std::max(fewest_inputs, stored_depth / taps / fewest_inputs * fewest_inputs);
    const int64_t inputs = is_long || shape.inputs <= most_inputs ? shape.inputs : most_inputs;
    std::vector<Block> blocks;
    for (int64_t tap = 0; tap < shape.taps; tap += taps) {
        for (int64_t input = 0; input < shape.inputs; input += inputs) {
            blocks.push_back(make_block(input, std::min(inputs, shape.inputs - input), tap,
                                        std::min(taps, shape.taps - tap)));
        }
    }
    room_ = taps * inputs * panel_width();
    set_blocks(std::move(blocks), stored_samples);
}

const float *StoredConv::weights_of(const Panel &panel, const Block &block, float *room) const {
    const int64_t row = shape().inputs * shape().taps;
    const int64_t begin = panel.first * row + block.first_input * shape().taps + block.first_tap;
    const auto *values = static_cast<const uint8_t *>(weights_.values) + begin * value_bytes_;
    kernels().pack_panel({values, weights_.type, row, panel.width, block.inputs, block.taps, shape().taps},
                         room);
    return room;
}

void StoredConv::done_with(int64_t first, int64_t outputs) const {
    const size_t row_bytes = static_cast<size_t>(shape().inputs * shape().taps) * value_bytes_;
    const size_t bytes = static_cast<size_t>(outputs) * row_bytes;
    if (weights_.release && bytes >= least_release) {
        weights_.release(
            static_cast<const uint8_t *>(weights_.values) + static_cast<size_t>(first) * row_bytes, bytes);
    }
}

}  // namespace ggtts::kernels
