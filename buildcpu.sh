#!/usr/bin/env bash
# GGML for exactly this processor.
set -euo pipefail
# shellcheck source=ggml/build_common.sh
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/ggml/build_common.sh"

take_options "Usage: ./buildcpu.sh [--wheels DIR | --download DIR]
Rebuild GGML for exactly this processor (native instructions, llamafile matrix kernels) and install ggtts." "$@"
rebuild -DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON
