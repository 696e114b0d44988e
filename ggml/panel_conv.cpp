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
// So do these samples while panels pass.
constexpr int64_t samples_per_tile = 96;

// Packing should serve many samples, and what was packed still be in a cache when they pass.
constexpr int64_t stored_samples = 4096;
constexpr size_t room_bytes = size_t{1} << 20;

// Threads with this many jobs each end at about the same time.
constexpr int64_t jobs_per_thread = 4;

// Less is not worth a call of the system.
constexpr size_t least_release = size_t{1} << 18;

size_t value_bytes(int type) {
    return ggml_type_size(static_cast<ggml_type>(type));
}

// The bias of a transposed convolution for each of the samples that a stride makes; zeros without one.
std::vector<float> repeated(const float *bias, const TransposedShape &shape) {
    std::vector<float> all(static_cast<size_t>(shape.stride * shape.outputs), 0.0f);
    for (int64_t phase = 0; bias != nullptr && phase < shape.stride; ++phase) {
        std::copy_n(bias, shape.outputs, all.begin() + phase * shape.outputs);
    }
    return all;
}

}  // namespace

ConvShape direct_shape(const TransposedShape &shape) {
    if (shape.stride < 1 || shape.kernel % shape.stride != 0) {
        throw std::invalid_argument("a kernel of length " + std::to_string(shape.kernel) +
                                    " is not a multiple of the stride " + std::to_string(shape.stride));
    }
    return {shape.kernel / shape.stride, shape.stride * shape.outputs, shape.inputs};
}

bool StoredWeights::can_be(int type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

void StoredWeights::check() const {
    if (!can_be(type)) {
        throw std::invalid_argument(std::string("weights of type ") +
                                    ggml_type_name(static_cast<ggml_type>(type)) +
                                    " are no floats to be used as they are");
    }
}

void StoredWeights::done_with(int64_t count) const {
    if (release) {
        release(values, static_cast<size_t>(count) * value_bytes(type));
    }
}

void StoredWeights::read(int64_t first, int64_t count, float *out) const {
    if (type == GGML_TYPE_F32) {
        std::copy_n(static_cast<const float *>(values) + first, count, out);
    } else if (type == GGML_TYPE_F16) {
        ggml_fp16_to_fp32_row(static_cast<const ggml_fp16_t *>(values) + first, out, count);
    } else {
        ggml_bf16_to_fp32_row(static_cast<const ggml_bf16_t *>(values) + first, out, count);
    }
}

StoredPanel StoredWeights::panel(int64_t first, int64_t outputs, int64_t inputs, int64_t taps) const {
    const size_t begin = static_cast<size_t>(first * inputs * taps) * value_bytes(type);
    return {static_cast<const uint8_t *>(values) + begin, type, inputs * taps, outputs, inputs, taps};
}

PanelConv::PanelConv(const ConvShape &shape, const float *bias, const std::string &instruction_set)
    : ConvPlan(shape),
      kernels_(vector_kernels(instruction_set)),
      panels_of_group_((shape.outputs + panel_width() - 1) / panel_width()),
      steps_(steps()),
      bias_(static_cast<size_t>(panels() * panel_width()), 0.0f) {
    for (int64_t index = 0; bias != nullptr && index < panels(); ++index) {
        const Panel panel = panel_at(index);
        std::copy_n(bias + panel.first, panel.width, bias_.begin() + index * panel_width());
    }
}

std::vector<PanelConv::Step> PanelConv::steps() const {
    const ConvShape &conv = shape();
    // Without gaps the taps of an output are neighbours, and all its inputs one run.
    const bool in_a_row = conv.dilation == 1 && conv.groups == 1;
    const int64_t runs = in_a_row ? 1 : conv.taps, length = conv.inputs * conv.taps / runs;
    std::vector<Step> steps;
    for (int64_t run = 0; run < runs; ++run) {
        for (int64_t i = 0; i < length; i += depth_per_step) {
            steps.push_back({run * conv.dilation * conv.all_inputs() + i,
                             std::min(depth_per_step, length - i), (run * length + i) * panel_width()});
        }
    }
    return steps;
}

PanelConv::Panel PanelConv::panel_at(int64_t index) const {
    const int64_t group = index / panels_of_group_, begin = index % panels_of_group_ * panel_width();
    return {index, group, group * shape().outputs + begin, std::min(panel_width(), shape().outputs - begin)};
}

// Few samples are not cut, unless there are too few panels to keep all threads busy.
int64_t PanelConv::samples_of_job(int64_t samples, int threads) const {
    const int64_t pieces = (jobs_per_thread * threads + panels() - 1) / panels();
    return std::clamp((samples + pieces - 1) / pieces, samples_per_tile, samples_per_job());
}

void PanelConv::compute(const ConvOperands &operands, int thread, int threads) const {
    const int64_t samples = operands.all_samples(), at_once = samples_of_job(samples, threads);
    const int64_t pieces = (samples + at_once - 1) / at_once;
    const auto [begin, end] = share(pieces * panels(), thread, threads);
    if (begin == end) {
        return;
    }
    const int64_t most_panels = panels_in_room() == 0 ? panels() : panels_in_room();
    const PanelMemory room(static_cast<size_t>(panels_in_room() * panel_values()));
    for (int64_t job = begin; job < end;) {
        const int64_t first = job / panels() * at_once, panel = job % panels();
        const int64_t count = std::min({most_panels, end - job, panels() - panel});
        compute_run(operands, {first, std::min(at_once, samples - first), panel, count}, room.get());
        job += count;
    }
    const bool saw_all = end - begin >= panels() || begin % panels() > (end - 1) % panels();
    const int64_t first_output = saw_all ? 0 : panel_at(begin % panels()).first;
    const Panel last = panel_at(saw_all ? panels() - 1 : (end - 1) % panels());
    done_with(first_output, last.first + last.width - first_output);
}

void PanelConv::compute_run(const ConvOperands &operands, const Run &run, float *room) const {
    std::vector<std::pair<Panel, const float *>> panels;
    for (int64_t i = 0; i < run.panels; ++i) {
        const Panel panel = panel_at(run.first_panel + i);
        panels.emplace_back(panel, values_of(panel, room + i * panel_values()));
    }
    for (int64_t t = 0; t < run.samples; t += samples_per_tile) {
        const int64_t first = run.first_sample + t, end = first + std::min(samples_per_tile, run.samples - t);
        for (const auto &[panel, values] : panels) {
            for (int64_t next = first; next < end;) {
                const LaneSamples tile = LaneSamples::at(operands, next, end, shape().stride);
                compute_panel(operands, tile, panel, values);
                next += tile.count;
            }
        }
    }
}

void PanelConv::accumulate(const float *x, int64_t samples, const Panel &panel, const float *values,
                           const float *added, float *y, int64_t stride) const {
    const int64_t x_stride = shape().stride * shape().all_inputs();
    for (size_t step = 0; step < steps_.size(); ++step) {
        const auto &[offset, depth, weights] = steps_[step];
        const float *start = step == 0 ? bias_of(panel) : nullptr;
        const bool last = step + 1 == steps_.size();
        for (int64_t t = 0; t < samples; t += kernels_.max_rows) {
            const float *rest = last && added != nullptr ? added + t * stride : nullptr;
            kernels_.multiply_panel({x + t * x_stride + offset, x_stride, values + weights, depth, start,
                                     rest, y + t * stride, stride},
                                    std::min(kernels_.max_rows, samples - t));
        }
    }
}

void PanelConv::compute_panel(const ConvOperands &operands, const LaneSamples &tile, const Panel &panel,
                              const float *values) const {
    const int64_t outputs = shape().all_outputs(), samples = tile.count;
    const int64_t place = tile.first * outputs + panel.first;
    const float *x = operands.x + tile.first_read * shape().all_inputs() + panel.group * shape().inputs;
    const float *residual = operands.residual == nullptr ? nullptr : operands.residual + place;
    float *y = operands.y + place;
    if (panel.width == panel_width()) {
        accumulate(x, samples, panel, values, residual, y, outputs);
        return;
    }
    const PanelMemory sums(static_cast<size_t>(samples * panel_width()));
    accumulate(x, samples, panel, values, nullptr, sums.get(), panel_width());
    for (int64_t t = 0; t < samples; ++t) {
        for (int64_t i = 0; i < panel.width; ++i) {
            const float added = residual == nullptr ? 0.0f : residual[t * outputs + i];
            y[t * outputs + i] = sums.get()[t * panel_width() + i] + added;
        }
    }
}

void PanelConv::pack(const StoredWeights &weights, const Panel &panel, float *values) const {
    kernels_.pack_panel(weights.panel(panel.first, panel.width, shape().inputs, shape().taps), values);
}

PackedConv::PackedConv(const ConvShape &shape, const float *bias, const std::string &instruction_set)
    : PanelConv(shape, bias, instruction_set), values_(static_cast<size_t>(panels() * panel_values())) {
    if (shape.all_outputs() < panels() * panel_width()) {
        std::fill_n(values_.get(), panels() * panel_values(), 0.0f);
    }
}

// Where the weight of an output, counted over all groups, is.
float *PackedConv::column(int64_t tap, int64_t input, int64_t output) {
    const int64_t of_group = panels() / shape().groups, inside = output % shape().outputs;
    const int64_t panel = output / shape().outputs * of_group + inside / panel_width();
    return values_.get() + panel * panel_values() + (tap * shape().inputs + input) * panel_width() +
           inside % panel_width();
}

PackedConv::PackedConv(const ConvShape &shape, const float *matrices, const float *bias,
                       const std::string &instruction_set)
    : PackedConv(shape, bias, instruction_set) {
    // Row by row of the source: reading it across its rows would miss the cache at every step.
    for (int64_t tap = 0; tap < shape.taps; ++tap) {
        for (int64_t output = 0; output < shape.all_outputs(); ++output, matrices += shape.inputs) {
            float *values = column(tap, 0, output);
            for (int64_t input = 0; input < shape.inputs; ++input) {
                values[input * panel_width()] = matrices[input];
            }
        }
    }
}

PackedConv::PackedConv(const ConvShape &shape, const StoredWeights &weights, const float *bias,
                       const std::string &instruction_set)
    : PanelConv(shape, bias, instruction_set), values_(static_cast<size_t>(panels() * panel_values())) {
    weights.check();
    share_out(panels(), weights.threads, [&](int, int64_t begin, int64_t end) {
        for (int64_t index = begin; index < end; ++index) {
            pack(weights, panel_at(index), values_.get() + index * panel_values());
        }
    });
    weights.done_with(shape.all_outputs() * shape.inputs * shape.taps);
}

PackedConv::PackedConv(const TransposedShape &shape, const StoredWeights &weights, const float *bias,
                       const std::string &instruction_set)
    : PackedConv(direct_shape(shape), repeated(bias, shape).data(), instruction_set) {
    weights.check();
    const int64_t room = panel_width() * shape.kernel;
    const PanelMemory kernels(static_cast<size_t>(weights.threads * room));
    share_out(shape.inputs, weights.threads, [&](int thread, int64_t begin, int64_t end) {
        for (int64_t input = begin; input < end; ++input) {
            for (int64_t output = 0; output < shape.outputs; output += panel_width()) {
                const int64_t count = std::min(panel_width(), shape.outputs - output);
                float *some = kernels.get() + thread * room;
                this->kernels().pack_panel(
                    weights.panel(input * shape.outputs + output, count, 1, shape.kernel), some);
                pack_transposed(shape, some, input, output, count);
            }
        }
    });
    weights.done_with(shape.inputs * shape.outputs * shape.kernel);
}

// The weights [kernel, panel_width] of some outputs.
void PackedConv::pack_transposed(const TransposedShape &shape, const float *kernels, int64_t input,
                                 int64_t first, int64_t outputs) {
    for (int64_t place = 0; place < shape.kernel; ++place, kernels += panel_width()) {
        const int64_t tap = this->shape().taps - 1 - place / shape.stride;
        const int64_t begin = place % shape.stride * shape.outputs + first;
        // Neighbours up to the end of a panel.
        for (int64_t done = 0, count; done < outputs; done += count) {
            count = std::min(panel_width() - (begin + done) % panel_width(), outputs - done);
            std::copy_n(kernels + done, count, column(tap, input, begin + done));
        }
    }
}

const float *PackedConv::values_of(const Panel &panel, float * /*room*/) const {
    return values_.get() + panel.index * panel_values();
}

int64_t PackedConv::samples_per_job() const {
    return samples_per_tile;
}

StoredConv::StoredConv(const ConvShape &shape, StoredWeights weights, const float *bias,
                       const std::string &instruction_set)
    : PanelConv(shape, bias, instruction_set), weights_(std::move(weights)) {
    weights_.check();
}

const float *StoredConv::values_of(const Panel &panel, float *room) const {
    pack(weights_, panel, room);
    return room;
}

int64_t StoredConv::panels_in_room() const {
    const auto panel_bytes = static_cast<size_t>(panel_values()) * sizeof(float);
    return std::clamp<int64_t>(static_cast<int64_t>(room_bytes / panel_bytes), 1, panels());
}

int64_t StoredConv::samples_per_job() const {
    return stored_samples;
}

void StoredConv::done_with(int64_t first, int64_t outputs) const {
    const size_t row_bytes = static_cast<size_t>(shape().inputs * shape().taps) * value_bytes(weights_.type);
    const size_t bytes = static_cast<size_t>(outputs) * row_bytes;
    if (weights_.release && bytes >= least_release) {
        weights_.release(
            static_cast<const uint8_t *>(weights_.values) + static_cast<size_t>(first) * row_bytes, bytes);
    }
}

}  // namespace ggtts::kernels
