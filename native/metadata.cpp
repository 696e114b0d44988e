#include "metadata.hpp"

#include <cstring>
#include <string>

namespace nb = nanobind;

namespace ggtts {
namespace {

// Bytes that are not UTF-8 survive as surrogates.
nb::object text(const char *value) {
    return nb::steal(
        PyUnicode_DecodeUTF8(value, static_cast<Py_ssize_t>(std::strlen(value)), "surrogateescape"));
}

nb::object scalar(const gguf_context *header, int64_t key) {
    switch (gguf_get_kv_type(header, key)) {
        case GGUF_TYPE_UINT8:
            return nb::int_(gguf_get_val_u8(header, key));
        case GGUF_TYPE_INT8:
            return nb::int_(gguf_get_val_i8(header, key));
        case GGUF_TYPE_UINT16:
            return nb::int_(gguf_get_val_u16(header, key));
        case GGUF_TYPE_INT16:
            return nb::int_(gguf_get_val_i16(header, key));
        case GGUF_TYPE_UINT32:
            return nb::int_(gguf_get_val_u32(header, key));
        case GGUF_TYPE_INT32:
            return nb::int_(gguf_get_val_i32(header, key));
        case GGUF_TYPE_UINT64:
            return nb::int_(gguf_get_val_u64(header, key));
        case GGUF_TYPE_INT64:
            return nb::int_(gguf_get_val_i64(header, key));
        case GGUF_TYPE_FLOAT32:
            return nb::float_(static_cast<double>(gguf_get_val_f32(header, key)));
        case GGUF_TYPE_FLOAT64:
            return nb::float_(gguf_get_val_f64(header, key));
        case GGUF_TYPE_BOOL:
            return nb::bool_(gguf_get_val_bool(header, key));
        case GGUF_TYPE_STRING:
            return text(gguf_get_val_str(header, key));
        default:
            return nb::none();
    }
}

template <class Value, class Number>
nb::list numbers(const void *data, size_t count) {
    nb::list list;
    const auto *values = static_cast<const Value *>(data);
    for (size_t i = 0; i < count; ++i)
        list.append(Number(values[i]));
    return list;
}

nb::object array(const gguf_context *header, int64_t key) {
    const size_t count = gguf_get_arr_n(header, key);
    const gguf_type type = gguf_get_arr_type(header, key);
    if (type == GGUF_TYPE_STRING) {
        nb::list list;
        for (size_t i = 0; i < count; ++i)
            list.append(text(gguf_get_arr_str(header, key, i)));
        return list;
    }
    const void *data = gguf_get_arr_data(header, key);
    switch (type) {
        case GGUF_TYPE_UINT8:
            return numbers<uint8_t, nb::int_>(data, count);
        case GGUF_TYPE_INT8:
            return numbers<int8_t, nb::int_>(data, count);
        case GGUF_TYPE_UINT16:
            return numbers<uint16_t, nb::int_>(data, count);
        case GGUF_TYPE_INT16:
            return numbers<int16_t, nb::int_>(data, count);
        case GGUF_TYPE_UINT32:
            return numbers<uint32_t, nb::int_>(data, count);
        case GGUF_TYPE_INT32:
            return numbers<int32_t, nb::int_>(data, count);
        case GGUF_TYPE_UINT64:
            return numbers<uint64_t, nb::int_>(data, count);
        case GGUF_TYPE_INT64:
            return numbers<int64_t, nb::int_>(data, count);
        case GGUF_TYPE_FLOAT32:
            return numbers<float, nb::float_>(data, count);
        case GGUF_TYPE_FLOAT64:
            return numbers<double, nb::float_>(data, count);
        case GGUF_TYPE_BOOL:
            return numbers<int8_t, nb::bool_>(data, count);
        default:
            return nb::none();
    }
}

}  // namespace

nb::dict metadata(const GgufFile &file) {
    const gguf_context *header = file.header();
    nb::dict result;
    for (int64_t key = 0; key < gguf_get_n_kv(header); ++key) {
        const nb::object name = text(gguf_get_key(header, key));
        result[name] =
            gguf_get_kv_type(header, key) == GGUF_TYPE_ARRAY ? array(header, key) : scalar(header, key);
    }
    return result;
}

}  // namespace ggtts
