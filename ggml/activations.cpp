#include "activations.hpp"

#include <ggml.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "vector_kernels.hpp"
#include "work_share.hpp"

namespace ggtts::kernels {
namespace {

constexpr std::array<std::pair<const char *, Activation>, 5> names{{{"identity", Activation::identity},
                                                                    {"elu", Activation::elu},
                                                                    {"gelu", Activation::gelu},
                                                                    {"scaled_gelu", Activation::scaled_gelu},
                                                                    {"snake", Activation::snake}}};

const float *values(const ggml_tensor *tensor) {
    return static_cast<const float *>(tensor->data);
}

// One row, or several if the activation takes no vectors.
void activate_values(const ActivationSettings &settings, const ggml_tensor *result, const float *x, float *y,
                     int64_t count) {
    const VectorKernels &kernels = *settings.kernels;
    switch (settings.activation) {
        case Activation::identity:
            std::copy(x, x + count, y);
            return;
        case Activation::elu:
            return kernels.elu(x, y, count);
        case Activation::gelu:
            return kernels.gelu(x, y, count);
        case Activation::scaled_gelu:
            return kernels.scaled_gelu(x, values(result->src[1]), values(result->src[2]), y, count);
        case Activation::snake:
            return kernels.snake(x, values(result->src[1]), values(result->src[2]), y, count);
    }
}

// The rows [begin, end) of one lane of the result.
void activate_lane(const ActivationSettings &settings, ggml_tensor *result, int64_t lane, int64_t begin,
                   int64_t end) {
    const int64_t channels = result->ne[0], time = result->src[0]->ne[1];
    const bool by_row = vectors_of(settings.activation) > 0;
    const float *x = values(result->src[0]) + lane * time * channels;
    const float *context = nullptr;
    if (settings.has_context) {
        context =
            values(result->src[1 + vectors_of(settings.activation)]) + lane * settings.before * channels;
    }
    float *y = static_cast<float *>(result->data) + lane * result->ne[1] * channels;
    for (int64_t row = begin; row < end;) {
        float *to = y + row * channels;
        const int64_t source = row - settings.before;
        const bool inside = source >= 0 && source < time;
        const int64_t boundary = source < 0 ? settings.before : inside ? settings.before + time : end;
        const int64_t rows = by_row && inside ? 1 : std::min(boundary, end) - row;
        if (inside) {
            activate_values(settings, result, x + source * channels, to, rows * channels);
        } else if (source < 0 && context != nullptr) {
            std::copy_n(context + row * channels, rows * channels, to);
        } else {
            std::fill_n(to, rows * channels, 0.0f);
        }
        row += rows;
    }
}

}  // namespace

Activation parse_activation(const std::string &name) {
    for (const auto &[known, activation] : names) {
        if (name == known) {
            return activation;
        }
    }
    throw std::invalid_argument("no activation '" + name + "'");
}

int vectors_of(Activation activation) {
    return activation == Activation::scaled_gelu || activation == Activation::snake ? 2 : 0;
}

void activate(ggml_tensor *result, int thread, int threads, void *userdata) {
    const auto &settings = *static_cast<const ActivationSettings *>(userdata);
    const int64_t rows = result->ne[1];
    const auto [begin, end] = share(rows * result->ne[2], thread, threads);
    for (int64_t row = begin; row < end;) {
        const int64_t lane = row / rows, first = lane * rows, lane_end = std::min(end, first + rows);
        activate_lane(settings, result, lane, row - first, lane_end - first);
        row = lane_end;
    }
}

void layer_norm(ggml_tensor *result, int thread, int threads, void *userdata) {
    const auto &settings = *static_cast<const LayerNormSettings *>(userdata);
    const float *x = values(result->src[0]);
    auto *y = static_cast<float *>(result->data);
    const int64_t channels = result->ne[0];
    const auto [begin, end] = share(result->ne[1] * result->ne[2], thread, threads);
    for (int64_t row = begin; row < end; ++row) {
        settings.kernels->normalise(x + row * channels, values(result->src[1]), values(result->src[2]),
                                    settings.epsilon, y + row * channels, channels);
    }
}

}  // namespace ggtts::kernels
