// The key-value metadata of a GGUF file as a Python dictionary.
#pragma once

#include <nanobind/nanobind.h>

#include "gguf_file.hpp"

namespace ggtts {

nanobind::dict metadata(const GgufFile &file);

}  // namespace ggtts
