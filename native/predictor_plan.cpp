#include "predictor_plan.hpp"

#include <frame_steps.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "errors.hpp"
#include "predictor_weights.hpp"

namespace ggtts {
namespace {

using predictor::Draw;
using predictor::Layer;
using predictor::Matrix;
using predictor::Sizes;

constexpr size_t alignment = 256;

size_t aligned(size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

// What the names of a layer end in, and those beside the layers; anything else is a part that the kernel
// lacks.
const std::set<std::string> &known_matrices() {
    static const std::set<std::string> names = {
        "attn_q.weight", "attn_k.weight",   "attn_v.weight",   "attn_output.weight", "ffn_gate.weight",
        "ffn_up.weight", "ffn_down.weight", "mtp_proj.weight", "lm_head.weight",     "codec_embd.weight"};
    return names;
}

const std::set<std::string> &known_vectors() {
    static const std::set<std::string> names = {"attn_norm.weight",   "attn_q_norm.weight",
                                                "attn_k_norm.weight", "ffn_norm.weight",
                                                "output_norm.weight", "mtp_proj.bias"};
    return names;
}

// "blk.3.attn_q.weight" -> "attn_q.weight", "lm_head.3.weight" -> "lm_head.weight"
std::string without_numbers(const std::string &name) {
    std::string result;
    size_t begin = 0;
    while (begin <= name.size()) {
        const size_t end = std::min(name.find('.', begin), name.size());
        const std::string part = name.substr(begin, end - begin);
        const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
        if (!is_number && part != "blk")
            result += (result.empty() ? "" : ".") + part;
        begin = end + 1;
    }
    return result;
}

// The type that all matrices of a scope have; nothing where they differ or the kernel lacks a part.
std::optional<predictor::WeightKind> common_kind(const GgufFile &file, const std::string &scope) {
    std::optional<predictor::WeightKind> kind;
    for (const FileTensor &tensor : file.tensors()) {
        if (tensor.name.rfind(scope, 0) != 0)
            continue;
        const std::string name = without_numbers(tensor.name.substr(scope.size()));
        if (known_vectors().count(name) != 0)
            continue;
        const auto found = weight_kind(tensor.type);
        if (known_matrices().count(name) == 0 || !found || (kind && kind != found) ||
            tensor.shape[0] % 4 != 0)
            return std::nullopt;
        kind = found;
    }
    return file.contains(scope + "blk.0.attn_q_norm.weight") ? kind : std::nullopt;
}

std::unique_ptr<predictor::Machine> open_machine(const Backend &backend,
                                                 const PredictorPlan::Emulation *emulation) {
    if (emulation != nullptr)
        return predictor::emulated_machine(emulation->blocks, emulation->warps);
    const auto index = backend.cuda_index();
    if (!index)
        throw DeviceError("the predictor's kernel runs on CUDA devices only, not on " + backend.info().name);
    return predictor::cuda_machine(*index);
}

Draw draw_of(const FrameDraw &asked, int codebooks) {
    const SamplingOptions &options = asked.options;
    // In double precision first, as the sampler of the host computes it.
    const float cut = options.top_p >= 1.0 ? -1.0F : static_cast<float>(1.0 - options.top_p);
    return {asked.seed,    asked.frame * static_cast<uint64_t>(codebooks),   options.temperature, cut,
            options.top_k, !options.do_sample || options.temperature == 0.0F};
}

}  // namespace

int choose_code(const float *logits, int entries, const FrameDraw &draw, int codebooks, int codebook) {
    return predictor::emulated_choice(logits, entries, draw_of(draw, codebooks),
                                      static_cast<uint64_t>(codebook));
}

// What goes in and out with them.
struct PredictorPlan::Part {
    const float *inputs;
    const FrameDraw *draws;
    int32_t *codes;
    float *sums;
    float *logits;
};

bool PredictorPlan::fits(const Backend &backend, const GgufFile &file, const std::string &scope) {
    return predictor::has_cuda() && !backend.is_stock() && backend.cuda_index() && common_kind(file, scope);
}

PredictorPlan::PredictorPlan(std::shared_ptr<Backend> backend, std::shared_ptr<const GgufFile> file,
                             const std::string &scope, const Sizes &sizes, float rope_theta,
                             const Emulation *emulation)
    : backend_(std::move(backend)), model_{}, buffers_{}, tensor_buffers_{} {
    const auto kind = common_kind(*file, scope);
    if (!kind)
        throw std::invalid_argument(file->path() + ": the predictor's kernel does not know these weights");
    kind_ = *kind;
    model_.sizes = sizes;
    std::lock_guard lock(backend_->turn());
    const GuardedCalls guarded = backend_->guarded();
    try {
        machine_ = open_machine(*backend_, emulation);
        load(*file, scope, rope_theta);
        most_columns_ = machine_->most_columns(kind_, model_);
        if (most_columns_ == 0)
            throw DeviceError("the predictor's kernel does not fit this device");
        most_tensor_columns_ = backend_->exact() ? 0 : machine_->most_tensor_columns(kind_, model_);
        allocate_buffers();
        if (most_tensor_columns_ > 0)
            allocate_tensor_buffers();
        machine_->finish();
    } catch (const predictor::OutOfMemory &error) {
        backend_->refuse_memory("the code predictor", error.wanted);
    } catch (const FileError &) {
        throw;
    } catch (const std::invalid_argument &) {
        throw;
    } catch (const std::runtime_error &error) {
        backend_->examine();
        throw DeviceError(error.what());
    }
}

template <class Value>
Value *PredictorPlan::allocate(int64_t count) {
    return static_cast<Value *>(machine_->allocate(static_cast<size_t>(count) * sizeof(Value)));
}

template <class Value>
const Value *PredictorPlan::upload(const std::vector<Value> &values) {
    Value *device = allocate<Value>(static_cast<int64_t>(values.size()));
    machine_->upload(device, values.data(), values.size() * sizeof(Value));
    machine_->finish();  // the values may go
    return device;
}

void PredictorPlan::load(const GgufFile &file, const std::string &scope, float rope_theta) {
    const Sizes &sizes = model_.sizes;
    std::vector<Layer> layers;
    for (int index = 0; index < sizes.layers; ++index)
        layers.push_back(load_layer(file, scope + "blk." + std::to_string(index) + "."));
    model_.layers = upload(layers);
    std::vector<Matrix> heads, embeddings;
    for (int index = 0; index + 1 < sizes.codebooks; ++index) {
        const std::string number = std::to_string(index);
        heads.push_back(
            load_matrix(file, {scope + "lm_head." + number + ".weight"}, sizes.entries, sizes.width));
        embeddings.push_back(load_matrix(file, {scope + "codec_embd." + number + ".weight"}, sizes.entries,
                                         sizes.talker_width));
    }
    model_.heads = upload(heads);
    model_.embeddings = upload(embeddings);
    if (file.contains(scope + "mtp_proj.weight")) {
        model_.projection = load_matrix(file, {scope + "mtp_proj.weight"}, sizes.width, sizes.talker_width);
        if (file.contains(scope + "mtp_proj.bias"))
            model_.projection_bias = load_vector(file, scope + "mtp_proj.bias", sizes.width);
    } else if (sizes.width != sizes.talker_width) {
        throw FileError(file.path() + ": talker and code predictor differ in width, and nothing projects");
    }
    const std::vector<predictor::Step> steps =
        predictor::frame_steps(sizes, layers, heads, model_.projection);
    model_.steps = upload(steps);
    model_.step_count = static_cast<int>(steps.size());
    model_.output_norm = load_vector(file, scope + "output_norm.weight", sizes.width);
    model_.rotation = load_rotation(rope_theta);
}

Layer PredictorPlan::load_layer(const GgufFile &file, const std::string &scope) {
    const Sizes &sizes = model_.sizes;
    const auto named = [&](const char *name) { return scope + name + ".weight"; };
    const int attended = sizes.heads * sizes.head_dim, kept = sizes.kv_heads * sizes.head_dim;
    Layer layer{};
    layer.qkv = load_matrix(file, {named("attn_q"), named("attn_k"), named("attn_v")}, attended + 2 * kept,
                            sizes.width);
    layer.output = load_matrix(file, {named("attn_output")}, sizes.width, attended);
    layer.gate_up =
        load_matrix(file, {named("ffn_gate"), named("ffn_up")}, 2 * sizes.ffn_width, sizes.width, true);
    layer.down = load_matrix(file, {named("ffn_down")}, sizes.width, sizes.ffn_width);
    layer.attention_norm = load_vector(file, named("attn_norm"), sizes.width);
    layer.query_norm = load_vector(file, named("attn_q_norm"), sizes.head_dim);
    layer.key_norm = load_vector(file, named("attn_k_norm"), sizes.head_dim);
    layer.feed_forward_norm = load_vector(file, named("ffn_norm"), sizes.width);
    return layer;
}

Matrix PredictorPlan::load_matrix(const GgufFile &file, const std::vector<std::string> &names, int rows,
                                  int width, bool interleaved) {
    std::vector<const FileTensor *> parts;
    int64_t found = 0;
    for (const std::string &name : names) {
        parts.push_back(&file.tensor(name));
        const auto &shape = parts.back()->shape;
        found += shape.size() > 1 ? shape[1] : 1;
        if (shape.empty() || shape.size() > 2 || shape[0] != width)
            throw FileError(file.path() + ": '" + name + "' is not " + std::to_string(width) + " wide");
        if (interleaved && parts.back()->bytes != parts.front()->bytes)
            throw FileError(file.path() + ": '" + name + "' has another size than '" + names.front() + "'");
    }
    if (found != rows) {
        throw FileError(file.path() + ": '" + names.front() + "' has " + std::to_string(found) +
                        " rows, not " + std::to_string(rows));
    }
    const uint8_t *data = upload(pack_weights(parts, width, interleaved));
    const float lift = lift_of(parts);
    for (const FileTensor *part : parts)
        file.mapping().release(part->data, part->bytes);
    return {data, rows, predictor::whole_chunks(width), lift};
}

const float *PredictorPlan::load_vector(const GgufFile &file, const std::string &name, int size) {
    const FileTensor &tensor = file.tensor(name);
    if (tensor.shape.size() != 1 || tensor.shape[0] != size)
        throw FileError(file.path() + ": '" + name + "' is not " + std::to_string(size) + " long");
    std::vector<float> values(static_cast<size_t>(size));
    to_float32(tensor.type, tensor.data, values.data(), size);
    return upload(values);
}

const float *PredictorPlan::load_rotation(float theta) {
    const Sizes &sizes = model_.sizes;
    std::vector<float> rotation;
    for (int position = 0; position < sizes.codebooks; ++position) {
        for (int pair = 0; pair < sizes.head_dim / 2; ++pair) {
            const double angle =
                position * std::pow(static_cast<double>(theta), -2.0 * pair / sizes.head_dim);
            rotation.push_back(static_cast<float>(std::cos(angle)));
            rotation.push_back(static_cast<float>(std::sin(angle)));
        }
    }
    return upload(rotation);
}

void PredictorPlan::allocate_buffers() {
    const Sizes &sizes = model_.sizes;
    const int64_t columns = most_columns(), codes = sizes.codebooks - 1;
    const int64_t attended = static_cast<int64_t>(sizes.heads) * sizes.head_dim;
    const int64_t kept = static_cast<int64_t>(sizes.kv_heads) * sizes.head_dim;
    const size_t draws = aligned(static_cast<size_t>(columns) * sizeof(Draw));
    const size_t width = static_cast<size_t>(columns * sizes.talker_width) * sizeof(float);
    const size_t request_bytes = alignment + draws + 2 * width;
    request_ = allocate<uint8_t>(static_cast<int64_t>(request_bytes));
    host_request_ = static_cast<uint8_t *>(machine_->allocate_host(request_bytes));
    const size_t codes_bytes = aligned(static_cast<size_t>(columns * codes) * sizeof(int32_t));
    const size_t answer_bytes = codes_bytes + width;
    answer_ = allocate<uint8_t>(static_cast<int64_t>(answer_bytes));
    host_answer_ = static_cast<uint8_t *>(machine_->allocate_host(answer_bytes));

    buffers_.arrivals = reinterpret_cast<uint32_t *>(request_);
    buffers_.draws = reinterpret_cast<const Draw *>(request_ + alignment);
    buffers_.inputs = reinterpret_cast<const float *>(request_ + alignment + draws);
    buffers_.codes = reinterpret_cast<int32_t *>(answer_);
    buffers_.sums = reinterpret_cast<float *>(answer_ + codes_bytes);
    buffers_.x = allocate<float>(columns * sizes.width);
    buffers_.entry =
        model_.projection.data == nullptr ? buffers_.x : allocate<float>(columns * sizes.talker_width);
    buffers_.qkv = allocate<float>(columns * (attended + 2 * kept));
    buffers_.attended = allocate<float>(columns * attended);
    buffers_.gated = allocate<float>(columns * sizes.ffn_width);
    buffers_.keys = allocate<float>(columns * sizes.layers * sizes.codebooks * kept);
    buffers_.values = allocate<float>(columns * sizes.layers * sizes.codebooks * kept);
    buffers_.logits = allocate<float>(columns * codes * sizes.entries);
    allocate_letters(attended, kept);
}

void PredictorPlan::allocate_letters(int64_t attended, int64_t kept) {
    using predictor::Letter;
    const Sizes &sizes = model_.sizes;
    const int64_t columns = most_columns_;
    buffers_.letters.x = allocate<Letter>(2 * columns * sizes.width);
    buffers_.letters.middle = allocate<Letter>(columns * sizes.width);
    buffers_.letters.qkv = allocate<Letter>(2 * columns * (attended + 2 * kept));
    buffers_.letters.attended = allocate<Letter>(columns * attended);
    buffers_.letters.gated = allocate<Letter>(columns * sizes.ffn_width);
    buffers_.letters.logits = allocate<Letter>(columns * sizes.entries);
    buffers_.letters.codes = allocate<Letter>(columns);
}

predictor::SplitActivations PredictorPlan::allocate_split(int width) {
    const int64_t numbers = static_cast<int64_t>(predictor::padded(width)) * most_tensor_columns_;
    return {allocate<uint16_t>(numbers * predictor::parts_of_number),
            allocate<float>(numbers / predictor::block_width)};
}

void PredictorPlan::allocate_tensor_buffers() {
    const Sizes &sizes = model_.sizes;
    const predictor::TensorNeeds needs = predictor::tensor_needs_of(sizes, most_tensor_columns_);
    if (model_.projection.data != nullptr)
        tensor_buffers_.entry = allocate_split(sizes.talker_width);
    tensor_buffers_.normed = allocate_split(sizes.width);
    tensor_buffers_.attended = allocate_split(sizes.heads * sizes.head_dim);
    tensor_buffers_.gated = allocate_split(sizes.ffn_width);
    tensor_buffers_.squares =
        allocate<float>(aligned(most_tensor_columns_ * sizes.width / predictor::block_width));
    tensor_buffers_.meeting = {allocate<float>(needs.joined), allocate<uint32_t>(needs.tiles)};
}

PredictorPlan::Batch PredictorPlan::next_batch(int frames) const {
    if (most_tensor_columns_ > 0 && frames >= predictor::least_tensor_columns) {
        constexpr int step = predictor::tensor_columns_step;
        const int size = std::min(frames, most_tensor_columns_);
        return {size, (size + step - 1) / step * step, true};
    }
    const int size = std::min(frames, most_columns_);
    // An exact device has one order of sums for all batches.
    const int least = backend_->exact() ? predictor::least_frame_columns : 1;
    int columns = most_columns_;
    for (const int possible : predictor::column_counts)
        columns = possible >= std::max(size, least) && possible <= most_columns_ ? possible : columns;
    return {size, columns, false};
}

void PredictorPlan::expand(const float *inputs, const std::vector<FrameDraw> &draws, int32_t *codes,
                           float *sums, float *logits) {
    const int64_t width = sizes().talker_width, others = sizes().codebooks - 1;
    const int64_t count = static_cast<int64_t>(draws.size());
    backend_->give_way();
    std::lock_guard lock(backend_->turn());
    const GuardedCalls guarded = backend_->guarded();
    if (failed_)
        throw DeviceError("the code predictor failed before");
    try {
        for (int64_t first = 0; first < count;) {
            const Batch batch = next_batch(static_cast<int>(count - first));
            run_part({inputs + first * 2 * width, draws.data() + first, codes + first * others,
                      sums + first * width,
                      logits == nullptr ? nullptr : logits + first * others * sizes().entries},
                     batch);
            first += batch.frames;
        }
    } catch (const std::runtime_error &error) {
        failed_ = true;
        backend_->examine();
        throw DeviceError(error.what());
    }
}

void PredictorPlan::start(const Batch &batch) {
    predictor::Buffers buffers = buffers_;
    buffers.columns = batch.frames;
    if (!batch.on_matrix_units) {
        // Each step sends letters of one time, and so do attention and choice.
        buffers_.time += 3 * static_cast<uint32_t>(model_.step_count);
        return machine_->run(kind_, batch.columns, model_, buffers);
    }
    predictor::TensorBuffers tensor = tensor_buffers_;
    tensor.columns = batch.columns;
    tensor.together = 2 * batch.columns <= std::min(most_tensor_columns_, predictor::most_columns_together);
    machine_->run_tensor(kind_, model_, buffers, tensor);
}

void PredictorPlan::run_part(const Part &part, const Batch &batch) {
    const size_t width = static_cast<size_t>(sizes().talker_width) * sizeof(float);
    const auto count = static_cast<size_t>(batch.frames), columns = static_cast<size_t>(batch.columns);
    const auto others = static_cast<size_t>(sizes().codebooks - 1);
    const auto inputs_at = static_cast<size_t>(reinterpret_cast<const uint8_t *>(buffers_.inputs) - request_);
    const size_t asked = inputs_at + columns * 2 * width;
    std::memset(host_request_, 0, asked);
    auto *draws = reinterpret_cast<Draw *>(host_request_ + alignment);
    for (size_t i = 0; i < count; ++i)
        draws[i] = draw_of(part.draws[i], sizes().codebooks);
    std::memcpy(host_request_ + inputs_at, part.inputs, count * 2 * width);
    machine_->upload(request_, host_request_, asked);
    start(batch);
    const auto sums_at = static_cast<size_t>(reinterpret_cast<uint8_t *>(buffers_.sums) - answer_);
    machine_->download(host_answer_, answer_, sums_at + count * width);
    const size_t entries = static_cast<size_t>(sizes().entries), stride = columns * entries;
    if (part.logits != nullptr) {
        host_logits_.resize(others * stride);
        machine_->download(host_logits_.data(), buffers_.logits, host_logits_.size() * sizeof(float));
    }
    machine_->finish();
    std::memcpy(part.codes, host_answer_, count * others * sizeof(int32_t));
    std::memcpy(part.sums, host_answer_ + sums_at, count * width);
    for (size_t column = 0; part.logits != nullptr && column < count; ++column) {
        for (size_t code = 0; code < others; ++code) {
            std::copy_n(host_logits_.data() + code * stride + column * entries, entries,
                        part.logits + (column * others + code) * entries);
        }
    }
}

}  // namespace ggtts
