#include "emulated_batch.hpp"

#include <limits>
#include <vector>

#include "batch_runner.hpp"
#include "batch_sizes.hpp"
#include "batch_step.hpp"

namespace ggtts::talker::batch {
namespace {

// A grid whose blocks keep the weights that are on their way from phase to phase.
template <class Type>
class EmulatedBatchGrid {
public:
    EmulatedBatchGrid(int blocks, const Model &model, const BatchTables &tables, const BatchRoom &room)
        : room_(room) {
        for (int index = 0; index < blocks; ++index)
            workers_.push_back(std::make_unique<Worker>(index, blocks, model, tables, room));
    }

    template <class Function>
    void phase(Function function) {
        for (const auto &worker : workers_) {
            // What a block of a GPU would find there is anything.
            std::fill(worker->floats() + room_.scales, worker->floats() + room_.end,
                      std::numeric_limits<float>::quiet_NaN());
            function(worker->block, worker->ring);
            worker->ring.fill();
        }
    }

private:
    struct Worker {
        Worker(int index, int blocks, const Model &model, const BatchTables &tables, const BatchRoom &room)
            : memory(static_cast<size_t>(room.end) / 4 + 1),
              block(index, blocks, batch_warps, floats()),
              ring(block, model, tables, room) {}
        Worker(const Worker &) = delete;
        Worker &operator=(const Worker &) = delete;

        float *floats() { return reinterpret_cast<float *>(memory.data()); }

        std::vector<Words> memory;
        EmulatedBlock block;
        WeightRing<Type, EmulatedBlock> ring;
    };

    const BatchRoom &room_;
    std::vector<std::unique_ptr<Worker>> workers_;
};

class EmulatedBatchRunner : public BatchRunner {
public:
    EmulatedBatchRunner(WeightKind kind, int blocks) : kind_(kind), blocks_(blocks) {}

    int columns() const override { return most_columns; }

    void run(const Model &model, const BatchStep &step) override {
        switch (kind_) {
            case WeightKind::q8_0:
                return run_as<RowsOfEightBits>(model, step);
            case WeightKind::f16:
                return run_as<RowsOfHalves>(model, step);
            default:
                return run_as<RowsOfBrainHalves>(model, step);
        }
    }

private:
    template <class Type>
    void run_as(const Model &model, const BatchStep &step) {
        const BatchRoom room =
            room_for<Type>(model.sizes, step.columns, Type::most_stage_units, least_slots + 1, batch_warps);
        const BatchTables tables{model.matrices, model.norms,  step.caches,
                                 step.each,      step.tilings, step.lifts};
        EmulatedBatchGrid<Type> grid(blocks_, model, tables, room);
        TalkerBatchStep<Type, EmulatedBatchGrid<Type>>(grid, model, step, tables, room).run();
    }

    WeightKind kind_;
    int blocks_;
};

}  // namespace

std::unique_ptr<BatchRunner> emulated_batch_runner(WeightKind kind, const Sizes &sizes, int blocks) {
    if (kind == WeightKind::f32 || !fits_batch(sizes))
        return nullptr;
    return std::make_unique<EmulatedBatchRunner>(kind, blocks);
}

BatchShapes shapes_for(const Sizes &sizes, int columns) {
    const auto tilings = tilings_of(sizes);
    BatchShapes shapes{{tilings.begin(), tilings.end()}, 0, 0, spans_of(sizes), 0};
    for (const Tiling &tiling : tilings) {
        const int64_t sums =
            (static_cast<int64_t>(tiling.tiles) << tiling.part_bits) * columns * tiling.rows();
        shapes.joined = std::max(shapes.joined, tiling.part_bits == 0 ? 0 : sums);
        shapes.tiles = std::max<int64_t>(shapes.tiles, tiling.tiles);
    }
    shapes.tasks = static_cast<int64_t>(columns) * shapes.spans * most_chunks;
    return shapes;
}

ChunkSize chunk_size(int keys) {
    constexpr int least = 48, wanted_chunks = 16;
    static_assert(least % keys_of_tile == 0 && wanted_chunks <= most_chunks);
    const auto parts = [](int all, int size) { return (all + size - 1) / size; };
    const int size = std::max(least, parts(parts(keys, wanted_chunks), keys_of_tile) * keys_of_tile);
    return {size, parts(keys, size)};
}

#ifndef GGTTS_CUDA
std::unique_ptr<BatchRunner> cuda_batch_runner(int, predictor::Machine &, WeightKind, const Sizes &) {
    return nullptr;
}
#endif

}  // namespace ggtts::talker::batch
