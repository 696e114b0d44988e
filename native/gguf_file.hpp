// A GGUF file mapped into memory: its metadata, and its tensors where they lie.
#pragma once

#include <ggml-cpp.h>
#include <gguf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace ggtts {

// A read-only private mapping of a whole file.
class MappedFile {
public:
    explicit MappedFile(const std::string &path);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    const uint8_t *data() const { return data_; }
    size_t size() const { return size_; }
    // The pages inside this range may leave memory; reading them again loads them from the file.
    void release(const void *begin, size_t length) const;

private:
    uint8_t *data_ = nullptr;
    size_t size_ = 0;
};

struct FileTensor {
    std::string name;
    ggml_type type;
    std::vector<int64_t> shape;  // GGML order, as many dimensions as the file says
    const uint8_t *data;
    size_t bytes;
};

class GgufFile {
public:
    // Throws FileError: missing, not GGUF, a version or header GGML does not read, or tensors beyond the end.
    explicit GgufFile(const std::string &path);

    const std::string &path() const { return path_; }
    const gguf_context *header() const { return header_.get(); }
    const MappedFile &mapping() const { return mapping_; }
    const std::vector<FileTensor> &tensors() const { return tensors_; }
    bool contains(const std::string &name) const { return index_.count(name) != 0; }
    // Throws FileError when the file has no such tensor.
    const FileTensor &tensor(const std::string &name) const;

    // Rows `ids` of a matrix as float32 [ids, width]; throws std::out_of_range beyond the last row.
    void read_rows(const FileTensor &tensor, const int64_t *ids, size_t count, float *out) const;

private:
    std::string path_;
    MappedFile mapping_;
    gguf_context_ptr header_;
    std::vector<FileTensor> tensors_;
    std::unordered_map<std::string, size_t> index_;
};

// `count` values starting at `source`, stored as `type`, as float32.
void to_float32(ggml_type type, const void *source, float *out, int64_t count);

}  // namespace ggtts
