#!/usr/bin/env bash
# GGML for any GPU with Vulkan, and this processor.
set -euo pipefail
# shellcheck source=ggml/build_common.sh
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/ggml/build_common.sh"

take_options "Usage: ./buildvulkan.sh [--wheels DIR | --download DIR]
Rebuild GGML with Vulkan (and for exactly this processor) and install ggtts." "$@"
require_compiler
have glslc || fail "no Vulkan shader compiler found: install glslc (Debian: apt install glslc)"
have_vulkan_headers || fail "no Vulkan headers of 1.3.272 or newer found: install them (Debian 13: apt install libvulkan-dev) or set VULKAN_SDK"
have_spirv_headers || fail "no SPIR-V headers found: install them (Debian: apt install spirv-headers) or set VULKAN_SDK"
rebuild -DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DGGML_VULKAN=ON
