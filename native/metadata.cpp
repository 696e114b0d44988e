#include "metadata.hpp"

#include <cstring>
#include <string_view>

namespace nb = nanobind;

namespace ggtts {
namespace {

// Bytes that are not UTF-8 survive as surrogates.
nb::object text(std::string_view value) {
    return nb::steal(
        PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "surrogateescape"));
}

template <class Value>
Value read(const uint8_t *&from) {
    Value value;
    std::memcpy(&value, from, sizeof(Value));
    from += sizeof(Value);
    return value;
}

// One value, and the pointer moves behind it. The reader of the file has checked that all of it is there.
nb::object next_value(MetadataType type, const uint8_t *&from) {
    switch (type) {
        case MetadataType::uint8:
            return nb::int_(read<uint8_t>(from));
        case MetadataType::int8:
            return nb::int_(read<int8_t>(from));
        case MetadataType::uint16:
            return nb::int_(read<uint16_t>(from));
        case MetadataType::int16:
            return nb::int_(read<int16_t>(from));
        case MetadataType::uint32:
            return nb::int_(read<uint32_t>(from));
        case MetadataType::int32:
            return nb::int_(read<int32_t>(from));
        case MetadataType::uint64:
            return nb::int_(read<uint64_t>(from));
        case MetadataType::int64:
            return nb::int_(read<int64_t>(from));
        case MetadataType::float32:
            return nb::float_(static_cast<double>(read<float>(from)));
        case MetadataType::float64:
            return nb::float_(read<double>(from));
        case MetadataType::boolean:
            return nb::bool_(read<uint8_t>(from) != 0);
        case MetadataType::string: {
            const auto length = read<uint64_t>(from);
            const std::string_view value(reinterpret_cast<const char *>(from), length);
            from += length;
            return text(value);
        }
        default:
            return nb::none();
    }
}

}  // namespace

nb::dict metadata(const GgufFile &file) {
    nb::dict result;
    for (const MetadataEntry &entry : file.metadata()) {
        const uint8_t *from = entry.value;
        if (!entry.is_array) {
            result[text(entry.key)] = next_value(entry.type, from);
            continue;
        }
        nb::list values;
        for (uint64_t i = 0; i < entry.count; ++i) {
            values.append(next_value(entry.type, from));
        }
        result[text(entry.key)] = values;
    }
    return result;
}

}  // namespace ggtts
