#include "weights.hpp"

#include <packed_matrix.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "errors.hpp"
#include "logging.hpp"

namespace ggtts {
namespace {

constexpr size_t tensors_per_context = 1024;

// How much of a converted weight is in memory at a time.
constexpr size_t bytes_of_piece = size_t{16} << 20;

// So many rows a thread converts before it looks for more.
constexpr int64_t rows_at_once = 64;

int64_t rows_of(const FileTensor &stored) {
    int64_t rows = 1;
    for (size_t d = 1; d < stored.shape.size(); ++d)
        rows *= stored.shape[d];
    return rows;
}

// Does the same work in up to so many threads, this one among them: fewer where the system starts no more.
// What one of them throws is thrown here once all have ended.
void in_threads(size_t threads, const std::function<void()> &work) {
    std::exception_ptr failure;
    std::mutex mutex;
    const auto guarded = [&] {
        try {
            work();
        } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
        }
    };
    std::vector<std::jthread> helpers;
    try {
        while (helpers.size() + 1 < threads)
            helpers.emplace_back(guarded);
    } catch (const std::system_error &) {
        // Those that there are do all of it.
    }
    guarded();
    helpers.clear();
    if (failure)
        std::rethrow_exception(failure);
}

void require_floats(ggml_type type) {
    if (ggml_is_quantized(type)) {
        throw std::invalid_argument("a weight converts to f32, f16 or bf16 only, not to " +
                                    std::string(ggml_type_name(type)));
    }
}

}  // namespace

Weights::Weights(std::shared_ptr<Backend> backend, std::shared_ptr<const GgufFile> file)
    : backend_(std::move(backend)), file_(std::move(file)) {}

ggml_tensor *Weights::describe_tensor(const std::string &name, ggml_type type,
                                      const std::vector<int64_t> &shape) {
    if (contexts_.empty() || ggml_used_mem(contexts_.back().get()) + ggml_tensor_overhead() >
                                 tensors_per_context * ggml_tensor_overhead()) {
        contexts_.emplace_back(tensors_per_context * ggml_tensor_overhead());
    }
    ggml_tensor *tensor =
        ggml_new_tensor(contexts_.back().get(), type, static_cast<int>(shape.size()), shape.data());
    ggml_set_name(tensor, name.c_str());
    return tensor;
}

std::vector<const FileTensor *> Weights::parts_of_matrix(const std::vector<std::string> &names,
                                                         std::optional<ggml_type> type) const {
    if (names.empty())
        throw std::invalid_argument("a matrix without a name");
    std::vector<const FileTensor *> parts;
    for (const std::string &name : names) {
        parts.push_back(&file_->weight(name));
        const FileTensor &first = *parts.front(), &part = *parts.back();
        if (parts.size() > 1 && ((part.type != first.type && !type) || part.shape.size() != 2 ||
                                 first.shape.size() != 2 || part.shape[0] != first.shape[0])) {
            throw std::invalid_argument("'" + names.front() + "' and '" + name +
                                        "' are no matrices of one type and width");
        }
    }
    return parts;
}

bool Weights::can_join(const std::vector<std::string> &names, std::optional<ggml_type> type) const {
    std::lock_guard lock(mutex_);
    try {
        const FileTensor &first = *parts_of_matrix(names, type).front();
        // On the CPU, what is not packed stays where it lies in the file.
        return type || !backend_->has_own_operations() ||
               kernels::PackedMatrix::format_here(first.type, first.shape[0]);
    } catch (const std::invalid_argument &) {
        return false;
    }
}

std::shared_ptr<kernels::PackedMatrix> Weights::packed_matrix(
    const ggml_tensor *tensor, const std::optional<std::string> &instruction_set) const {
    if (!backend_->has_own_operations() || ggml_n_dims(tensor) > 2)
        return nullptr;
    const auto format = kernels::PackedMatrix::format_here(tensor->type, tensor->ne[0]);
    if (!format)
        return nullptr;
    const auto wanted = instruction_set.value_or(kernels::PackedMatrix::instruction_sets().front());
    return std::make_shared<kernels::PackedMatrix>(*format, tensor->ne[1], tensor->ne[0], wanted);
}

Tensor Weights::matrix(const std::vector<std::string> &names,
                       const std::optional<std::string> &instruction_set, std::optional<ggml_type> type) {
    if (type)
        require_floats(*type);
    std::lock_guard lock(mutex_);
    std::vector<const FileTensor *> parts = parts_of_matrix(names, type);
    Key key = "matrix";
    if (type)
        key += std::string("=") + ggml_type_name(*type);
    for (const std::string &name : names)
        key += ":" + name;
    if (instruction_set)
        key += ":" + *instruction_set;
    const auto found = known_.find(key);
    if (found != known_.end())
        return leaf(found->second);
    std::vector<int64_t> shape = parts.front()->shape;
    for (size_t i = 1; i < parts.size(); ++i)
        shape[1] += parts[i]->shape[1];
    ggml_tensor *raw = describe_tensor(names.front(), type.value_or(parts.front()->type), shape);
    if (auto packed = type ? nullptr : packed_matrix(raw, instruction_set)) {
        to_pack_.push_back({packed, std::move(parts)});
        return leaf(
            known_.emplace(key, Tensor{raw, nullptr, nullptr, true, std::move(packed)}).first->second);
    }
    const auto buffer_type = choose_buffer_type(raw, true);
    const bool repacked = buffer_type != backend_->default_buffer_type();
    pending_.push_back({raw, std::move(parts), {}, buffer_type});
    return leaf(known_.emplace(key, Tensor{raw, nullptr, nullptr, repacked}).first->second);
}

Tensor Weights::tensor(const std::string &name, std::optional<ggml_type> type) {
    std::lock_guard lock(mutex_);
    const FileTensor &stored = file_->weight(name);
    const ggml_type wanted = type.value_or(stored.type);
    const Key key = std::string(ggml_type_name(wanted)) + ":" + name;
    const auto found = known_.find(key);
    if (found != known_.end())
        return leaf(found->second);
    if (wanted != stored.type)
        require_floats(wanted);
    ggml_tensor *raw = describe_tensor(stored.name, wanted, stored.shape);
    pending_.push_back({raw, {&stored}, {}, backend_->default_buffer_type()});
    return leaf(known_.emplace(key, Tensor{raw, nullptr, nullptr, false}).first->second);
}

Tensor Weights::constant(const std::string &name, const std::vector<int64_t> &shape, const float *values,
                         ggml_type type, bool as_matrix) {
    std::lock_guard lock(mutex_);
    const Key key = "constant:" + name;
    if (known_.count(key) != 0)
        throw std::invalid_argument("there already is a constant '" + name + "'");
    if (shape.empty() || shape.size() > 4)
        throw std::invalid_argument("a constant has 1 to 4 dimensions");
    int64_t rows = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] < 1)
            throw std::invalid_argument("a constant without values: '" + name + "'");
        if (i > 0)
            rows *= shape[i];
    }
    if (shape[0] % ggml_blck_size(type) != 0) {
        throw std::invalid_argument("rows of " + std::to_string(shape[0]) + " do not fit " +
                                    ggml_type_name(type));
    }
    ggml_tensor *raw = describe_tensor(name.substr(0, GGML_MAX_NAME - 1), type, shape);
    std::vector<uint8_t> contents = from_float32(type, values, rows, shape[0]);
    const auto buffer_type = choose_buffer_type(raw, as_matrix);
    const bool repacked = as_matrix && buffer_type != backend_->default_buffer_type();
    pending_.push_back({raw, {}, std::move(contents), buffer_type});
    return leaf(known_.emplace(key, Tensor{raw, nullptr, nullptr, repacked}).first->second);
}

ggml_backend_buffer_type_t Weights::choose_buffer_type(const ggml_tensor *tensor, bool as_matrix) const {
    if (as_matrix && ggml_n_dims(tensor) <= 2) {
        for (const auto type : backend_->matrix_buffer_types()) {
            if (matrix_product_supported(type, tensor))
                return type;
        }
    }
    return backend_->default_buffer_type();
}

// GGML answers this question about an operation, so a small one is described: matrix x one column.
bool Weights::matrix_product_supported(ggml_backend_buffer_type_t type, const ggml_tensor *matrix) const {
    const Descriptions context(4 * ggml_tensor_overhead());
    ggml_tensor *weight = ggml_new_tensor_2d(context.get(), matrix->type, matrix->ne[0], matrix->ne[1]);
    ggml_tensor *column = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, matrix->ne[0], 1);
    const auto probe = own(backend_->device(), ggml_backend_buft_alloc_buffer(type, 0));
    if (!probe)
        return false;
    weight->buffer = probe.get();
    ggml_tensor *product = ggml_mul_mat(context.get(), weight, column);
    return ggml_backend_dev_supports_op(backend_->device(), product);
}

bool Weights::can_stay_mapped(const Pending &pending) const {
    return backend_->is_cpu() && pending.stored.size() == 1 &&
           pending.tensor->type == pending.stored.front()->type &&
           pending.buffer_type == backend_->default_buffer_type() &&
           reinterpret_cast<uintptr_t>(pending.stored.front()->data) %
                   ggml_backend_buft_get_alignment(pending.buffer_type) ==
               0;
}

void Weights::map_in_place(const Pending &pending) {
    if (!mapped_buffer_) {
        const MappedFile &mapping = file_->mapping();
        // GGML does not write to weights: the constness of the mapping is only lost in its signature.
        mapped_buffer_ = own(backend_->device(), ggml_backend_cpu_buffer_from_ptr(
                                                     const_cast<uint8_t *>(mapping.data()), mapping.size()));
        if (!mapped_buffer_)
            throw DeviceError(file_->path() + ": the mapped file cannot be used as a buffer");
        ggml_backend_buffer_set_usage(mapped_buffer_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    const FileTensor &stored = *pending.stored.front();
    if (ggml_backend_tensor_alloc(mapped_buffer_.get(), pending.tensor, const_cast<uint8_t *>(stored.data)) !=
        GGML_STATUS_SUCCESS) {
        throw DeviceError(file_->path() + ": tensor '" + stored.name + "' cannot be used where it lies");
    }
    mapped_bytes_ += stored.bytes;
}

void Weights::allocate(ggml_backend_buffer_type_t type, const std::vector<Pending *> &group) {
    const size_t alignment = ggml_backend_buft_get_alignment(type);
    const auto aligned = [alignment](size_t bytes) {
        return (bytes + alignment - 1) / alignment * alignment;
    };
    size_t total = 0;
    for (const Pending *pending : group)
        total += aligned(ggml_backend_buft_get_alloc_size(type, pending->tensor));
    const ErrorsAre level(LogLevel::info);
    auto buffer = own(backend_->device(), ggml_backend_buft_alloc_buffer(type, total));
    if (!buffer)
        backend_->refuse_memory("the weights of " + file_->path(), total);
    ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    auto *base = static_cast<uint8_t *>(ggml_backend_buffer_get_base(buffer.get()));
    size_t offset = 0;
    for (const Pending *pending : group) {
        if (ggml_backend_tensor_alloc(buffer.get(), pending->tensor, base + offset) != GGML_STATUS_SUCCESS) {
            throw DeviceError(file_->path() + ": tensor '" + pending->tensor->name + "' could not be placed");
        }
        offset += aligned(ggml_backend_buft_get_alloc_size(type, pending->tensor));
    }
    allocated_bytes_ += total;
    buffers_.push_back(std::move(buffer));
    auto next = group.begin();
    try {
        for (; next != group.end(); ++next)
            fill(**next);
    } catch (...) {
        // A place without contents is none.
        for (; next != group.end(); ++next) {
            (*next)->tensor->buffer = nullptr;
            (*next)->tensor->data = nullptr;
        }
        throw;
    }
}

void Weights::fill(const Pending &pending) {
    ggml_tensor *tensor = pending.tensor;
    if (pending.stored.empty()) {
        ggml_backend_tensor_set(tensor, pending.contents.data(), 0, pending.contents.size());
        return;
    }
    const auto converted = [tensor](const FileTensor *stored) { return stored->type != tensor->type; };
    if (std::any_of(pending.stored.begin(), pending.stored.end(), converted)) {
        size_t offset = 0;
        for (const FileTensor *stored : pending.stored) {
            fill_converted(*stored, tensor, offset);
            offset += ggml_row_size(tensor->type, tensor->ne[0]) * static_cast<size_t>(rows_of(*stored));
        }
        return;
    }
    if (pending.stored.size() == 1) {
        const FileTensor &stored = *pending.stored.front();
        ggml_backend_tensor_set(tensor, stored.data, 0, stored.bytes);
        return file_->mapping().release(stored.data, stored.bytes);
    }
    // A repacked layout takes a matrix as a whole only.
    std::vector<uint8_t> joined;
    for (const FileTensor *stored : pending.stored) {
        joined.insert(joined.end(), stored->data, stored->data + stored->bytes);
        file_->mapping().release(stored->data, stored->bytes);
    }
    ggml_backend_tensor_set(tensor, joined.data(), 0, joined.size());
}

void Weights::fill_converted(const FileTensor &stored, ggml_tensor *tensor, size_t offset) {
    const int64_t rows = rows_of(stored);
    const size_t row_bytes = ggml_row_size(tensor->type, tensor->ne[0]);
    const int64_t at_once = std::max(int64_t{1}, static_cast<int64_t>(bytes_of_piece / row_bytes));
    for (int64_t row = 0; row < rows; row += at_once) {
        const auto piece = converted_rows(stored, tensor->type, row, std::min(at_once, rows - row));
        ggml_backend_tensor_set(tensor, piece.data(), offset + static_cast<size_t>(row) * row_bytes,
                                piece.size());
    }
    file_->mapping().release(stored.data, stored.bytes);
}

// A GPU may hold a large model in another type than the file: all threads share its rows.
std::vector<uint8_t> Weights::converted_rows(const FileTensor &stored, ggml_type type, int64_t first,
                                             int64_t count) const {
    const int64_t width = stored.shape.front();
    const size_t stored_row = ggml_row_size(stored.type, width), row_bytes = ggml_row_size(type, width);
    std::vector<uint8_t> result(static_cast<size_t>(count) * row_bytes);
    std::atomic<int64_t> next = 0;
    const auto convert = [&] {
        std::vector<float> row(static_cast<size_t>(width));
        for (int64_t begin = next.fetch_add(rows_at_once); begin < count;
             begin = next.fetch_add(rows_at_once)) {
            for (int64_t r = begin; r < std::min(begin + rows_at_once, count); ++r) {
                to_float32(stored.type, stored.data + static_cast<size_t>(first + r) * stored_row, row.data(),
                           width);
                const std::vector<uint8_t> converted = from_float32(type, row.data(), 1, width);
                std::memcpy(result.data() + static_cast<size_t>(r) * row_bytes, converted.data(), row_bytes);
            }
        }
    };
    const int64_t shares = (count + rows_at_once - 1) / rows_at_once;
    in_threads(static_cast<size_t>(std::min<int64_t>(backend_->threads(), shares)), convert);
    return result;
}

// The matrices of a large model take a second to pack: all threads share them.
void Weights::pack() {
    if (to_pack_.empty())
        return;
    backend_->rest();
    try {
        for (const Packing &packing : to_pack_)
            packing.matrix->allocate();
    } catch (const std::bad_alloc &) {
        size_t total = 0;
        for (const Packing &packing : to_pack_)
            total += static_cast<size_t>(packing.matrix->bytes());
        backend_->refuse_memory("the weights of " + file_->path(), total);
    }
    std::atomic<size_t> next = 0;
    in_threads(std::min(static_cast<size_t>(backend_->threads()), to_pack_.size()), [&] {
        for (size_t i = next++; i < to_pack_.size(); i = next++) {
            int64_t row = 0;
            for (const FileTensor *stored : to_pack_[i].stored) {
                const int64_t rows = rows_of(*stored);
                to_pack_[i].matrix->pack(row, rows, stored->data);
                file_->mapping().release(stored->data, stored->bytes);
                row += rows;
            }
        }
    });
    for (const Packing &packing : to_pack_)
        allocated_bytes_ += static_cast<size_t>(packing.matrix->bytes());
    to_pack_.clear();
}

// What fails keeps waiting, and with it all that was not reached: there may be more memory the next time.
void Weights::place() {
    std::lock_guard lock(mutex_);
    guarded(backend_->device(), nullptr, [this] {
        pack();
        place_pending();
    });
}

void Weights::place_pending() {
    std::vector<Pending> waiting;
    waiting.swap(pending_);
    try {
        std::map<ggml_backend_buffer_type_t, std::vector<Pending *>> groups;
        for (Pending &pending : waiting) {
            if (can_stay_mapped(pending)) {
                map_in_place(pending);
            } else {
                groups[pending.buffer_type].push_back(&pending);
            }
        }
        for (const auto &[type, group] : groups)
            allocate(type, group);
    } catch (...) {
        for (Pending &pending : waiting) {
            if (pending.tensor->buffer == nullptr)
                pending_.push_back(std::move(pending));
        }
        throw;
    }
}

}  // namespace ggtts
