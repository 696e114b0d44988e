// The talker of a file as one kernel: one more position through all layers (see cuda/talker_step.hpp).
// Weights, keys and values stay where GGML's own programs have them.
#pragma once

#include <talker_runner.hpp>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "graph.hpp"
#include "talker_batch_plan.hpp"

namespace ggtts {

// What `begin_together` began.
struct StepsUnderWay {
    std::exception_ptr error;  // why it failed, once it was finished
};

class TalkerPlan {
public:
    // Where steps are computed: the GPU of a backend, or loops that stand for so many blocks and warps.
    struct Emulation {
        int blocks, warps;
    };

    // Takes the matrices below `scope` ("talker.") from the device, where their programs use them, too.
    // Throws std::invalid_argument for weights that the kernel does not know, FileError where they contradict
    // the sizes, and DeviceError where the device is none of CUDA's or has no room.
    TalkerPlan(const std::shared_ptr<Weights> &weights, const std::string &scope, const talker::Sizes &sizes,
               float rope_theta, const Emulation *emulation);

    // Whether the kernel knows these weights, and this device runs it.
    static bool fits(const Weights &weights, const std::string &scope, const talker::Sizes &sizes);

    const talker::Sizes &sizes() const { return model_.sizes; }
    // A position beyond is too far for the kernel.
    int most_positions() const;

    // Adds the input `row` [width] at a position to the keys and values of a state, "keys.0", "values.0",
    // ..., each [head_dim, positions, kv_heads, slots] in float16 or float32. Fills hidden [width], the
    // normed last state, and logits [vocabulary]. Throws DeviceError, and std::invalid_argument for a state
    // of another shape.
    void step(const State &state, int slot, int position, const float *row, float *hidden, float *logits);

    // Takes the memory for steps of several slots at once. False: the kernel has none with weights of
    // float32, nor on every device. Throws DeviceError where memory ends, once: it has none then, either.
    bool prepare_together();
    // The same as `step` for positions of several slots, none of them twice. Bits differ from those of `step`
    // by rounding, but do not depend on the other positions. It is under way on return: until it was
    // finished, the state and what is to be filled have to be there.
    std::shared_ptr<StepsUnderWay> begin_together(const State &state, const NewPositions &positions);
    // Waits for it. Throws DeviceError where it failed.
    void finish_together(const StepsUnderWay &steps);

private:
    struct Group;

    void open(const Backend &backend, const Emulation *emulation);
    void load(const std::string &scope, bool in_file);
    std::vector<Group> groups(const std::string &scope) const;
    std::vector<const ggml_tensor *> tensors_of(const Group &group);
    talker::Matrix load_matrix(const Group &group, bool in_file);
    const float *load_vector(const std::string &name, int size);
    void allocate_buffers();
    talker::Step describe_step(const State &state, int slot, int position, const float *row);
    KeptSlots kept_in(const State &state, int slot) const;
    std::vector<float> lifts() const;
    template <class Value>
    Value *allocate(int64_t count);
    template <class Value>
    const Value *upload(const std::vector<Value> &values);

    std::shared_ptr<Weights> weights_;
    std::unique_ptr<predictor::Machine> machine_;
    std::unique_ptr<talker::Runner> runner_;
    std::unique_ptr<talker::batch::BatchRunner> batch_runner_;  // until `batch_` has it
    std::unique_ptr<TalkerBatchPlan> batch_;
    std::string scope_;
    predictor::WeightKind kind_;
    float rope_theta_;
    talker::Model model_{};
    talker::Step step_{};  // but for what differs from step to step
    // What goes to the device for a step, and what comes back, each in one piece.
    size_t rotation_at_ = 0, caches_at_ = 0, request_bytes_ = 0, answer_bytes_ = 0;
    uint8_t *request_ = nullptr, *host_request_ = nullptr;
    float *answer_ = nullptr, *host_answer_ = nullptr;
    uint32_t time_ = 1;
    bool failed_ = false;
};

}  // namespace ggtts
