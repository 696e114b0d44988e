// One function per part of the Python module ggtts._native; module.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>

namespace ggtts {

void bind_engine(nanobind::module_ &module);
void bind_failures(nanobind::module_ &module);
void bind_tensors(nanobind::module_ &module);
void bind_plans(nanobind::module_ &module);
void bind_sampler(nanobind::module_ &module);
void bind_samples(nanobind::module_ &module);
void bind_predictor(nanobind::module_ &module);
void bind_talker(nanobind::module_ &module);
void bind_conv_chain(nanobind::module_ &module);

}  // namespace ggtts
