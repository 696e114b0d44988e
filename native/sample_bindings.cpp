// Samples as integers: what files, players and clients of a server take.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "bindings.hpp"

namespace ggtts {

namespace {

namespace nb = nanobind;
using namespace nb::literals;

using Samples = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Adding and taking away 1.5 * 2^52 rounds a small double to the nearest integer, half to even, without a
// call.
constexpr double rounder = 6755399441055744.0;

int32_t as_integer(float sample, double full_scale) {
    const float kept = std::isfinite(sample) ? sample : 0.0F;
    const float low = kept < -1.0F ? -1.0F : kept;
    const float clipped = low > 1.0F ? 1.0F : low;
    return static_cast<int32_t>((static_cast<double>(clipped) * full_scale + rounder) - rounder);
}

template <size_t size>
void encode(const float *samples, size_t count, uint8_t *bytes) {
    const double full_scale = static_cast<double>((1 << (8 * size - 1)) - 1);
    for (size_t i = 0; i < count; ++i) {
        const auto value = static_cast<uint32_t>(as_integer(samples[i], full_scale));
        for (size_t place = 0; place < size; ++place)
            bytes[size * i + place] = static_cast<uint8_t>(value >> (8 * place));
    }
}

// A chunk takes microseconds, less than it may take to get the GIL back: it is kept.
nb::bytes encode_integers(const Samples &samples, int bits) {
    if (bits != 16 && bits != 24)
        throw std::invalid_argument("samples have 16 or 24 bits");
    const size_t count = samples.shape(0), size = static_cast<size_t>(bits) / 8;
    PyObject *made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count * size));
    if (made == nullptr)
        throw std::bad_alloc();
    auto result = nb::steal<nb::bytes>(made);
    auto *bytes = reinterpret_cast<uint8_t *>(PyBytes_AsString(made));
    if (bits == 16)
        encode<2>(samples.data(), count, bytes);
    else
        encode<3>(samples.data(), count, bytes);
    return result;
}

}  // namespace

void bind_samples(nb::module_ &module) {
    module.def(
        "encode_integers", &encode_integers, "samples"_a, "bits"_a,
        "Samples [n] as little-endian integers of 16 or 24 bits: 1.0 is the largest one, beyond it they "
        "are clipped, and what is no number is silence.");
}

}  // namespace ggtts
