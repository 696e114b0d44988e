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
    const GuardedCalls guarded = backend_->guarded();
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
        backend_->examine();
        throw DeviceError(error.what());
    }
    links_ = std::move(links);
    plans_.clear();
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
    const GuardedCalls guarded = backend_->guarded();
    if (failed_)
        throw DeviceError("the kernels of convolutions failed before");
    try {
        compute(input->data, time, std::move(kept), lanes, results);
    } catch (const predictor::OutOfMemory &error) {
        backend_->refuse_memory("the intermediate results of convolutions", error.wanted);
    } catch (const std::runtime_error &error) {
        failed_ = true;
        backend_->examine();
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

// The same once more need not be sent.
template <class Value>
const Value *ConvChain::tell(Told<Value> &told, const std::vector<Value> &values) {
    if (told.values != values) {
        const auto count = static_cast<int64_t>(values.size());
        told.values.clear();  // until it has been sent
        Value *device = on_device(told.device, count);
        Value *host = on_host(told.host, count);
        std::copy(values.begin(), values.end(), host);
        machine_->upload(device, host, values.size() * sizeof(Value));
        told.values = values;
    }
    return told.device.values;
}

const ConvChain::Plan &ConvChain::plan_for(int streams, int time) {
    const std::pair width{streams, time};
    const auto found = plans_.find(width);
    if (found != plans_.end())
        return found->second;
    Plan plan{cuts_of(links_, kind_, *runner_, streams, time)};
    const conv::Places nowhere{nullptr, std::vector<void *>(links_.size()), nullptr, nullptr};
    plan.room_floats = schedule_of(links_, kind_, plan.cuts, nowhere, streams, time).room_floats;
    return plans_.emplace(width, std::move(plan)).first->second;
}

void ConvChain::compute(const void *x, int time, std::vector<void *> memory,
                        const std::vector<int32_t> &lanes, float *results) {
    const auto streams = static_cast<int>(lanes.size());
    const Plan &plan = plan_for(streams, time);
    const conv::Places places{x, std::move(memory), tell(lanes_, lanes), on_device(room_, plan.room_floats)};
    const Schedule schedule = schedule_of(links_, kind_, plan.cuts, places, streams, time);
    launch(schedule, *runner_, tell(kept_, schedule.kept));
    const int64_t values = static_cast<int64_t>(streams) * time * factor() * outputs();
    const auto bytes = static_cast<size_t>(values) * sizeof(float);
    machine_->download(on_host(host_results_, values), schedule.results(), bytes);
    machine_->finish();
    std::memcpy(results, host_results_.values, bytes);
}

}  // namespace ggtts
