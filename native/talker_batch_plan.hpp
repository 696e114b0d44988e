// Steps of several utterances as one kernel (see cuda/batch_step.hpp): what it needs beside the matrices of a
// talker.
#pragma once

#include <batch_runner.hpp>

#include <memory>
#include <vector>

namespace ggtts {

// Keys and values of all slots of a state, where its device has them.
struct KeptSlots {
    std::vector<talker::Cache> caches;  // [layers], of the first slot
    int capacity = 0;                   // of a slot, in positions
    bool half = false;
    int64_t slot_bytes = 0;
};

// New positions of some utterances.
struct NewPositions {
    int count;
    const int32_t *slots, *positions;
    const float *rows;       // [count][width]
    float *hidden, *logits;  // [count][width], [count][vocabulary]: filled
};

class TalkerBatchPlan {
public:
    // `lifts` are those of the matrices of the model. The machine has to outlive this.
    TalkerBatchPlan(predictor::Machine &machine, std::unique_ptr<talker::batch::BatchRunner> runner,
                    const talker::Model &model, const std::vector<float> &lifts, float rope_theta);

    // Begins to compute them, as many at once as the device takes; those are under way on return. Throws
    // std::runtime_error where it fails.
    void begin(const KeptSlots &kept, const NewPositions &positions);
    // Waits for what is under way, and fills in what is asked for. Throws as `begin` does.
    void finish();

private:
    void allocate_buffers(const std::vector<float> &lifts);
    void begin_part(const KeptSlots &kept, const NewPositions &part);
    talker::batch::BatchStep describe(const KeptSlots &kept, const NewPositions &part, int columns);
    int describe_columns(const KeptSlots &kept, const NewPositions &part, int columns);
    void have_rotation(int positions);
    template <class Value>
    Value *allocate(int64_t count);
    template <class Value>
    const Value *upload(const std::vector<Value> &values);
    predictor::PairedActivations allocate_split(int width);

    predictor::Machine &machine_;
    std::unique_ptr<talker::batch::BatchRunner> runner_;
    talker::Model model_;
    float rope_theta_;
    int most_columns_, spans_ = 0;
    talker::batch::BatchStep step_{};  // but for what differs from step to step
    int positions_ = 0;                // of the table of rotations
    // What goes to the device for a step, and what comes back, each in one piece.
    size_t each_at_ = 0, caches_at_ = 0, rows_at_ = 0;
    uint8_t *request_ = nullptr, *host_request_ = nullptr;
    float *answer_ = nullptr, *host_answer_ = nullptr;
    NewPositions under_way_{};
};

}  // namespace ggtts
