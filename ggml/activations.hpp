// Pointwise functions and layer norm over channels-last activations, for the CPU.
//
// The convolution that follows an activation wants its input behind other rows: zeros, or what a stream
// remembers. So the activation writes its result where it is wanted, and nothing is copied.
#pragma once

#include <cstdint>
#include <string>

struct ggml_tensor;

namespace ggtts::kernels {

struct VectorKernels;

enum class Activation { identity, elu, gelu, scaled_gelu, snake };

// "identity", "elu", ...; throws std::invalid_argument for another name.
Activation parse_activation(const std::string &name);
// How many vectors [channels] it takes beside x: 2 for the scale and shift of scaled_gelu and the frequency
// and magnitude of snake, 0 for others. All but scaled_gelu map zero to zero.
int vectors_of(Activation activation);

struct ActivationSettings {
    Activation activation;
    const VectorKernels *kernels;
    int64_t before;    // zero rows before those of x
    int64_t after;     // and after them
    bool has_context;  // rows of another tensor, as they are, in place of the ones before
};

// GGML custom operations; settings: as named.
// Sources: x f32 [channels, time, lanes], the vectors, and the context [channels, before, lanes] if there is
// one. Result: [channels, before + time + after, lanes].
void activate(ggml_tensor *result, int thread, int threads, void *activation_settings);

struct LayerNormSettings {
    const VectorKernels *kernels;
    float epsilon;
};

// Sources: x f32 [channels, time, lanes], weight and bias [channels]. Every row on its own (Ba et al., "Layer
// Normalization", 2016).
void layer_norm(ggml_tensor *result, int thread, int threads, void *layer_norm_settings);

}  // namespace ggtts::kernels
