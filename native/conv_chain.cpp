#include "conv_chain.hpp"

#include <conv_weights.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "errors.hpp"

namespace ggtts {
namespace {

using conv::Keeping;
using conv::Layer;
using conv::Link;
using conv::Schedule;

Layer shape_of(const ChainLayer &layer, conv::Kind kind) {
    Layer shape{};
    shape.inputs = layer.inputs;
    shape.outputs = layer.outputs;
    shape.taps = layer.taps;
    shape.dilation = layer.dilation;
    shape.stride = layer.stride;
    shape.limited = layer.limited;
    shape.segment_chunks = conv::segment_chunks_of(shape, kind);
    return shape;
}

void require(bool holds, const std::string &what) {
    if (!holds)
        throw std::invalid_argument(what);
}

}  // namespace

bool ConvChain::fits(const Backend &backend) {
    const auto index = backend.cuda_index();
    return predictor::has_cuda() && !backend.is_stock() && index && conv::cuda_runs(*index);
}

ConvChain::ConvChain(std::shared_ptr<Backend> backend, conv::Kind kind, std::optional<int> emulated)
    : backend_(std::move(backend)), kind_(kind) {
    if (emulated) {
        require(*emulated > 0, "an emulation stands for a processor at least");
        machine_ = predictor::emulated_machine(1, 1);
        runner_ = conv::emulated_runner(kind, *emulated);
        return;
    }
    const auto index = backend_->cuda_index();
    if (!index || !fits(*backend_))
        throw DeviceError("device '" + backend_->info().name + "' has no kernels for convolutions");
    try {
        machine_ = predictor::cuda_machine(*index);
        runner_ = conv::cuda_runner(*index, *machine_, kind);
    } catch (const std::runtime_error &error) {
        throw DeviceError(error.what());
    }
}

ConvChain::~ConvChain() = default;

int ConvChain::factor() const {
    int factor = 1;
    for (const Link &link : links_)
        factor *= link.layer.stride;
    return factor;
}

ggml_type ConvChain::number_type() const {
    return kind_ == conv::Kind::halves ? GGML_TYPE_F16 : GGML_TYPE_F32;
}

void ConvChain::add(const ChainLayer &layer) {
    std::lock_guard lock(backend_->turn());
    std::vector<Link> links = links_;
    append(links, {shape_of(layer, kind_), layer.trunk});
    Layer &shape = links.back().layer;
    try {
        shape.weights = upload(conv::packed_weights(shape, layer.matrices, kind_));
        shape.bias = upload_vector(layer.bias, layer.outputs, 1);
        if (layer.frequency != nullptr) {
            const int channels = links.back().channels();
            shape.frequency = upload_vector(layer.frequency, channels, layer.stride);
            shape.magnitude = upload_vector(layer.magnitude, channels, layer.stride);
        }
    } catch (const predictor::OutOfMemory &error) {
        backend_->refuse_memory("the kernels of convolutions", error.wanted);
    } catch (const std::runtime_error &error) {
        throw DeviceError(error.what());
    }
    links_ = std::move(links);
}

const uint8_t *ConvChain::upload(const std::vector<uint8_t> &bytes) {
    auto *device = static_cast<uint8_t *>(machine_->allocate(bytes.size()));
    machine_->upload(device, bytes.data(), bytes.size());
    machine_->finish();  // the bytes may go
    return device;
}

// Values, again and again; null: zeros.
const float *ConvChain::upload_vector(const float *values, int count, int repeat) {
    std::vector<uint8_t> bytes;
    for (int i = 0; values != nullptr && i < repeat; ++i) {
        const auto *begin = reinterpret_cast<const uint8_t *>(values);
        bytes.insert(bytes.end(), begin, begin + static_cast<size_t>(count) * sizeof(float));
    }
    bytes.resize(static_cast<size_t>(count) * static_cast<size_t>(repeat) * sizeof(float));
    return reinterpret_cast<const float *>(upload(bytes));
}

std::vector<void *> ConvChain::memories(const State &state, const std::vector<int32_t> &lanes) const {
    std::vector<void *> found;
    const auto [lowest, highest] = std::minmax_element(lanes.begin(), lanes.end());
    int number = 0;
    for (const Link &link : links_) {
        const Layer &layer = link.layer;
        if (layer.past() == 0) {
            found.push_back(nullptr);
            continue;
        }
        ggml_tensor *tensor = state.find(std::to_string(number++));
        require(
            tensor->type == number_type() && tensor->ne[0] == layer.inputs && tensor->ne[1] == layer.past(),
            "the memory of layer " + std::to_string(found.size()) + " has another shape or type");
        require(*lowest >= 0 && *highest < tensor->ne[2], "a lane that the memory does not have");
        found.push_back(tensor->data);
    }
    return found;
}

void ConvChain::run(const State &x, int time, const State &memory, const std::vector<int32_t> &lanes,
                    float *results) {
    const ggml_tensor *input = x.find("x");
    const auto streams = static_cast<int64_t>(lanes.size());
    require(!links_.empty() && streams > 0 && time > 0, "a chain without layers, streams or positions");
    require(input->type == number_type() && ggml_nelements(input) >= inputs() * time * streams,
            "the inputs are too few, or of another type");
    std::vector<void *> kept = memories(memory, lanes);
    std::lock_guard lock(backend_->turn());
    if (failed_)
        throw DeviceError("the kernels of convolutions failed before");
    try {
        compute(input->data, time, std::move(kept), lanes, results);
    } catch (const predictor::OutOfMemory &error) {
        backend_->refuse_memory("the intermediate results of convolutions", error.wanted);
    } catch (const std::runtime_error &error) {
        failed_ = true;
        throw DeviceError(error.what());
    }
}

template <class Value>
Value *ConvChain::on_device(Buffer<Value> &buffer, int64_t size) {
    if (size > buffer.size) {
        machine_->release(buffer.values);
        buffer = {};
        buffer.values = static_cast<Value *>(machine_->allocate(static_cast<size_t>(size) * sizeof(Value)));
        buffer.size = size;
    }
    return buffer.values;
}

template <class Value>
Value *ConvChain::on_host(Buffer<Value> &buffer, int64_t size) {
    if (size > buffer.size) {
        machine_->release_host(buffer.values);
        buffer = {};
        buffer.values =
            static_cast<Value *>(machine_->allocate_host(static_cast<size_t>(size) * sizeof(Value)));
        buffer.size = size;
    }
    return buffer.values;
}

void ConvChain::compute(const void *x, int time, std::vector<void *> memory,
                        const std::vector<int32_t> &lanes, float *results) {
    const auto streams = static_cast<int>(lanes.size());
    conv::Places places{x, std::move(memory), on_device(lanes_, streams), nullptr};
    const int64_t floats = schedule_of(links_, kind_, *runner_, places, streams, time).room_floats;
    places.room = on_device(room_, floats);
    const Schedule schedule = schedule_of(links_, kind_, *runner_, places, streams, time);
    const auto kept = static_cast<int64_t>(schedule.kept.size());
    std::copy(schedule.kept.begin(), schedule.kept.end(), on_host(host_kept_, kept));
    std::copy(lanes.begin(), lanes.end(), on_host(host_lanes_, streams));
    machine_->upload(lanes_.values, host_lanes_.values, lanes.size() * sizeof(int32_t));
    machine_->upload(on_device(kept_, kept), host_kept_.values, schedule.kept.size() * sizeof(Keeping));
    launch(schedule, *runner_, kept_.values);
    const int64_t values = static_cast<int64_t>(streams) * time * factor() * outputs();
    const auto bytes = static_cast<size_t>(values) * sizeof(float);
    machine_->download(on_host(host_results_, values), schedule.results(), bytes);
    machine_->finish();
    std::memcpy(results, host_results_.values, bytes);
}

}  // namespace ggtts
