// The kernels of convolutions as loops, for tests on machines without a GPU.
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
    template <int together, class Load, class Function>
    void spread_together(int count, Load load, Function function) const {
        spread(count, [&](int i) { function(i, load(i)); });
    }
    void meet() const {}
    void let_next_begin() const {}
    void await_earlier() const {}

private:
    int block_;
};

// The part of a number that matrix units read.
float read_part(float value) {
    return float_of_bits(bits_of_float(value) & bits_read);
}

// The same as GGML's function, without a call: millions are wanted.
float value_of_half(uint32_t bits) {
    constexpr float lift = 5.192296858534828e33F;  // 2^112
    const uint32_t magnitude = bits & 0x7FFFU, sign = (bits & 0x8000U) << 16;
    const float value = float_of_bits(magnitude << 13) * lift;
    return float_of_bits((magnitude >= 0x7C00U ? 0x7F800000U | magnitude << 13 : bits_of_float(value)) |
                         sign);
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
    void all(Function function) {
        for (int warp = 0; warp < warps; ++warp) {
            for (int lane = 0; lane < lanes_of_warp; ++lane)
                function(warp * lanes_of_warp + lane, own(warp, lane));
        }
    }

    template <class Function>
    void multiply(Function operands) {
        for (int warp = 0; warp < warps; ++warp) {
            if (busy_[warp])
                multiply_warp(warp, operands);
        }
    }

    void copy_words(void *target, const void *source, bool exists) const {
        constexpr size_t bytes = 16;
        if (exists)
            std::memcpy(target, source, bytes);
        else
            std::memset(target, 0, bytes);
    }
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

    static constexpr bool halves = Shape::kind == Kind::halves;
    static constexpr int deep = halves ? 16 : 8, eight = 8;

    template <class Function>
    void multiply_warp(int warp, Function operands) {
        float outputs[group_width][deep], positions[deep][eight], *sums[lanes_of_warp];
        for (int lane = 0; lane < lanes_of_warp; ++lane) {
            const Operands with = operands(own(warp, lane));
            const int group = lane / 4;
            for (int i = 0; i < 4; ++i)
                unpack(with.outputs[i], lane % 4, i / 2,
                       [&](int k, float value) { outputs[group + i % 2 * 8][k] = value; });
            for (int i = 0; i < 2; ++i)
                unpack(with.positions[i], lane % 4, i,
                       [&](int k, float value) { positions[k][group] = value; });
            sums[lane] = with.sums;
        }
        for (int output = 0; output < group_width; ++output) {
            float result[eight] = {};
            for (int k = 0; k < deep; ++k) {
                for (int position = 0; position < eight; ++position)
                    result[position] += outputs[output][k] * positions[k][position];
            }
            for (int position = 0; position < eight; ++position)
                sums[output % 8 * 4 + position / 2][output / 8 * 2 + position % 2] += result[position];
        }
    }

    // What a register has: a number at depth `member` of the upper or lower four, or two neighbours of eight.
    template <class Set>
    static void unpack(uint32_t bits, int member, int part, Set set) {
        if constexpr (halves) {
            for (int i = 0; i < 2; ++i)
                set(2 * member + i + part * 8, value_of_half(bits >> (16 * i) & 0xFFFFU));
        } else {
            set(member + part * 4, read_part(float_of_bits(bits)));
        }
    }

    std::vector<Registers<Shape>> own_;
    bool busy_[warps] = {true, true, true, true};
};

// Shared memory of a block, in which a GPU would find anything.
std::vector<Floats> room_of(int64_t floats) {
    constexpr float nothing = std::numeric_limits<float>::quiet_NaN();
    return std::vector<Floats>(static_cast<size_t>(floats + 3) / 4,
                               Floats{{nothing, nothing, nothing, nothing}});
}

template <class Shape>
void run_tiles(const Pass &pass) {
    const int blocks = row_tiles(pass.rows(), Shape::rows) * pass.layer.column_tiles() * pass.split;
    for (int block = 0; block < blocks; ++block) {
        std::vector<Floats> shared =
            room_of(shared_floats(pass.layer, Shape::kind, Shape::rows, pass.row_room));
        EmulatedTile<Shape> tile(block);
        TileProduct<Shape, EmulatedTile<Shape>>(tile, pass, shared.data()->at).run();
    }
}

class EmulatedRunner : public Runner {
public:
    EmulatedRunner(Kind kind, int processors) : kind_(kind), processors_(processors) {}

    int processors() const override { return processors_; }
    int shared_limit() const override { return emulated_shared_limit; }

    void run(const Pass &pass, int bands) override {
        switch (kind_) {
            case Kind::exact:
                return bands == 2 ? run_tiles<Shape<Kind::exact, 2>>(pass)
                                  : run_tiles<Shape<Kind::exact, 1>>(pass);
            case Kind::halves:
                return run_bands<Kind::halves>(pass, bands);
            case Kind::rounded:
                return run_bands<Kind::rounded>(pass, bands);
        }
    }

    void run_narrow(const Pass &pass) override {
        std::vector<Floats> shared = room_of(narrow_floats(pass.layer));
        const int blocks = row_tiles(pass.time, narrow_rows) * pass.streams;
        for (int index = 0; index < blocks; ++index) {
            const EmulatedBlock block(index);
            if (kind_ == Kind::halves)
                NarrowProduct<Kind::halves, EmulatedBlock>(block, pass, shared.data()->at).run();
            else
                NarrowProduct<Kind::exact, EmulatedBlock>(block, pass, shared.data()->at).run();
        }
    }

    void keep(const Keeping *jobs, int count, int, int streams, const int32_t *lanes) override {
        for (int job = 0; job < count; ++job) {
            for (int stream = 0; stream < streams; ++stream) {
                for (int channel = 0; channel < jobs[job].inputs; ++channel) {
                    if (kind_ == Kind::halves)
                        conv::keep<uint16_t>(jobs[job], stream, lanes[stream], channel);
                    else
                        conv::keep<float>(jobs[job], stream, lanes[stream], channel);
                }
            }
        }
    }

private:
    template <Kind kind>
    static void run_bands(const Pass &pass, int bands) {
        if (bands == 4)
            run_tiles<Shape<kind, 4>>(pass);
        else
            bands == 2 ? run_tiles<Shape<kind, 2>>(pass) : run_tiles<Shape<kind, 1>>(pass);
    }

    Kind kind_;
    int processors_;
};

}  // namespace

std::unique_ptr<Runner> emulated_runner(Kind kind, int processors) {
    return std::make_unique<EmulatedRunner>(kind, processors);
}

#ifndef GGTTS_CUDA
bool cuda_runs(int) {
    return false;
}
std::unique_ptr<Runner> cuda_runner(int, predictor::Machine &, Kind) {
    return nullptr;
}
#endif

}  // namespace ggtts::conv
