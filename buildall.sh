#!/usr/bin/env bash
# GGML for every processor of this kind, and every GPU that can be built for here.
set -euo pipefail
# shellcheck source=ggml/build_common.sh
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/ggml/build_common.sh"

take_options "Usage: ./buildall.sh [--wheels DIR | --download DIR]
Rebuild GGML with a CPU library for every instruction set, chosen at run time, plus CUDA and Vulkan where their
toolkits are present, and install ggtts. The result runs on machines other than this one." "$@"
require_compiler
options=(-DGGML_NATIVE=OFF -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON -DGGML_LLAMAFILE=ON)
if have_cuda; then
    options+=(-DGGML_CUDA=ON -DGGML_CUDA_GRAPHS=ON)
else
    echo "without CUDA: nvcc was not found"
fi
if have_vulkan; then
    options+=(-DGGML_VULKAN=ON)
else
    echo "without Vulkan: glslc, the Vulkan headers or the SPIR-V headers were not found"
fi
rebuild "${options[@]}"
