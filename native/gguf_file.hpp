// A GGUF file mapped into memory: its metadata, and its tensors where they lie.
//
// The header is read here rather than by GGML, which refuses names of more than 63 characters (OmniVoice has
// longer ones) and keeps a copy of everything. Format: docs/gguf.md of ggml-org/ggml, versions 2 and 3,
// little-endian.
#pragma once

#include <ggml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

enum class MetadataType : uint32_t {
    uint8,
    int8,
    uint16,
    int16,
    uint32,
    int32,
    float32,
    boolean,
    string,
    array,
    uint64,
    int64,
    float64,
};

// One key. Values lie in the mapping, unaligned; a string is its length (uint64) and its bytes.
struct MetadataEntry {
    std::string_view key;
    MetadataType type;  // of the value, or of the elements of an array
    bool is_array;
    uint64_t count;        // of an array, else 1
    const uint8_t *value;  // the first element
};

struct FileTensor {
    std::string name;
    ggml_type type;
    std::vector<int64_t> shape;  // GGML order, without trailing dimensions of 1
    const uint8_t *data;
    size_t bytes;
};

class GgufFile {
public:
    // Throws FileError: missing, not GGUF, a damaged or unknown header, or tensors beyond the end.
    explicit GgufFile(const std::string &path);

    const std::string &path() const { return path_; }
    const MappedFile &mapping() const { return mapping_; }
    const std::vector<MetadataEntry> &metadata() const { return metadata_; }
    const std::vector<FileTensor> &tensors() const { return tensors_; }
    bool contains(const std::string &name) const { return index_.count(name) != 0; }
    // Throws FileError when the file has no such tensor.
    const FileTensor &tensor(const std::string &name) const;
    // The same of a tensor that is read as weights. Throws FileError for one of integers, say.
    const FileTensor &weight(const std::string &name) const;

    // Rows `ids` of a matrix as float32 [ids, width]; throws std::out_of_range beyond the last row.
    void read_rows(const FileTensor &tensor, const int64_t *ids, size_t count, float *out) const;

private:
    class Reader;
    void read_header();
    void read_tensor(Reader &reader, uint64_t alignment);
    void place_tensors(size_t data_offset);

    std::string path_;
    MappedFile mapping_;
    std::vector<MetadataEntry> metadata_;
    std::vector<FileTensor>
        tensors_;  // while the header is read, `data` is relative to the start of the data
    std::vector<uint64_t> offsets_;
    std::unordered_map<std::string, size_t> index_;
};

// `rows` x `width` values as `type` stores them, by GGML's reference quantisation; the importance of each
// column (of `width`) may be given. Throws std::invalid_argument where the type cannot hold such rows or
// needs the importance.
std::vector<uint8_t> from_float32(ggml_type type, const float *values, int64_t rows, int64_t width,
                                  const float *importance = nullptr);

// `count` values starting at `source`, stored as `type`, as float32.
void to_float32(ggml_type type, const void *source, float *out, int64_t count);

}  // namespace ggtts
