// Convolutions one after the other as kernels of our own, for several streams at once (see
// cuda/conv_tile.hpp).
#pragma once

#include <conv_schedule.hpp>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "graph.hpp"

namespace ggtts {

// One convolution of a chain, see conv::Layer.
struct ChainLayer {
    int taps, outputs, inputs, dilation, stride;
    const float *matrices;               // [taps][outputs][inputs]
    const float *bias;                   // [outputs] or null
    const float *frequency, *magnitude;  // [outputs / stride] or null: the snake behind it
    conv::Trunk trunk;
    bool limited;
};

class ConvChain {
public:
    // On the GPU of a backend, or as loops that stand for so many processors. Throws DeviceError where the
    // device has no such kernels.
    ConvChain(std::shared_ptr<Backend> backend, conv::Kind kind, std::optional<int> emulated);
    ~ConvChain();

    // Whether this device runs such kernels.
    static bool fits(const Backend &backend);

    // Brings a layer to the device. Throws std::invalid_argument where it does not go with those before, or
    // is none that the kernels know, and DeviceError where there is no room.
    void add(const ChainLayer &layer);

    int layers() const { return static_cast<int>(links_.size()); }
    // Samples that come out for each that goes in, and channels of both.
    int factor() const;
    int inputs() const { return links_.front().layer.inputs; }
    int outputs() const { return links_.back().channels(); }

    // `time` more positions of some streams: "x" of a state begins with [inputs, time, streams] and lies on
    // the device of the backend; `memory` has one tensor for each layer with a past in their order, "0", "1",
    // ..., [inputs, past, lanes], float16 where products are, and else float32. A stream reads and renews
    // what is kept in its lane. Fills `results` [streams][time * factor][outputs]. Throws DeviceError, and
    // std::invalid_argument for tensors of other shapes.
    void run(const State &x, int time, const State &memory, const std::vector<int32_t> &lanes,
             float *results);

private:
    // Memory of the device, or of the host, that grows.
    template <class Value>
    struct Buffer {
        Value *values = nullptr;
        int64_t size = 0;
    };

    // What the device was told, by way of memory of the host.
    template <class Value>
    struct Told {
        std::vector<Value> values;
        Buffer<Value> host, device;
    };

    // How runs of one width are cut, and what they need.
    struct Plan {
        std::vector<conv::Cut> cuts;
        int64_t room_floats = 0;
    };

    ggml_type number_type() const;
    const uint8_t *upload(const std::vector<uint8_t> &bytes);
    const float *upload_vector(const float *values, int count, int repeat);
    std::vector<void *> memories(const State &state, const std::vector<int32_t> &lanes) const;
    template <class Value>
    Value *on_device(Buffer<Value> &buffer, int64_t size);
    template <class Value>
    Value *on_host(Buffer<Value> &buffer, int64_t size);
    template <class Value>
    const Value *tell(Told<Value> &told, const std::vector<Value> &values);
    const Plan &plan_for(int streams, int time);
    void compute(const void *x, int time, std::vector<void *> memory, const std::vector<int32_t> &lanes,
                 float *results);

    std::shared_ptr<Backend> backend_;
    conv::Kind kind_;
    bool failed_ = false;
    std::unique_ptr<predictor::Machine> machine_;
    std::unique_ptr<conv::Runner> runner_;
    std::vector<conv::Link> links_;
    std::map<std::pair<int, int>, Plan> plans_;
    Buffer<float> room_, host_results_;
    Told<conv::Keeping> kept_;
    Told<int32_t> lanes_;
};

}  // namespace ggtts
