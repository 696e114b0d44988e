// The code predictor of a talker file as one kernel: whole frames, sampling included (see cuda/frame.hpp).
#pragma once

#include <machine.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend.hpp"
#include "gguf_file.hpp"
#include "sampler.hpp"

namespace ggtts {

// How the codes of one frame are chosen. The penalty of the options is not used: no code of a frame repeats
// another.
struct FrameDraw {
    SamplingOptions options;
    uint64_t seed = 0;
    uint64_t frame = 0;
};

// One choice of the kernel, emulated on the CPU: the code, -1 where the logits are no numbers.
int choose_code(const float *logits, int entries, const FrameDraw &draw, int codebooks, int codebook);

// Up to four frames are computed by one kernel (cuda/flow_frame.hpp), more of them by another that multiplies
// on matrix units (cuda/tensor_frame.hpp), or, with weights of float32, by a third that does not
// (cuda/frame.hpp). Within each of them a frame's bits do not depend on its batch; from one to the other they
// differ in rounding. An exact backend has the third one only.
class PredictorPlan {
public:
    // Where frames are computed: the GPU of a backend, or loops that stand for so many blocks and warps.
    struct Emulation {
        int blocks, warps;
    };

    // Copies the weights of `scope` ("code_pred.") to the device. Throws std::invalid_argument for weights
    // that the kernel does not know, and DeviceError where the device is none of CUDA's or has no room.
    PredictorPlan(std::shared_ptr<Backend> backend, std::shared_ptr<const GgufFile> file,
                  const std::string &scope, const predictor::Sizes &sizes, float rope_theta,
                  const Emulation *emulation);

    // Whether the kernel knows these weights, and this device runs it.
    static bool fits(const Backend &backend, const GgufFile &file, const std::string &scope);

    const predictor::Sizes &sizes() const { return model_.sizes; }
    // How many frames are computed together, at most; more are computed one part after the other.
    int most_columns() const { return std::max(most_columns_, most_tensor_columns_); }

    // inputs [frames][2][talker_width]: the talker's state and the embedding of code 0. Fills codes
    // [frames][codebooks - 1] (-1 from where the logits are no numbers), sums [frames][talker_width], and
    // logits [frames][codebooks - 1][entries] unless null. Throws DeviceError.
    void expand(const float *inputs, const std::vector<FrameDraw> &draws, int32_t *codes, float *sums,
                float *logits);

private:
    struct Part;
    // Frames that are computed together.
    struct Batch {
        int frames, columns;
        bool on_matrix_units;
    };

    void load(const GgufFile &file, const std::string &scope, float rope_theta);
    predictor::Layer load_layer(const GgufFile &file, const std::string &scope);
    predictor::Matrix load_matrix(const GgufFile &file, const std::vector<std::string> &names, int rows,
                                  int width, bool interleaved = false);
    const float *load_vector(const GgufFile &file, const std::string &name, int size);
    const float *load_rotation(float theta);
    void allocate_buffers();
    void allocate_letters(int64_t attended, int64_t kept);
    void allocate_tensor_buffers();
    predictor::SplitActivations allocate_split(int width);
    // How many of these frames are computed next, and how many columns the kernel has that computes them.
    Batch next_batch(int frames) const;
    void run_part(const Part &part, const Batch &batch);
    void start(const Batch &batch);
    template <class Value>
    Value *allocate(int64_t count);
    template <class Value>
    const Value *upload(const std::vector<Value> &values);

    std::shared_ptr<Backend> backend_;
    std::unique_ptr<predictor::Machine> machine_;
    predictor::WeightKind kind_;
    predictor::Model model_;
    predictor::Buffers buffers_;
    predictor::TensorBuffers tensor_buffers_;
    // Of the kernel for few columns, and of the one that multiplies on matrix units, 0: without it.
    int most_columns_ = 0, most_tensor_columns_ = 0;
    // What goes to the device for a part, and what comes back, each in one piece.
    uint8_t *request_ = nullptr, *answer_ = nullptr;
    uint8_t *host_request_ = nullptr, *host_answer_ = nullptr;
    std::vector<float> host_logits_;
    bool failed_ = false;
};

}  // namespace ggtts
