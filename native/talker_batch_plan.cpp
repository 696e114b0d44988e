#include "talker_batch_plan.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "rotations.hpp"

namespace ggtts {
namespace {

using talker::Cache;
using talker::Sizes;
using talker::batch::BatchStep;
using talker::batch::Column;

constexpr size_t alignment = 256;
// Positions that have a rotation at first.
constexpr int positions_at_first = 1024;

size_t aligned(size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

int rounded_columns(int count) {
    constexpr int step = talker::batch::columns_step;
    return (count + step - 1) / step * step;
}

}  // namespace

TalkerBatchPlan::TalkerBatchPlan(predictor::Machine &machine,
                                 std::unique_ptr<talker::batch::BatchRunner> runner,
                                 const talker::Model &model, const std::vector<float> &lifts,
                                 float rope_theta)
    : machine_(machine),
      runner_(std::move(runner)),
      model_(model),
      rope_theta_(rope_theta),
      most_columns_(runner_->columns()) {
    allocate_buffers(lifts);
}

template <class Value>
Value *TalkerBatchPlan::allocate(int64_t count) {
    return static_cast<Value *>(machine_.allocate(static_cast<size_t>(count) * sizeof(Value)));
}

template <class Value>
const Value *TalkerBatchPlan::upload(const std::vector<Value> &values) {
    auto *device = allocate<Value>(static_cast<int64_t>(values.size()));
    machine_.upload(device, values.data(), values.size() * sizeof(Value));
    machine_.finish();  // the values may go
    return device;
}

predictor::PairedActivations TalkerBatchPlan::allocate_split(int width) {
    const int64_t numbers = static_cast<int64_t>(predictor::padded(width)) * talker::batch::most_columns;
    return {{allocate<uint16_t>(numbers * predictor::parts_of_number),
             allocate<float>(numbers / predictor::block_width)}};
}

void TalkerBatchPlan::allocate_buffers(const std::vector<float> &lifts) {
    const Sizes &sizes = model_.sizes;
    const int64_t columns = most_columns_, attended = static_cast<int64_t>(sizes.heads) * sizes.head_dim;
    const int64_t kept = static_cast<int64_t>(sizes.kv_heads) * sizes.head_dim;
    const talker::batch::BatchShapes shapes = talker::batch::shapes_for(sizes, most_columns_);
    each_at_ = alignment;
    caches_at_ = each_at_ + aligned(static_cast<size_t>(columns) * sizeof(Column));
    rows_at_ = caches_at_ + aligned(static_cast<size_t>(sizes.layers) * sizeof(Cache));
    const size_t request_bytes = rows_at_ + static_cast<size_t>(columns * sizes.width) * sizeof(float);
    request_ = allocate<uint8_t>(static_cast<int64_t>(request_bytes));
    host_request_ = static_cast<uint8_t *>(machine_.allocate_host(request_bytes));
    const int64_t answer = columns * (sizes.width + sizes.vocabulary);
    answer_ = allocate<float>(answer);
    host_answer_ = static_cast<float *>(machine_.allocate_host(static_cast<size_t>(answer) * sizeof(float)));

    step_.arrivals = reinterpret_cast<uint32_t *>(request_);
    step_.each = reinterpret_cast<const Column *>(request_ + each_at_);
    step_.caches = reinterpret_cast<const Cache *>(request_ + caches_at_);
    step_.rows = reinterpret_cast<const float *>(request_ + rows_at_);
    step_.lifts = upload(lifts);
    step_.tilings = upload(shapes.tilings);
    step_.x = allocate<float>(columns * sizes.width);
    step_.squares = allocate<float>(columns * sizes.width / predictor::block_width);
    step_.inputs = allocate<float>(columns * (attended + 2 * kept));
    step_.normed = allocate_split(sizes.width);
    step_.attended = allocate_split(sizes.heads * sizes.head_dim);
    step_.gated = allocate_split(sizes.ffn_width);
    step_.meeting = {allocate<float>(shapes.joined), allocate<uint32_t>(shapes.tiles)};
    step_.means = allocate<float>(shapes.tasks * talker::batch::queries_of_task * sizes.head_dim);
    step_.logs = allocate<float>(shapes.tasks * talker::batch::queries_of_task);
    step_.met = allocate<uint32_t>(shapes.spans * columns);
    step_.hidden = answer_;
    step_.sharing = sizes.heads / sizes.kv_heads;
    step_.groups = shapes.spans / sizes.kv_heads;
    spans_ = shapes.spans;
}

// Geometric growth, as the memory of a machine goes with it.
void TalkerBatchPlan::have_rotation(int positions) {
    if (positions <= positions_)
        return;
    positions_ = std::max({positions, positions_at_first, 2 * positions_});
    std::vector<float> table;
    table.reserve(static_cast<size_t>(positions_) * static_cast<size_t>(model_.sizes.head_dim));
    for (int position = 0; position < positions_; ++position)
        add_rotation(table, position, model_.sizes.head_dim, rope_theta_);
    step_.rotation = upload(table);
}

void TalkerBatchPlan::begin(const KeptSlots &kept, const NewPositions &positions) {
    have_rotation(*std::max_element(positions.positions, positions.positions + positions.count) + 1);
    const int width = model_.sizes.width, vocabulary = model_.sizes.vocabulary;
    for (int first = 0; first < positions.count; first += most_columns_) {
        const int64_t before = first;
        finish();
        begin_part(kept, {std::min(positions.count - first, most_columns_), positions.slots + first,
                          positions.positions + first, positions.rows + before * width,
                          positions.hidden + before * width, positions.logits + before * vocabulary});
    }
}

// Returns the tasks of all columns.
int TalkerBatchPlan::describe_columns(const KeptSlots &kept, const NewPositions &part, int columns) {
    auto *each = reinterpret_cast<Column *>(host_request_ + each_at_);
    int tasks = 0;
    for (int column = 0; column < columns; ++column) {
        if (column >= part.count) {
            each[column] = {-1, 0, 0, tasks, 0};
            continue;
        }
        const int position = part.positions[column];
        const talker::batch::ChunkSize chunks = talker::batch::chunk_size(position + 1);
        each[column] = {position, chunks.size, chunks.count, tasks, kept.slot_bytes * part.slots[column]};
        tasks += spans_ * chunks.count;
    }
    return tasks;
}

BatchStep TalkerBatchPlan::describe(const KeptSlots &kept, const NewPositions &part, int columns) {
    const Sizes &sizes = model_.sizes;
    BatchStep step = step_;
    std::memset(host_request_, 0, rows_at_);
    std::memcpy(host_request_ + caches_at_, kept.caches.data(), kept.caches.size() * sizeof(Cache));
    auto *rows = reinterpret_cast<float *>(host_request_ + rows_at_);
    std::copy_n(part.rows, static_cast<int64_t>(part.count) * sizes.width, rows);
    std::fill_n(rows + static_cast<int64_t>(part.count) * sizes.width,
                static_cast<int64_t>(columns - part.count) * sizes.width, 0.0F);
    step.columns = columns;
    step.tasks = describe_columns(kept, part, columns);
    step.capacity = kept.capacity;
    step.half_cache = kept.half;
    step.logits = answer_ + static_cast<int64_t>(columns) * sizes.width;
    return step;
}

void TalkerBatchPlan::begin_part(const KeptSlots &kept, const NewPositions &part) {
    const Sizes &sizes = model_.sizes;
    const int columns = rounded_columns(part.count);
    const BatchStep step = describe(kept, part, columns);
    const int64_t width = static_cast<int64_t>(columns) * sizes.width,
                  vocabulary = static_cast<int64_t>(columns) * sizes.vocabulary;
    machine_.upload(request_, host_request_, rows_at_ + static_cast<size_t>(width) * sizeof(float));
    runner_->run(model_, step);
    machine_.download(host_answer_, answer_, static_cast<size_t>(width + vocabulary) * sizeof(float));
    under_way_ = part;
}

void TalkerBatchPlan::finish() {
    const NewPositions part = std::exchange(under_way_, {});
    if (part.count == 0)
        return;
    machine_.finish();
    const int64_t width = model_.sizes.width, vocabulary = model_.sizes.vocabulary;
    std::copy_n(host_answer_, part.count * width, part.hidden);
    std::copy_n(host_answer_ + rounded_columns(part.count) * width, part.count * vocabulary, part.logits);
}

}  // namespace ggtts
