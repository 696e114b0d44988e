#include "conv1d.hpp"

#include <ggml.h>

#include <algorithm>
#include <stdexcept>

#include "vector_kernels.hpp"

namespace ggtts::kernels {
namespace {

// A panel of this many inputs (64 KB with 32 outputs) stays in the second-level cache while the samples of a
// tile pass.
constexpr int64_t depth_per_block = 512;
constexpr int64_t samples_per_tile = 96;

bool runs_here(const std::string &instruction_set) {
#ifdef GGTTS_X86_KERNELS
    if (instruction_set == "avx512") {
        return __builtin_cpu_supports("avx512f");
    }
    if (instruction_set == "avx2") {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
#elif defined(GGTTS_ARM_KERNELS)
    if (instruction_set == "neon") {
        return true;  // all 64-bit processors of ARM
    }
#endif
    return instruction_set == "generic";
}

// The share of `total` jobs that one thread does, a run of neighbours.
std::pair<int64_t, int64_t> share(int64_t total, int thread, int threads) {
    return {total * thread / threads, total * (thread + 1) / threads};
}

}  // namespace

std::vector<std::string> instruction_sets() {
    std::vector<std::string> present;
    for (const char *name : {"avx512", "avx2", "neon", "generic"}) {
        if (runs_here(name)) {
            present.emplace_back(name);
        }
    }
    return present;
}

const VectorKernels &vector_kernels(const std::string &instruction_set) {
    const auto present = instruction_sets();
    const std::string wanted = instruction_set == "best" ? present.front() : instruction_set;
    if (std::find(present.begin(), present.end(), wanted) == present.end()) {
        throw std::invalid_argument("this processor has no kernels called '" + instruction_set + "'");
    }
#ifdef GGTTS_X86_KERNELS
    if (wanted == "avx512") {
        return avx512_kernels;
    }
    if (wanted == "avx2") {
        return avx2_kernels;
    }
#elif defined(GGTTS_ARM_KERNELS)
    if (wanted == "neon") {
        return neon_kernels;
    }
#endif
    return generic_kernels;
}

const VectorKernels &best_vector_kernels() {
    static const VectorKernels &best = vector_kernels("best");
    return best;
}

ConvPlan::ConvPlan(const float *matrices, int64_t taps, int64_t outputs, int64_t inputs, const float *bias,
                   int64_t dilation, const std::string &instruction_set)
    : taps_(taps),
      outputs_(outputs),
      inputs_(inputs),
      dilation_(dilation),
      kernels_(&vector_kernels(instruction_set)) {
    if (taps < 1 || outputs < 1 || inputs < 1 || dilation < 1) {
        throw std::invalid_argument("a convolution without weights");
    }
    panel_width_ = kernels_->panel_width;
    bias_.assign(static_cast<size_t>(panels() * panel_width_), 0.0f);
    if (bias != nullptr) {
        std::copy(bias, bias + outputs, bias_.begin());
    }
    pack(matrices);
}

void ConvPlan::pack(const float *matrices) {
    if (is_narrow()) {
        weights_.reserve(static_cast<size_t>(outputs_ * taps_ * inputs_));
        for (int64_t output = 0; output < outputs_; ++output) {
            for (int64_t tap = 0; tap < taps_; ++tap) {
                const float *row = matrices + (tap * outputs_ + output) * inputs_;
                weights_.insert(weights_.end(), row, row + inputs_);
            }
        }
        return;
    }
    // Row by row of the source: reading it across its rows would miss the cache at every step.
    weights_.assign(static_cast<size_t>(panels() * taps_ * inputs_ * panel_width_), 0.0f);
    for (int64_t tap = 0; tap < taps_; ++tap) {
        for (int64_t output = 0; output < outputs_; ++output) {
            const float *row = matrices + (tap * outputs_ + output) * inputs_;
            const int64_t panel = output / panel_width_;
            float *column =
                weights_.data() + (panel * taps_ + tap) * inputs_ * panel_width_ + output % panel_width_;
            for (int64_t input = 0; input < inputs_; ++input) {
                column[input * panel_width_] = row[input];
            }
        }
    }
}

void ConvPlan::compute_by_dots(const float *x, float *y, int64_t first, int64_t samples) const {
    for (int64_t t = first; t < first + samples; ++t) {
        const float *weights = weights_.data();
        for (int64_t output = 0; output < outputs_; ++output) {
            float sum = bias_[static_cast<size_t>(output)];
            for (int64_t tap = 0; tap < taps_; ++tap, weights += inputs_) {
                sum = kernels_->dot(x + (t + tap * dilation_) * inputs_, weights, inputs_, sum);
            }
            y[t * outputs_ + output] = sum;
        }
    }
}

void ConvPlan::compute(const float *x, float *y, int64_t first, int64_t samples, int64_t first_panel,
                       int64_t last_panel) const {
    if (is_narrow()) {
        return compute_by_dots(x, y, first, samples);
    }
    std::vector<float> tile(static_cast<size_t>(samples * panel_width_));
    for (int64_t panel = first_panel; panel < last_panel; ++panel) {
        const float *bias = bias_.data() + panel * panel_width_;
        for (int64_t t = 0; t < samples; ++t) {
            std::copy(bias, bias + panel_width_, tile.begin() + t * panel_width_);
        }
        const float *weights = weights_.data() + panel * taps_ * inputs_ * panel_width_;
        for (int64_t tap = 0; tap < taps_; ++tap) {
            for (int64_t input = 0; input < inputs_; input += depth_per_block) {
                const int64_t depth = std::min(depth_per_block, inputs_ - input);
                const float *from = x + (first + tap * dilation_) * inputs_ + input;
                for (int64_t t = 0; t < samples; t += kernels_->max_rows) {
                    kernels_->multiply_panel(from + t * inputs_, inputs_, weights, depth,
                                             tile.data() + t * panel_width_, panel_width_,
                                             std::min(kernels_->max_rows, samples - t));
                }
                weights += depth * panel_width_;
            }
        }
        const int64_t outputs = std::min(panel_width_, outputs_ - panel * panel_width_);
        for (int64_t t = 0; t < samples; ++t) {
            const auto row = tile.begin() + t * panel_width_;
            std::copy(row, row + outputs, y + (first + t) * outputs_ + panel * panel_width_);
        }
    }
}

void conv1d(ggml_tensor *result, int thread, int threads, void *userdata) {
    const auto &plan = *static_cast<const ConvPlan *>(userdata);
    const auto *x = static_cast<const float *>(result->src[0]->data);
    auto *y = static_cast<float *>(result->data);
    const int64_t time = result->ne[1], tiles = (time + samples_per_tile - 1) / samples_per_tile;
    const auto tile_of = [&](int64_t tile) {
        const int64_t first = tile * samples_per_tile;
        return std::pair{first, std::min(samples_per_tile, time - first)};
    };
    if (tiles >= 2 * threads) {
        const auto [begin, end] = share(tiles, thread, threads);
        for (int64_t tile = begin; tile < end; ++tile) {
            const auto [first, samples] = tile_of(tile);
            plan.compute(x, y, first, samples, 0, plan.panels());
        }
        return;
    }
    // Few samples: the threads share the outputs, and with them the weights to be read.
    const auto [begin, end] = share(plan.panels(), thread, threads);
    for (int64_t tile = 0; tile < tiles && begin < end; ++tile) {
        const auto [first, samples] = tile_of(tile);
        plan.compute(x, y, first, samples, begin, end);
    }
}

void snake(ggml_tensor *result, int thread, int threads, void *userdata) {
    const auto &kernels = *static_cast<const VectorKernels *>(userdata);
    const auto *x = static_cast<const float *>(result->src[0]->data);
    const auto *frequency = static_cast<const float *>(result->src[1]->data);
    const auto *magnitude = static_cast<const float *>(result->src[2]->data);
    auto *y = static_cast<float *>(result->data);
    const int64_t channels = result->ne[0];
    const auto [begin, end] = share(result->ne[1], thread, threads);
    for (int64_t t = begin; t < end; ++t) {
        kernels.snake(x + t * channels, frequency, magnitude, y + t * channels, channels);
    }
}

}  // namespace ggtts::kernels
