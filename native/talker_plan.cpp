#include "talker_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "errors.hpp"
#include "predictor_weights.hpp"
#include "rotations.hpp"

namespace ggtts {
namespace {

using predictor::WeightKind;
using talker::Cache;
using talker::Letter;
using talker::Matrix;
using talker::Sizes;
using talker::Step;

constexpr size_t alignment = 256;
constexpr int most_head_dim = 128;

size_t aligned(size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

std::string layer_scope(const std::string &scope, int layer) {
    return scope + "blk." + std::to_string(layer) + ".";
}

// The matrices of one layer.
constexpr const char *layer_matrices[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                          "ffn_gate", "ffn_up", "ffn_down"};
// Parts of a layer that the kernel lacks.
constexpr const char *unknown_parts[] = {"attn_q.bias",    "attn_k.bias",   "attn_v.bias", "attn_output.bias",
                                         "attn_norm.bias", "ffn_norm.bias", "attn_scale",  "ffn_scale"};

std::vector<std::string> matrix_names(const std::string &scope, int layers) {
    std::vector<std::string> names{scope + "codec_head.weight"};
    for (int layer = 0; layer < layers; ++layer) {
        for (const char *name : layer_matrices)
            names.push_back(layer_scope(scope, layer) + name + ".weight");
    }
    return names;
}

// The type that all matrices have; nothing where they differ, or the kernel lacks a part.
std::optional<WeightKind> common_kind(const GgufFile &file, const std::string &scope, const Sizes &sizes) {
    std::optional<WeightKind> kind;
    for (const std::string &name : matrix_names(scope, sizes.layers)) {
        const auto found = file.contains(name) ? weight_kind(file.tensor(name).type) : std::nullopt;
        if (!found || (kind && kind != found) ||
            file.tensor(name).shape[0] % std::max(4, talker::width_multiple(*found)) != 0)
            return std::nullopt;
        kind = found;
    }
    for (int layer = 0; layer < sizes.layers; ++layer) {
        for (const char *name : unknown_parts) {
            if (file.contains(layer_scope(scope, layer) + name))
                return std::nullopt;
        }
    }
    const bool has_norms = file.contains(layer_scope(scope, 0) + "attn_q_norm.weight");
    const bool has_bias =
        file.contains(scope + "codec_head.bias") || file.contains(scope + "output_norm.bias");
    const bool fits = sizes.head_dim % 4 == 0 && sizes.head_dim <= most_head_dim;
    return has_norms && fits && !has_bias ? kind : std::nullopt;
}

// The rows of a matrix, which must be so wide.
int64_t rows_of(const GgufFile &file, const std::string &name, int width) {
    const std::vector<int64_t> &shape = file.tensor(name).shape;
    if (shape.empty() || shape.size() > 2 || shape[0] != width)
        throw FileError(file.path() + ": '" + name + "' is not " + std::to_string(width) + " wide");
    return shape.size() > 1 ? shape[1] : 1;
}

void check_position(int position, int end) {
    if (position < 0 || position >= end)
        throw std::invalid_argument("position " + std::to_string(position) + " is none of the cache");
}

}  // namespace

bool TalkerPlan::fits(const Weights &weights, const std::string &scope, const Sizes &sizes) {
    const Backend &backend = *weights.backend();
    return predictor::has_cuda() && !backend.is_stock() && backend.cuda_index() &&
           common_kind(weights.file(), scope, sizes);
}

TalkerPlan::TalkerPlan(const std::shared_ptr<Weights> &weights, const std::string &scope, const Sizes &sizes,
                       float rope_theta, const Emulation *emulation)
    : weights_(weights), scope_(scope), rope_theta_(rope_theta) {
    const auto kind = common_kind(weights->file(), scope, sizes);
    if (!kind)
        throw std::invalid_argument(weights->file().path() +
                                    ": the talker's kernel does not know these weights");
    kind_ = *kind;
    model_.sizes = sizes;
    Backend &backend = *weights->backend();
    std::lock_guard lock(backend.turn());
    const GuardedCalls guarded = backend.guarded();
    try {
        open(backend, emulation);
        load(scope, emulation != nullptr);
        allocate_buffers();
        machine_->finish();
    } catch (const predictor::OutOfMemory &error) {
        backend.refuse_memory("the talker's kernel", error.wanted);
    } catch (const FileError &) {
        throw;
    } catch (const std::runtime_error &error) {
        backend.examine();
        throw DeviceError(error.what());
    }
}

void TalkerPlan::open(const Backend &backend, const Emulation *emulation) {
    if (emulation != nullptr) {
        machine_ = predictor::emulated_machine(emulation->blocks, emulation->warps);
        runner_ = talker::emulated_runner(kind_, emulation->blocks, emulation->warps);
        batch_runner_ = talker::batch::emulated_batch_runner(kind_, model_.sizes, emulation->blocks);
        return;
    }
    const auto index = backend.cuda_index();
    if (!index)
        throw DeviceError("the talker's kernel runs on CUDA devices only, not on " + backend.info().name);
    machine_ = predictor::cuda_machine(*index);
    runner_ = talker::cuda_runner(*index, *machine_, kind_, model_.sizes);
    if (!runner_)
        throw DeviceError("the talker's kernel does not fit this device");
    batch_runner_ = talker::batch::cuda_batch_runner(*index, *machine_, kind_, model_.sizes);
}

template <class Value>
Value *TalkerPlan::allocate(int64_t count) {
    return static_cast<Value *>(machine_->allocate(static_cast<size_t>(count) * sizeof(Value)));
}

template <class Value>
const Value *TalkerPlan::upload(const std::vector<Value> &values) {
    auto *device = allocate<Value>(static_cast<int64_t>(values.size()));
    machine_->upload(device, values.data(), values.size() * sizeof(Value));
    machine_->finish();  // the values may go
    return device;
}

// Matrices that are used as one.
struct TalkerPlan::Group {
    std::vector<std::string> names;
    int rows, width;
    int together = talker::most_rows_together;
    bool alternating = false;
};

std::vector<TalkerPlan::Group> TalkerPlan::groups(const std::string &scope) const {
    const Sizes &sizes = model_.sizes;
    const int attended = sizes.heads * sizes.head_dim, kept = sizes.kv_heads * sizes.head_dim;
    std::vector<Group> groups;
    for (int layer = 0; layer < sizes.layers; ++layer) {
        const auto named = [&](const char *name) { return layer_scope(scope, layer) + name + ".weight"; };
        groups.push_back(
            {{named("attn_q"), named("attn_k"), named("attn_v")}, attended + 2 * kept, sizes.width});
        groups.push_back({{named("attn_output")}, sizes.width, attended, 1});
        groups.push_back({{named("ffn_gate"), named("ffn_up")},
                          2 * sizes.ffn_width,
                          sizes.width,
                          talker::most_rows_together,
                          true});
        groups.push_back({{named("ffn_down")}, sizes.width, sizes.ffn_width, 1});
    }
    groups.push_back({{scope + "codec_head.weight"}, sizes.vocabulary, sizes.width});
    return groups;
}

void TalkerPlan::load(const std::string &scope, bool in_file) {
    const std::vector<Group> all = groups(scope);
    if (!in_file) {
        for (const Group &group : all)
            tensors_of(group);
        weights_->place();
    }
    std::vector<Matrix> matrices;
    for (const Group &group : all)
        matrices.push_back(load_matrix(group, in_file));
    model_.matrix_count = static_cast<int>(matrices.size());
    model_.matrices = upload(matrices);
    const Sizes &sizes = model_.sizes;
    std::vector<talker::Norms> norms;
    for (int layer = 0; layer < sizes.layers; ++layer) {
        const auto named = [&](const char *name) { return layer_scope(scope, layer) + name + ".weight"; };
        norms.push_back(
            {load_vector(named("attn_norm"), sizes.width), load_vector(named("attn_q_norm"), sizes.head_dim),
             load_vector(named("attn_k_norm"), sizes.head_dim), load_vector(named("ffn_norm"), sizes.width)});
    }
    model_.norms = upload(norms);
    model_.output_norm = load_vector(scope + "output_norm.weight", sizes.width);
}

// As core/nn asks for them: what stands side by side is one matrix, gate and up are two.
std::vector<const ggml_tensor *> TalkerPlan::tensors_of(const Group &group) {
    if (!group.alternating)
        return {weights_->matrix(group.names, std::nullopt, std::nullopt).raw};
    std::vector<const ggml_tensor *> tensors;
    for (const std::string &name : group.names)
        tensors.push_back(weights_->matrix({name}, std::nullopt, std::nullopt).raw);
    return tensors;
}

Matrix TalkerPlan::load_matrix(const Group &group, bool in_file) {
    const GgufFile &file = weights_->file();
    const ggml_type type = file.tensor(group.names.front()).type;
    Matrix matrix;
    matrix.width = group.width;
    matrix.row_bytes = static_cast<int>(ggml_row_size(type, group.width));
    matrix.pieces = (group.width + talker::piece_width(kind_) - 1) / talker::piece_width(kind_);
    matrix.together = group.together;
    matrix.alternating = group.alternating;
    size_t part = 0;
    const auto add = [&](const void *data, int64_t rows) {
        matrix.rows += static_cast<int>(rows);
        matrix.parts[part] = static_cast<const uint8_t *>(data);
        std::fill(matrix.ends + part, std::end(matrix.ends), matrix.rows);
        ++part;
    };
    if (in_file) {
        for (const std::string &name : group.names)
            add(file.tensor(name).data, rows_of(file, name, group.width));
    } else {
        for (const ggml_tensor *tensor : tensors_of(group))
            add(tensor->data, ggml_nrows(tensor));
    }
    if (matrix.rows != group.rows) {
        throw FileError(file.path() + ": '" + group.names.front() + "' has " + std::to_string(matrix.rows) +
                        " rows, not " + std::to_string(group.rows));
    }
    const bool apart = part > 1 && !group.alternating;
    matrix.stride = apart ? 0 : (group.alternating ? 1 : group.together) * matrix.row_bytes;
    return matrix;
}

const float *TalkerPlan::load_vector(const std::string &name, int size) {
    const FileTensor &tensor = weights_->file().tensor(name);
    if (tensor.shape.size() != 1 || tensor.shape[0] != size) {
        throw FileError(weights_->file().path() + ": '" + name + "' is not " + std::to_string(size) +
                        " long");
    }
    std::vector<float> values(static_cast<size_t>(size));
    to_float32(tensor.type, tensor.data, values.data(), size);
    return upload(values);
}

void TalkerPlan::allocate_buffers() {
    const Sizes &sizes = model_.sizes;
    const int64_t attended = static_cast<int64_t>(sizes.heads) * sizes.head_dim;
    const int64_t kept = static_cast<int64_t>(sizes.kv_heads) * sizes.head_dim;
    rotation_at_ = aligned(static_cast<size_t>(sizes.width) * sizeof(Letter));
    caches_at_ = rotation_at_ + aligned(static_cast<size_t>(sizes.head_dim) * sizeof(float));
    request_bytes_ = caches_at_ + static_cast<size_t>(sizes.layers) * sizeof(Cache);
    request_ = allocate<uint8_t>(static_cast<int64_t>(request_bytes_));
    host_request_ = static_cast<uint8_t *>(machine_->allocate_host(request_bytes_));
    answer_bytes_ = static_cast<size_t>(sizes.width + sizes.vocabulary) * sizeof(float);
    answer_ = allocate<float>(sizes.width + sizes.vocabulary);
    host_answer_ = static_cast<float *>(machine_->allocate_host(answer_bytes_));
    step_.x = reinterpret_cast<Letter *>(request_);
    step_.rotation = reinterpret_cast<const float *>(request_ + rotation_at_);
    step_.caches = reinterpret_cast<const Cache *>(request_ + caches_at_);
    step_.inputs = allocate<Letter>(attended + 2 * kept);
    step_.parts = allocate<Letter>(runner_->blocks() * attended);
    step_.logs = allocate<Letter>(static_cast<int64_t>(runner_->blocks()) * sizes.heads);
    step_.attended = allocate<Letter>(attended);
    step_.gated = allocate<Letter>(sizes.ffn_width);
    step_.hidden = answer_;
    step_.logits = answer_ + sizes.width;
}

int TalkerPlan::most_positions() const {
    return talker::most_keys(model_.sizes, runner_->blocks());
}

// Checks that there is such a slot.
KeptSlots TalkerPlan::kept_in(const State &state, int slot) const {
    const Sizes &sizes = model_.sizes;
    const ggml_tensor *first = state.find("keys.0");
    KeptSlots kept;
    kept.capacity = static_cast<int>(first->ne[1]);
    kept.half = first->type == GGML_TYPE_F16;
    kept.slot_bytes = static_cast<int64_t>(first->nb[3]);
    for (int layer = 0; layer < sizes.layers; ++layer) {
        const ggml_tensor *both[] = {state.find("keys." + std::to_string(layer)),
                                     state.find("values." + std::to_string(layer))};
        for (const ggml_tensor *tensor : both) {
            const bool fits = tensor->ne[0] == sizes.head_dim && tensor->ne[1] == kept.capacity &&
                              tensor->ne[2] == sizes.kv_heads && slot >= 0 && slot < tensor->ne[3];
            if (!fits || tensor->type != first->type || (!kept.half && tensor->type != GGML_TYPE_F32))
                throw std::invalid_argument("'" + std::string(tensor->name) + "' is no cache with a slot " +
                                            std::to_string(slot) + " that the talker's kernel knows");
        }
        kept.caches.push_back({static_cast<uint8_t *>(both[0]->data), static_cast<uint8_t *>(both[1]->data)});
    }
    return kept;
}

Step TalkerPlan::describe_step(const State &state, int slot, int position, const float *row) {
    const Sizes &sizes = model_.sizes;
    Step step = step_;
    KeptSlots kept = kept_in(state, slot);
    for (Cache &cache : kept.caches)
        cache = {cache.keys + slot * kept.slot_bytes, cache.values + slot * kept.slot_bytes};
    step.capacity = kept.capacity;
    step.half_cache = kept.half;
    check_position(position, std::min(step.capacity, most_positions()));
    const talker::Chunks chunks = talker::chunks_for(sizes, position + 1, runner_->blocks());
    step.position = position;
    step.chunk = chunks.size;
    step.chunks = chunks.count;
    step.time = time_;
    auto *letters = reinterpret_cast<Letter *>(host_request_);
    for (int i = 0; i < sizes.width; ++i)
        letters[i] = {row[i], time_};
    std::vector<float> rotation;
    add_rotation(rotation, position, sizes.head_dim, rope_theta_);
    std::memcpy(host_request_ + rotation_at_, rotation.data(), rotation.size() * sizeof(float));
    std::memcpy(host_request_ + caches_at_, kept.caches.data(), kept.caches.size() * sizeof(Cache));
    return step;
}

void TalkerPlan::step(const State &state, int slot, int position, const float *row, float *hidden,
                      float *logits) {
    weights_->backend()->give_way();
    std::lock_guard lock(weights_->backend()->turn());
    const GuardedCalls guarded = weights_->backend()->guarded();
    if (failed_)
        throw DeviceError("the talker's kernel failed before");
    const Step step = describe_step(state, slot, position, row);
    try {
        machine_->upload(request_, host_request_, request_bytes_);
        time_ += talker::times_of_step(sizes());
        runner_->run(model_, step);
        machine_->download(host_answer_, answer_, answer_bytes_);
        machine_->finish();
    } catch (const std::runtime_error &error) {
        failed_ = true;
        weights_->backend()->examine();
        throw DeviceError(error.what());
    }
    std::copy_n(host_answer_, sizes().width, hidden);
    std::copy_n(host_answer_ + sizes().width, sizes().vocabulary, logits);
}

// The power of two of each matrix; see `lift_of`.
std::vector<float> TalkerPlan::lifts() const {
    std::vector<float> lifts;
    for (const Group &group : groups(scope_)) {
        std::vector<const FileTensor *> tensors;
        for (const std::string &name : group.names)
            tensors.push_back(&weights_->file().tensor(name));
        lifts.push_back(lift_of(tensors));
    }
    return lifts;
}

bool TalkerPlan::prepare_together() {
    std::lock_guard lock(weights_->backend()->turn());
    const GuardedCalls guarded = weights_->backend()->guarded();
    if (batch_ != nullptr || batch_runner_ == nullptr)
        return batch_ != nullptr;
    try {
        batch_ = std::make_unique<TalkerBatchPlan>(*machine_, std::move(batch_runner_), model_, lifts(),
                                                   rope_theta_);
    } catch (const predictor::OutOfMemory &error) {
        weights_->backend()->refuse_memory("the talker's kernel for several utterances", error.wanted);
    } catch (const std::runtime_error &error) {
        failed_ = true;
        weights_->backend()->examine();
        throw DeviceError(error.what());
    }
    return true;
}

std::shared_ptr<StepsUnderWay> TalkerPlan::begin_together(const State &state, const NewPositions &positions) {
    if (!prepare_together())
        throw std::invalid_argument("the talker's kernel adds one position at a time here");
    auto steps = std::make_shared<StepsUnderWay>();
    if (positions.count == 0)
        return steps;
    weights_->backend()->give_way();
    std::lock_guard lock(weights_->backend()->turn());
    const GuardedCalls guarded = weights_->backend()->guarded();
    if (failed_)
        throw DeviceError("the talker's kernel failed before");
    const auto [least, most] = std::minmax_element(positions.slots, positions.slots + positions.count);
    kept_in(state, *least);
    const KeptSlots kept = kept_in(state, *most);
    for (int i = 0; i < positions.count; ++i)
        check_position(positions.positions[i], kept.capacity);
    try {
        batch_->begin(kept, positions);
    } catch (const std::runtime_error &error) {
        failed_ = true;
        weights_->backend()->examine();
        throw DeviceError(error.what());
    }
    weights_->backend()->turn().leave([this, steps] {
        try {
            batch_->finish();
        } catch (const std::runtime_error &error) {
            failed_ = true;
            weights_->backend()->examine();
            steps->error = std::make_exception_ptr(DeviceError(error.what()));
        }
    });
    return steps;
}

void TalkerPlan::finish_together(const StepsUnderWay &steps) {
    std::lock_guard lock(weights_->backend()->turn());
    if (steps.error)
        std::rethrow_exception(steps.error);
}

}  // namespace ggtts
