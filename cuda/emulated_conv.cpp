// The kernels of convolutions as loops, for tests on machines without a GPU; and how layers are cut into work.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "conv_runner.hpp"
#include "conv_steps.hpp"

namespace ggtts::conv {
namespace {

constexpr int warps = warps_down * warps_across;
// What a large GPU gives to a block.
constexpr int emulated_shared_limit = 232448;

class EmulatedBlock {
public:
    explicit EmulatedBlock(int block) : block_(block) {}

    int block() const { return block_; }

    template <class Function>
    void spread(int count, Function function) const {
        for (int i = 0; i < count; ++i)
            function(i);
    }
    void meet() const {}

private:
    int block_;
};

// The part of a number that matrix units read.
float read_part(float value) {
    return float_of_bits(bits_of_float(value) & bits_read);
}

template <class Shape>
class EmulatedTile : public EmulatedBlock {
public:
    explicit EmulatedTile(int block) : EmulatedBlock(block), own_(warps * lanes_of_warp) {}

    template <class Predicate>
    void start(Predicate has_work) {
        for (int warp = 0; warp < warps; ++warp)
            busy_[warp] = has_work(warp);
    }
    bool busy() const { return true; }

    template <class Function>
    void each(Function function) {
        for (int warp = 0; warp < warps; ++warp) {
            for (int lane = 0; busy_[warp] && lane < lanes_of_warp; ++lane)
                function(warp, lane, own(warp, lane));
        }
    }

    template <class Function>
    void multiply(Function operands) {
        for (int warp = 0; warp < warps; ++warp) {
            if (busy_[warp])
                multiply_warp(warp, operands);
        }
    }

    void copy_four(float *target, const float *source, bool exists) const {
        for (int i = 0; i < 4; ++i)
            copy_one(target + i, source + i, exists);
    }
    void copy_one(float *target, const float *source, bool exists) const { *target = exists ? *source : 0.0F; }
    void commit() const {}
    template <int newer>
    void arrive() const {}

    bool arrives_last(uint32_t *counter, int count) const {
        *counter = (*counter + 1) % static_cast<uint32_t>(count);
        return *counter == 0;
    }

private:
    Registers<Shape> &own(int warp, int lane) {
        return own_[static_cast<size_t>(warp * lanes_of_warp + lane)];
    }

    template <class Function>
    void multiply_warp(int warp, Function operands) {
        constexpr int deep = 8;
        float rows[band][deep], columns[deep][group_width], *sums[lanes_of_warp];
        for (int lane = 0; lane < lanes_of_warp; ++lane) {
            const Operands with = operands(own(warp, lane));
            const int group = lane / 4, member = lane % 4;
            for (int i = 0; i < 4; ++i)
                rows[group + i % 2 * 8][member + i / 2 * 4] = read_part(with.rows[i]);
            for (int i = 0; i < 2; ++i)
                columns[member + i * 4][group] = read_part(with.columns[i]);
            sums[lane] = with.sums;
        }
        for (int row = 0; row < band; ++row) {
            float result[group_width] = {};
            for (int k = 0; k < deep; ++k) {
                for (int column = 0; column < group_width; ++column)
                    result[column] += rows[row][k] * columns[k][column];
            }
            for (int column = 0; column < group_width; ++column)
                sums[row % 8 * 4 + column / 2][row / 8 * 2 + column % 2] += result[column];
        }
    }

    std::vector<Registers<Shape>> own_;
    bool busy_[warps] = {true, true, true, true};
};

// Shared memory of a block, in which a GPU would find anything.
std::vector<Floats> room_of(int64_t floats) {
    constexpr float nothing = std::numeric_limits<float>::quiet_NaN();
    return std::vector<Floats>(static_cast<size_t>(floats + 3) / 4, Floats{{nothing, nothing, nothing, nothing}});
}

template <class Shape>
void run_tiles(const Pass &pass) {
    const int blocks = row_tiles(pass.rows(), Shape::rows) * pass.layer.column_tiles() * pass.split;
    for (int block = 0; block < blocks; ++block) {
        std::vector<Floats> shared = room_of(shared_floats(pass.layer, pass.row_room));
        EmulatedTile<Shape> tile(block);
        TileProduct<Shape, EmulatedTile<Shape>>(tile, pass, shared.data()->at).run();
    }
}

class EmulatedRunner : public Runner {
public:
    EmulatedRunner(bool exact, int processors) : exact_(exact), processors_(processors) {}

    int processors() const override { return processors_; }
    int shared_limit() const override { return emulated_shared_limit; }

    void run(const Pass &pass, int bands) override {
        if (exact_)
            bands == 2 ? run_tiles<Shape<true, 2>>(pass) : run_tiles<Shape<true, 1>>(pass);
        else if (bands == 4)
            run_tiles<Shape<false, 4>>(pass);
        else
            bands == 2 ? run_tiles<Shape<false, 2>>(pass) : run_tiles<Shape<false, 1>>(pass);
    }

    void run_narrow(const Pass &pass) override {
        std::vector<Floats> shared = room_of(narrow_floats(pass.layer));
        const int blocks = row_tiles(pass.time, narrow_rows) * pass.streams;
        for (int index = 0; index < blocks; ++index) {
            const EmulatedBlock block(index);
            NarrowProduct<EmulatedBlock>(block, pass, shared.data()->at).run();
        }
    }

    void keep(const Keeping *jobs, int count, int, int streams, const int32_t *lanes) override {
        for (int job = 0; job < count; ++job) {
            for (int stream = 0; stream < streams; ++stream) {
                for (int channel = 0; channel < jobs[job].inputs; ++channel)
                    conv::keep(jobs[job], stream, lanes[stream], channel);
            }
        }
    }

private:
    bool exact_;
    int processors_;
};

}  // namespace

std::unique_ptr<Runner> emulated_runner(bool exact, int processors) {
    return std::make_unique<EmulatedRunner>(exact, processors);
}

Cut cut_of(const Layer &layer, int streams, int time, bool exact, const Runner &runner) {
    const int segments = layer.segments();
    Cut cut{0, 1};
    for (int bands = 1; bands <= most_bands(exact); bands *= 2) {
        const int rows = warps_down * bands * band;
        const int64_t bytes =
            shared_floats(layer, row_room(layer, streams, time, rows)) * static_cast<int64_t>(sizeof(float));
        const int tiles = row_tiles(streams * time, rows) * layer.column_tiles();
        const bool keeps_busy = tiles * segments >= runner.processors();
        if (bytes > runner.shared_limit() || (cut.bands > 0 && !keeps_busy))
            break;
        cut = {bands, std::clamp(2 * runner.processors() / tiles, 1, segments)};
    }
    return cut;
}

#ifndef GGTTS_CUDA
bool cuda_runs(int) {
    return false;
}
std::unique_ptr<Runner> cuda_runner(int, predictor::Machine &, bool) {
    return nullptr;
}
#endif

}  // namespace ggtts::conv
