#!/usr/bin/env bash
# GGML for NVIDIA GPUs and this processor.
set -euo pipefail
# shellcheck source=ggml/build_common.sh
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/ggml/build_common.sh"

architectures=()
if [[ ${1-} == --arch ]]; then
    [[ -n ${2-} ]] || fail "--arch needs a value, for example 89 or '86;90'"
    architectures=("-DCMAKE_CUDA_ARCHITECTURES=$2")
    shift 2
fi
take_options "Usage: ./buildcuda.sh [--arch ARCHITECTURES] [--wheels DIR | --download DIR]
Rebuild GGML with CUDA (and for exactly this processor) and install ggtts.

--arch ARCHITECTURES  compute capabilities as CMake writes them: 89, '86;90', native (default: GGML's list)" "$@"
have_cuda || fail "no CUDA toolkit found: put nvcc on the PATH or name it with CUDACXX=..."
rebuild -DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DGGML_CUDA=ON -DGGML_CUDA_GRAPHS=ON "${architectures[@]}"
