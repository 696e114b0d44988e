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
using conv::Pass;

// What everything in the room begins at a multiple of, in floats.
constexpr int64_t alignment = 64;
constexpr int arrival_count = 1 << 16;

int64_t aligned(int64_t floats) {
    return (floats + alignment - 1) / alignment * alignment;
}

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

ggml_type type_of(conv::Kind kind) {
    return kind == conv::Kind::halves ? GGML_TYPE_F16 : GGML_TYPE_F32;
}

void require(bool holds, const std::string &what) {
    if (!holds)
        throw std::invalid_argument(what);
}

}  // namespace

// Hands out parts of the memory for intermediate results; without memory it counts what they need.
class ConvChain::Room {
public:
    explicit Room(float *begin) : begin_(begin) {}

    float *take(int64_t floats) {
        float *place = begin_ == nullptr ? nullptr : begin_ + used_;
        used_ += aligned(floats);
        return place;
    }
    int64_t used() const { return used_; }
    bool counts() const { return begin_ == nullptr; }

private:
    float *begin_;
    int64_t used_ = 0;
};

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
    for (const Stored &stored : layers_)
        factor *= stored.layer.stride;
    return factor;
}

void ConvChain::add(const ChainLayer &layer) {
    require(layer.taps > 0 && layer.inputs > 0 && layer.outputs > 0 && layer.dilation > 0 && layer.stride > 0,
            "a convolution without taps, inputs, outputs, dilation or stride");
    require(layer.outputs % layer.stride == 0, "outputs that the stride does not divide");
    require(layers_.empty() || outputs() == layer.inputs,
            "a layer of " + std::to_string(layer.inputs) + " inputs where " +
                std::to_string(layers_.empty() ? 0 : outputs()) + " come");
    Stored stored{shape_of(layer, kind_), layer.trunk};
    if (layer.trunk == Trunk::joins) {
        const auto begin = std::find_if(layers_.rbegin(), layers_.rend(),
                                        [](const Stored &other) { return other.trunk != Trunk::apart; });
        const bool fits = begin != layers_.rend() && begin->channels() == layer.outputs && layer.stride == 1 &&
                          std::all_of(layers_.rbegin(), begin, [](const Stored &other) { return other.layer.stride == 1; });
        require(fits, "a layer that joins a trunk of another shape");
        begin->trunk_lasts = true;
    }
    require(!layer.limited || stored.layer.narrow(), "only layers of few outputs are limited");
    std::lock_guard lock(backend_->compute_mutex());
    try {
        Layer &shape = stored.layer;
        shape.weights = upload(conv::packed_weights(shape, layer.matrices, kind_));
        shape.bias = upload_vector(layer.bias, layer.outputs, 1);
        if (layer.frequency != nullptr) {
            shape.frequency = upload_vector(layer.frequency, stored.channels(), layer.stride);
            shape.magnitude = upload_vector(layer.magnitude, stored.channels(), layer.stride);
        }
        machine_->finish();
    } catch (const predictor::OutOfMemory &error) {
        backend_->refuse_memory("the kernels of convolutions", error.wanted);
    } catch (const std::runtime_error &error) {
        throw DeviceError(error.what());
    }
    layers_.push_back(stored);
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
    for (const Stored &stored : layers_) {
        const Layer &layer = stored.layer;
        if (layer.past() == 0) {
            found.push_back(nullptr);
            continue;
        }
        ggml_tensor *tensor = state.find(std::to_string(number++));
        require(tensor->type == type_of(kind_) && tensor->ne[0] == layer.inputs && tensor->ne[1] == layer.past(),
                "the memory of layer " + std::to_string(found.size()) + " has another shape or type");
        require(*lowest >= 0 && *highest < tensor->ne[2], "a lane that the memory does not have");
        found.push_back(tensor->data);
    }
    return found;
}

// What each layer reads and writes. Inputs that streams keep a part of stay until the end.
std::vector<Pass> ConvChain::passes(const void *x, const std::vector<void *> &memory, int streams, int time,
                                    Room &room) const {
    const auto numbers = [this](int64_t count) { return (count * conv::number_bytes(kind_) + 3) / 4; };
    int64_t widest_trunk = 0, widest_passing = 0, rows = static_cast<int64_t>(streams) * time;
    const auto passes_on = [&](size_t i) { return i + 1 < layers_.size() && layers_[i + 1].layer.past() == 0; };
    for (size_t i = 0; i < layers_.size(); ++i) {
        const int64_t size = rows * layers_[i].layer.outputs;
        widest_trunk = std::max(widest_trunk, layers_[i].trunk_lasts ? size : 0);
        widest_passing = std::max(widest_passing, passes_on(i) ? size : 0);
        rows *= layers_[i].layer.stride;
    }
    float *trunk = room.take(widest_trunk), *passing = room.take(numbers(widest_passing));
    std::vector<Pass> passes;
    for (size_t i = 0; i < layers_.size(); ++i) {
        const Stored &stored = layers_[i];
        Pass pass{};
        pass.layer = stored.layer;
        pass.streams = streams;
        pass.time = time;
        pass.x = x;
        pass.memory = memory[i];
        pass.lanes = lanes_;
        pass.trunk = stored.trunk == Trunk::joins ? trunk : nullptr;
        pass.raw = stored.trunk_lasts ? trunk : nullptr;
        const int64_t size = static_cast<int64_t>(streams) * time * stored.layer.outputs;
        const bool last = i + 1 == layers_.size();
        pass.results = last ? room.take(size) : nullptr;
        pass.active = last ? nullptr : passes_on(i) ? passing : room.take(numbers(size));
        pass.split = 1;
        passes.push_back(pass);
        x = pass.active;
        time *= stored.layer.stride;
    }
    return passes;
}

// How they are cut into work, and where partial sums go.
void ConvChain::cut(std::vector<Pass> &passes, std::vector<int> &bands, Room &room) const {
    int64_t most = 0;
    for (Pass &pass : passes) {
        conv::Cut cut{1, 1};
        if (!pass.layer.narrow()) {
            cut = conv::cut_of(pass.layer, pass.streams, pass.time, kind_, *runner_);
            if (cut.bands == 0)
                throw DeviceError("a convolution does not fit the shared memory of the device");
            const int rows = conv::warps_down * cut.bands * conv::band;
            const int64_t tiles =
                static_cast<int64_t>(conv::row_tiles(pass.rows(), rows)) * pass.layer.column_tiles();
            if (cut.split > 1 && tiles > arrival_count)
                throw DeviceError("a convolution of too many tiles");
            const int segments = pass.layer.segments();
            pass.split = cut.split;
            pass.row_room = conv::row_room(pass.layer, pass.streams, pass.time, rows);
            const int64_t slots = segments == 1 ? 0 : cut.split == 1 ? tiles : tiles * segments;
            most = std::max(most, slots * rows * conv::tile_outputs);
        }
        bands.push_back(cut.bands);
    }
    float *partials = room.take(most);
    auto *arrived = reinterpret_cast<uint32_t *>(room.take(arrival_count));
    for (Pass &pass : passes) {
        pass.partials = partials;
        pass.arrived = arrived;
    }
}

int64_t ConvChain::need(int streams, int time) const {
    Room counting(nullptr);
    std::vector<int> bands;
    std::vector<Pass> all = passes(nullptr, std::vector<void *>(layers_.size()), streams, time, counting);
    cut(all, bands, counting);
    return counting.used();
}

void ConvChain::reserve(int64_t floats) {
    if (floats <= room_floats_)
        return;
    machine_->release(room_);
    room_ = nullptr;
    room_floats_ = 0;
    room_ = static_cast<float *>(machine_->allocate(static_cast<size_t>(floats) * sizeof(float)));
    room_floats_ = floats;
}

void ConvChain::upload_request(const std::vector<Pass> &passes, const std::vector<void *> &memory,
                               const std::vector<int32_t> &lanes) {
    job_count_ = job_inputs_ = 0;
    for (size_t i = 0; i < passes.size(); ++i) {
        const Layer &layer = passes[i].layer;
        if (layer.past() == 0)
            continue;
        host_jobs_[job_count_++] = {passes[i].x, memory[i], layer.inputs, layer.past(), passes[i].time};
        job_inputs_ = std::max(job_inputs_, layer.inputs);
    }
    std::copy(lanes.begin(), lanes.end(), host_lanes_);
    machine_->upload(lanes_, host_lanes_, lanes.size() * sizeof(int32_t));
    machine_->upload(jobs_, host_jobs_, static_cast<size_t>(job_count_) * sizeof(Keeping));
}

void ConvChain::launch(const std::vector<Pass> &passes, const std::vector<int> &bands, int streams) {
    for (size_t i = 0; i < passes.size(); ++i) {
        if (passes[i].layer.narrow())
            runner_->run_narrow(passes[i]);
        else
            runner_->run(passes[i], bands[i]);
    }
    if (job_count_ > 0)
        runner_->keep(jobs_, job_count_, job_inputs_, streams, lanes_);
}

void ConvChain::run(const State &x, int time, const State &memory, const std::vector<int32_t> &lanes,
                    float *results) {
    const ggml_tensor *input = x.find("x");
    const auto streams = static_cast<int>(lanes.size());
    require(!layers_.empty() && streams > 0 && time > 0, "a chain without layers, streams or positions");
    require(input->type == type_of(kind_) && ggml_nelements(input) >= static_cast<int64_t>(inputs()) * time * streams,
            "the inputs are too few, or of another type");
    const std::vector<void *> kept = memories(memory, lanes);
    std::lock_guard lock(backend_->compute_mutex());
    if (failed_)
        throw DeviceError("the kernels of convolutions failed before");
    try {
        const int64_t values = static_cast<int64_t>(streams) * time * factor() * outputs();
        if (static_cast<int>(lanes.size()) > most_lanes_ || most_jobs_ < layers()) {
            most_lanes_ = std::max<int>(64, static_cast<int>(lanes.size()));
            most_jobs_ = layers();
            lanes_ = static_cast<int32_t *>(machine_->allocate(static_cast<size_t>(most_lanes_) * sizeof(int32_t)));
            host_lanes_ = static_cast<int32_t *>(machine_->allocate_host(static_cast<size_t>(most_lanes_) * sizeof(int32_t)));
            jobs_ = static_cast<Keeping *>(machine_->allocate(static_cast<size_t>(most_jobs_) * sizeof(Keeping)));
            host_jobs_ = static_cast<Keeping *>(machine_->allocate_host(static_cast<size_t>(most_jobs_) * sizeof(Keeping)));
        }
        reserve(need(streams, time));
        if (values > host_results_floats_) {
            host_results_ = static_cast<float *>(machine_->allocate_host(static_cast<size_t>(values) * sizeof(float)));
            host_results_floats_ = values;
        }
        Room room(room_);
        std::vector<int> bands;
        std::vector<Pass> all = passes(input->data, kept, streams, time, room);
        cut(all, bands, room);
        upload_request(all, kept, lanes);
        launch(all, bands, streams);
        machine_->download(host_results_, all.back().results, static_cast<size_t>(values) * sizeof(float));
        machine_->finish();
        std::memcpy(results, host_results_, static_cast<size_t>(values) * sizeof(float));
    } catch (const predictor::OutOfMemory &error) {
        backend_->refuse_memory("the intermediate results of convolutions", error.wanted);
    } catch (const std::runtime_error &error) {
        failed_ = true;
        throw DeviceError(error.what());
    }
}

}  // namespace ggtts
