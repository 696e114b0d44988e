#include "gguf_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "errors.hpp"

namespace ggtts {

MappedFile::MappedFile(const std::string &path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        throw FileError(path + ": " + std::strerror(errno));
    struct stat status{};
    if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(file);
        throw FileError(path + ": not a regular file");
    }
    size_ = static_cast<size_t>(status.st_size);
    if (size_ == 0) {
        ::close(file);
        throw FileError(path + ": the file is empty; a GGUF model was expected");
    }
    void *address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    const int error = errno;
    ::close(file);
    if (address == MAP_FAILED)
        throw FileError(path + ": cannot be mapped into memory: " + std::strerror(error));
    data_ = static_cast<uint8_t *>(address);
}

MappedFile::~MappedFile() {
    ::munmap(data_, size_);
}

void MappedFile::release(const void *begin, size_t length) const {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
    const auto last = (reinterpret_cast<uintptr_t>(begin) + length) / page * page;
    if (last > first)
        ::madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
}

namespace {

constexpr std::string_view magic = "GGUF";
constexpr uint32_t oldest_version = 2, newest_version = 3;
// The format wants multiples of 8: then floats and the scales of blocks are aligned, too.
constexpr uint64_t default_alignment = 32, least_alignment = 8;

std::string printable_start(const uint8_t *data, size_t size) {
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(size, 8); ++i) {
        text += data[i] >= 0x20 && data[i] < 0x7f ? static_cast<char>(data[i]) : '.';
    }
    return text;
}

// 0 for what has no fixed size.
size_t size_of(MetadataType type) {
    switch (type) {
        case MetadataType::uint8:
        case MetadataType::int8:
        case MetadataType::boolean:
            return 1;
        case MetadataType::uint16:
        case MetadataType::int16:
            return 2;
        case MetadataType::uint32:
        case MetadataType::int32:
        case MetadataType::float32:
            return 4;
        case MetadataType::uint64:
        case MetadataType::int64:
        case MetadataType::float64:
            return 8;
        default:
            return 0;
    }
}

}  // namespace

// Reads one thing after the other, and nothing beyond the end of the file.
class GgufFile::Reader {
public:
    explicit Reader(const GgufFile &file) : file_(file) {}

    size_t position() const { return position_; }

    [[noreturn]] void refuse(const std::string &why) const {
        throw FileError(file_.path_ + ": a damaged or truncated GGUF file: " + why);
    }

    const uint8_t *take(uint64_t bytes, const char *what) {
        if (bytes > file_.mapping_.size() - position_) {
            refuse(std::string(what) + " at byte " + std::to_string(position_) + " is longer than the file");
        }
        const uint8_t *start = file_.mapping_.data() + position_;
        position_ += bytes;
        return start;
    }

    template <class Number>
    Number number(const char *what) {
        Number value;
        std::memcpy(&value, take(sizeof(Number), what), sizeof(Number));
        return value;
    }

    std::string_view text(const char *what) {
        const auto length = number<uint64_t>(what);
        return {reinterpret_cast<const char *>(take(length, what)), length};
    }

    // A count of things that take at least `smallest` bytes each: what the file cannot hold is not believed.
    uint64_t count(const char *what, size_t smallest) {
        const auto claimed = number<uint64_t>(what);
        if (claimed > (file_.mapping_.size() - position_) / smallest) {
            refuse(std::to_string(claimed) + " " + what + " do not fit the file");
        }
        return claimed;
    }

    MetadataEntry entry() {
        MetadataEntry entry{};
        entry.key = text("a key");
        entry.type = metadata_type(entry.key);
        entry.count = 1;
        if (entry.type == MetadataType::array) {
            entry.is_array = true;
            entry.type = metadata_type(entry.key);
            if (entry.type == MetadataType::array) {
                refuse("the key '" + std::string(entry.key) + "' holds arrays of arrays");
            }
            entry.count = count("array elements", std::max<size_t>(1, size_of(entry.type)));
        }
        entry.value = file_.mapping_.data() + position_;
        if (entry.type == MetadataType::string) {
            for (uint64_t i = 0; i < entry.count; ++i) {
                text("a text");
            }
        } else {
            take(entry.count * size_of(entry.type), "a value");
        }
        return entry;
    }

private:
    MetadataType metadata_type(std::string_view key) {
        const auto type = number<uint32_t>("a type");
        if (type > static_cast<uint32_t>(MetadataType::float64)) {
            refuse("the key '" + std::string(key) + "' has the unknown type " + std::to_string(type));
        }
        return static_cast<MetadataType>(type);
    }

    const GgufFile &file_;
    size_t position_ = 0;
};

GgufFile::GgufFile(const std::string &path) : path_(path), mapping_(path) {
    if (mapping_.size() < magic.size() || std::memcmp(mapping_.data(), magic.data(), magic.size()) != 0) {
        throw FileError(path + ": not a GGUF file (it starts with '" +
                        printable_start(mapping_.data(), mapping_.size()) + "')");
    }
    read_header();
}

void GgufFile::read_header() {
    Reader reader(*this);
    reader.take(magic.size(), "the magic");
    const auto version = reader.number<uint32_t>("the version");
    if (version < oldest_version || version > newest_version) {
        const bool swapped = (version & 0xffff) == 0;
        throw FileError(path_ + ": GGUF version " + std::to_string(version) +
                        (swapped ? " (a big-endian file)" : "") + " is not supported: versions 2 and 3 are");
    }
    const uint64_t tensor_count = reader.count("tensors", 32);
    const uint64_t entry_count = reader.count("keys", 13);
    metadata_.reserve(entry_count);
    uint64_t alignment = default_alignment;
    for (uint64_t i = 0; i < entry_count; ++i) {
        const MetadataEntry entry = reader.entry();
        if (entry.key == "general.alignment" && entry.type == MetadataType::uint32 && !entry.is_array) {
            uint32_t value;
            std::memcpy(&value, entry.value, sizeof(value));
            alignment = value;
        }
        metadata_.push_back(entry);
    }
    if (alignment % least_alignment != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) {
        reader.refuse("an alignment of " + std::to_string(alignment));
    }
    tensors_.reserve(tensor_count);
    for (uint64_t i = 0; i < tensor_count; ++i) {
        read_tensor(reader, alignment);
    }
    place_tensors((reader.position() + alignment - 1) / alignment * alignment);
}

void GgufFile::read_tensor(Reader &reader, uint64_t alignment) {
    FileTensor tensor{};
    tensor.name = reader.text("a tensor name");
    if (!std::all_of(tensor.name.begin(), tensor.name.end(), [](char c) { return c > 0x20 && c < 0x7f; })) {
        reader.refuse("the name of tensor " + std::to_string(tensors_.size()) + " is no printable ASCII");
    }
    const std::string quoted = "tensor '" + tensor.name + "'";
    const auto dimensions = reader.number<uint32_t>("a tensor");
    if (dimensions > GGML_MAX_DIMS) {
        reader.refuse(quoted + " has " + std::to_string(dimensions) + " dimensions");
    }
    std::vector<uint64_t> sizes;
    for (uint32_t d = 0; d < dimensions; ++d) {
        sizes.push_back(reader.number<uint64_t>("a tensor"));
    }
    const auto type = reader.number<uint32_t>("a tensor");
    const auto offset = reader.number<uint64_t>("a tensor");
    if (type >= GGML_TYPE_COUNT || ggml_blck_size(static_cast<ggml_type>(type)) == 0) {
        reader.refuse(quoted + " has the unknown type " + std::to_string(type));
    }
    tensor.type = static_cast<ggml_type>(type);
    if (offset % alignment != 0) {
        reader.refuse(quoted + " starts at byte " + std::to_string(offset) +
                      " of the data, which is not aligned");
    }
    // More values than half the address space cannot be in a file: sizes below are safe from overflow.
    constexpr uint64_t most_values = uint64_t{1} << 48;
    uint64_t values = 1;
    for (const uint64_t size : sizes) {
        if (size == 0 || size > most_values / values) {
            reader.refuse(quoted + " has a dimension of " + std::to_string(size));
        }
        values *= size;
        tensor.shape.push_back(static_cast<int64_t>(size));
    }
    while (tensor.shape.size() > 1 && tensor.shape.back() == 1) {
        tensor.shape.pop_back();
    }
    if (tensor.shape.empty()) {
        tensor.shape.push_back(1);
    }
    if (tensor.shape[0] % ggml_blck_size(tensor.type) != 0) {
        reader.refuse(quoted + " has rows of " + std::to_string(tensor.shape[0]) +
                      " values, which are no blocks of " + ggml_type_name(tensor.type));
    }
    tensor.bytes =
        ggml_row_size(tensor.type, tensor.shape[0]) * (values / static_cast<uint64_t>(tensor.shape[0]));
    if (!index_.emplace(tensor.name, tensors_.size()).second) {
        reader.refuse(quoted + " stands in it twice");
    }
    offsets_.push_back(offset);
    tensors_.push_back(std::move(tensor));
}

void GgufFile::place_tensors(size_t data_offset) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
        FileTensor &tensor = tensors_[i];
        const size_t size = mapping_.size();
        if (data_offset > size || offsets_[i] > size - data_offset ||
            tensor.bytes > size - data_offset - offsets_[i]) {
            throw FileError(path_ + ": the file is truncated: tensor '" + tensor.name + "' has " +
                            std::to_string(tensor.bytes) + " bytes from " + std::to_string(offsets_[i]) +
                            " of the data, the file ends at " + std::to_string(size));
        }
        tensor.data = mapping_.data() + data_offset + offsets_[i];
    }
}

const FileTensor &GgufFile::tensor(const std::string &name) const {
    const auto found = index_.find(name);
    if (found == index_.end())
        throw FileError(path_ + ": the file has no tensor '" + name + "'");
    return tensors_[found->second];
}

const FileTensor &GgufFile::weight(const std::string &name) const {
    const FileTensor &found = tensor(name);
    if (found.type != GGML_TYPE_F32 && ggml_get_type_traits(found.type)->to_float == nullptr) {
        throw FileError(path_ + ": tensor '" + name + "' is stored as " + ggml_type_name(found.type) +
                        ", which is no type of weights");
    }
    return found;
}

void to_float32(ggml_type type, const void *source, float *out, int64_t count) {
    if (type == GGML_TYPE_F32) {
        std::memcpy(out, source, static_cast<size_t>(count) * sizeof(float));
        return;
    }
    const ggml_to_float_t convert = ggml_get_type_traits(type)->to_float;
    if (convert == nullptr) {
        throw std::invalid_argument(std::string("values of type ") + ggml_type_name(type) +
                                    " have no float form");
    }
    convert(source, out, count);
}

std::vector<uint8_t> from_float32(ggml_type type, const float *values, int64_t rows, int64_t width,
                                  const float *importance) {
    const auto refuse = [&](const std::string &why) {
        throw std::invalid_argument(std::string("values cannot be stored as ") + ggml_type_name(type) + ": " +
                                    why);
    };
    std::vector<uint8_t> stored(ggml_row_size(type, width) * static_cast<size_t>(rows));
    if (type == GGML_TYPE_F32) {
        std::memcpy(stored.data(), values, stored.size());
    } else if (type == GGML_TYPE_F16) {
        ggml_fp32_to_fp16_row(values, reinterpret_cast<ggml_fp16_t *>(stored.data()), rows * width);
    } else if (type == GGML_TYPE_BF16) {
        ggml_fp32_to_bf16_row(values, reinterpret_cast<ggml_bf16_t *>(stored.data()), rows * width);
    } else if (!ggml_is_quantized(type)) {
        refuse("it is no type of weights");
    } else if (width % ggml_blck_size(type) != 0) {
        refuse("rows of " + std::to_string(width) + " are not whole blocks of " +
               std::to_string(ggml_blck_size(type)));
    } else if (importance == nullptr && ggml_quantize_requires_imatrix(type)) {
        refuse("it needs an importance matrix");
    } else {
        ggml_quantize_chunk(type, values, stored.data(), 0, rows, width, importance);
    }
    return stored;
}

void GgufFile::read_rows(const FileTensor &tensor, const int64_t *ids, size_t count, float *out) const {
    const int64_t width = tensor.shape[0];
    const size_t row_bytes = ggml_row_size(tensor.type, width);
    const int64_t rows = static_cast<int64_t>(tensor.bytes / row_bytes);
    for (size_t i = 0; i < count; ++i) {
        if (ids[i] < 0 || ids[i] >= rows) {
            throw std::out_of_range("row " + std::to_string(ids[i]) + " of '" + tensor.name +
                                    "', which has " + std::to_string(rows));
        }
        to_float32(tensor.type, tensor.data + static_cast<size_t>(ids[i]) * row_bytes,
                   out + i * static_cast<size_t>(width), width);
    }
}

}  // namespace ggtts
