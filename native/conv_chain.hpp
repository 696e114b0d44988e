// Convolutions one after the other as kernels of our own, for several streams at once (see cuda/conv_tile.hpp).
#pragma once

#include <conv_runner.hpp>

#include <memory>
#include <optional>
#include <vector>

#include "graph.hpp"

namespace ggtts {

// What a layer has to do with the values that later ones are added to.
enum class Trunk { apart, begins, joins };

// One convolution of a chain, see conv::Layer.
struct ChainLayer {
    int taps, outputs, inputs, dilation, stride;
    const float *matrices;               // [taps][outputs][inputs]
    const float *bias;                   // [outputs] or null
    const float *frequency, *magnitude;  // [outputs / stride] or null: the snake behind it
    Trunk trunk;
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

    int layers() const { return static_cast<int>(layers_.size()); }
    // Samples that come out for each that goes in, and channels of both.
    int factor() const;
    int inputs() const { return layers_.front().layer.inputs; }
    int outputs() const { return layers_.back().channels(); }

    // `time` more positions of some streams: "x" of a state begins with [inputs, time, streams] and lies on the
    // device of the backend; `memory` has one tensor for each layer with a past in their order, "0", "1", ...,
    // [inputs, past, lanes], float16 where products are, and else float32. A stream reads and renews what is kept in its lane. Fills `results`
    // [streams][time * factor][outputs].
    // Throws DeviceError, and std::invalid_argument for tensors of other shapes.
    void run(const State &x, int time, const State &memory, const std::vector<int32_t> &lanes, float *results);

private:
    struct Stored {
        conv::Layer layer;
        Trunk trunk;
        bool trunk_lasts = false;  // a later one joins it

        int channels() const { return layer.outputs / layer.stride; }
    };
    class Room;

    const uint8_t *upload(const std::vector<uint8_t> &bytes);
    const float *upload_vector(const float *values, int count, int repeat);
    std::vector<void *> memories(const State &state, const std::vector<int32_t> &lanes) const;
    std::vector<conv::Pass> passes(const void *x, const std::vector<void *> &memory, int streams, int time,
                                   Room &room) const;
    void cut(std::vector<conv::Pass> &passes, std::vector<int> &bands, Room &room) const;
    int64_t need(int streams, int time) const;
    void reserve(int64_t floats);
    void upload_request(const std::vector<conv::Pass> &passes, const std::vector<void *> &memory,
                        const std::vector<int32_t> &lanes);
    void launch(const std::vector<conv::Pass> &passes, const std::vector<int> &bands, int streams);

    std::shared_ptr<Backend> backend_;
    conv::Kind kind_;
    bool failed_ = false;
    std::unique_ptr<predictor::Machine> machine_;
    std::unique_ptr<conv::Runner> runner_;
    std::vector<Stored> layers_;
    float *room_ = nullptr;
    int64_t room_floats_ = 0;
    // The list of what is kept, and lanes: on the device and on the host.
    conv::Keeping *jobs_ = nullptr, *host_jobs_ = nullptr;
    int32_t *lanes_ = nullptr, *host_lanes_ = nullptr;
    int most_jobs_ = 0, most_lanes_ = 0;
    float *host_results_ = nullptr;
    int64_t host_results_floats_ = 0;
    int job_count_ = 0, job_inputs_ = 0;
};

}  // namespace ggtts
