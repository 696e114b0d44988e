// The native module ggtts._native: the engine under core/engine and the samplers under core/sampling.
#include "bindings.hpp"

NB_MODULE(_native, module) {
    module.doc() = "The native engine of ggtts: GGML devices, weights, graphs and samplers.";
    ggtts::bind_engine(module);
    ggtts::bind_failures(module);
    ggtts::bind_sampler(module);
    ggtts::bind_samples(module);
    ggtts::bind_predictor(module);
    ggtts::bind_talker(module);
    ggtts::bind_conv_chain(module);
}
