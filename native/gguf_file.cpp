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

std::string printable_start(const uint8_t *data, size_t size) {
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(size, 8); ++i) {
        text += data[i] >= 0x20 && data[i] < 0x7f ? static_cast<char>(data[i]) : '.';
    }
    return text;
}

void check_magic(const std::string &path, const MappedFile &mapping) {
    if (mapping.size() >= 24 && std::memcmp(mapping.data(), GGUF_MAGIC, 4) == 0)
        return;
    throw FileError(path + ": not a GGUF file (it starts with '" +
                    printable_start(mapping.data(), mapping.size()) + "')");
}

}  // namespace

GgufFile::GgufFile(const std::string &path) : path_(path), mapping_(path) {
    check_magic(path, mapping_);
    ggml_context *described = nullptr;
    header_.reset(gguf_init_from_file(path.c_str(), {/*no_alloc=*/true, &described}));
    const ggml_context_ptr descriptions(described);
    if (!header_ || described == nullptr) {
        throw FileError(path + ": a damaged or truncated GGUF file: its header cannot be read");
    }

    const size_t data_offset = gguf_get_data_offset(header_.get());
    const int64_t count = gguf_get_n_tensors(header_.get());
    tensors_.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
        FileTensor tensor;
        tensor.name = gguf_get_tensor_name(header_.get(), i);
        tensor.type = gguf_get_tensor_type(header_.get(), i);
        tensor.bytes = gguf_get_tensor_size(header_.get(), i);
        const size_t offset = gguf_get_tensor_offset(header_.get(), i);
        if (offset > mapping_.size() || data_offset > mapping_.size() - offset ||
            tensor.bytes > mapping_.size() - offset - data_offset) {
            throw FileError(path + ": the file is truncated: tensor '" + tensor.name + "' ends at byte " +
                            std::to_string(data_offset + offset + tensor.bytes) + ", the file has " +
                            std::to_string(mapping_.size()));
        }
        tensor.data = mapping_.data() + data_offset + offset;
        const ggml_tensor *description = ggml_get_tensor(described, tensor.name.c_str());
        if (description == nullptr)
            throw FileError(path + ": tensor '" + tensor.name + "' has no description");
        const int dimensions = ggml_n_dims(description);
        tensor.shape.assign(description->ne, description->ne + dimensions);
        index_.emplace(tensor.name, tensors_.size());
        tensors_.push_back(std::move(tensor));
    }
}

const FileTensor &GgufFile::tensor(const std::string &name) const {
    const auto found = index_.find(name);
    if (found == index_.end())
        throw FileError(path_ + ": the file has no tensor '" + name + "'");
    return tensors_[found->second];
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
