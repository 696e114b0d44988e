// The weights of one GGUF file on one device: placed lazily, each where its kernel is fastest, mapped in
// place when possible.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend.hpp"
#include "descriptions.hpp"
#include "gguf_file.hpp"
#include "tensor.hpp"

namespace ggtts {

class Weights : public LeafOwner, public std::enable_shared_from_this<Weights> {
public:
    Weights(std::shared_ptr<Backend> backend, std::shared_ptr<const GgufFile> file);

    const GgufFile &file() const { return *file_; }
    const std::shared_ptr<Backend> &backend() const { return backend_; }

    // The left operand of matrix products: may be stored in a repacked layout. Several names are one matrix
    // with the rows of all of them, one below the other. `instruction_set` is one of those that
    // kernels::PackedMatrix knows, and matters where the matrix is packed; without it, the best is taken.
    // With a float type, the values are converted to it, and the matrix is not packed. Like `tensor` it
    // throws FileError for what is missing in the file, or is no weight.
    Tensor matrix(const std::vector<std::string> &names, const std::optional<std::string> &instruction_set,
                  std::optional<ggml_type> type);
    // Whether several matrices can be used as one without a second copy in memory.
    bool can_join(const std::vector<std::string> &names, std::optional<ggml_type> type) const;
    // As stored, or converted to another float type.
    Tensor tensor(const std::string &name, std::optional<ggml_type> type);
    // A weight computed on the host. `values` are float32 in GGML order. The name is unique in this object.
    Tensor constant(const std::string &name, const std::vector<int64_t> &shape, const float *values,
                    ggml_type type, bool as_matrix);

    // Gives every tensor asked for since the last call its memory and contents. Throws DeviceError when they
    // do not fit: then they are tried again the next time.
    void place() override;

    // Bytes on the device beyond what stays mapped, and bytes used in place.
    size_t allocated_bytes() const { return allocated_bytes_; }
    size_t mapped_bytes() const { return mapped_bytes_; }

private:
    struct Pending {
        ggml_tensor *tensor;
        std::vector<const FileTensor *> stored;  // one below the other; none for a constant
        std::vector<uint8_t> contents;           // for a constant
        ggml_backend_buffer_type_t buffer_type;
    };
    using Key = std::string;

    struct Packing {
        std::shared_ptr<kernels::PackedMatrix> matrix;
        std::vector<const FileTensor *> stored;
    };

    std::vector<const FileTensor *> parts_of_matrix(const std::vector<std::string> &names,
                                                    std::optional<ggml_type> type) const;
    std::shared_ptr<kernels::PackedMatrix> packed_matrix(
        const ggml_tensor *tensor, const std::optional<std::string> &instruction_set) const;
    ggml_tensor *describe_tensor(const std::string &name, ggml_type type, const std::vector<int64_t> &shape);
    ggml_backend_buffer_type_t choose_buffer_type(const ggml_tensor *tensor, bool as_matrix) const;
    bool matrix_product_supported(ggml_backend_buffer_type_t type, const ggml_tensor *matrix) const;
    bool can_stay_mapped(const Pending &pending) const;
    void map_in_place(const Pending &pending);
    void allocate(ggml_backend_buffer_type_t type, const std::vector<Pending *> &group);
    void fill(const Pending &pending);
    void fill_converted(const FileTensor &stored, ggml_tensor *tensor, size_t offset);
    std::vector<uint8_t> converted_rows(const FileTensor &stored, ggml_type type, int64_t first,
                                        int64_t count) const;
    void pack();
    void place_pending();
    Tensor leaf(const Tensor &known) {
        return {known.raw, nullptr, shared_from_this(), known.matrix_only, known.packed};
    }

    std::shared_ptr<Backend> backend_;
    std::shared_ptr<const GgufFile> file_;
    std::vector<Descriptions> contexts_;
    std::vector<Owned<ggml_backend_buffer>> buffers_;
    Owned<ggml_backend_buffer> mapped_buffer_;
    std::unordered_map<Key, Tensor> known_;  // leaves hold no owner here: the owner is this object
    std::vector<Pending> pending_;
    std::vector<Packing> to_pack_;
    size_t allocated_bytes_ = 0;
    size_t mapped_bytes_ = 0;
    mutable std::mutex mutex_;
};

}  // namespace ggtts
