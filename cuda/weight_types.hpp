// How each type of weight lies in memory, and how a lane of a warp reads it.
//
// A warp reads a chunk of 512 weights of a row: each lane 16 of them, in loads of 16 bytes that lie side by
// side. Lane l has four runs of four weights, run j begins at 128 j + 4 l: so the lanes read activations side
// by side, too, and never wait for each other's bank of shared memory.
#pragma once

#include "model.hpp"
#include "portable.hpp"

namespace ggtts::predictor {

inline constexpr int lanes = 32;
inline constexpr int runs = 4;        // of a lane in a chunk
inline constexpr int run_length = 4;  // weights

// Where a lane reads weights from: the memory of the device, or what was copied into shared memory.
struct FarWeights {
    static GGTTS_ANYWHERE Words words(const uint8_t *source) { return load_words(source); }
    static GGTTS_ANYWHERE TwoWords two_words(const uint8_t *source) { return load_two_words(source); }
};
struct NearWeights {
    static GGTTS_ANYWHERE Words words(const uint8_t *source) {
        return *reinterpret_cast<const Words *>(source);
    }
    static GGTTS_ANYWHERE TwoWords two_words(const uint8_t *source) {
        return *reinterpret_cast<const TwoWords *>(source);
    }
};

// Blocks of 32 signed bytes with one half as scale: 512 bytes, then the scales of runs 0 .. 3 for lanes 0 ..
// 7, 8 .. 15, ...
struct EightBits {
    static constexpr bool is_scaled = true;
    static constexpr int weight_bytes = 1;
    static constexpr int chunk_bytes = 544;
    struct Fragment {
        Words weights;
        TwoWords scales;
    };

    template <class Weights = FarWeights>
    static GGTTS_ANYWHERE Fragment load(const uint8_t *chunk, int lane) {
        return {Weights::words(chunk + lane * 16), Weights::two_words(chunk + chunk_width + lane / 8 * 8)};
    }

    static GGTTS_ANYWHERE void decode(const Fragment &fragment, int run, float (&weights)[run_length]) {
        decode_unscaled(fragment, run, weights);
        const float factor = scale(fragment, run);
        for (int i = 0; i < run_length; ++i)
            weights[i] *= factor;
    }

    // One run, of a row of which nothing else is needed.
    static GGTTS_ANYWHERE void decode_run(const uint8_t *chunk, int lane, int run,
                                          float (&weights)[run_length]) {
        floats_of_bytes(load_word(chunk + lane * 16 + run * 4), weights);
        const uint32_t scales = load_word(chunk + chunk_width + lane / 8 * 8 + run / 2 * 4);
        const float scale = float_of_half(static_cast<uint16_t>(scales >> (run % 2 * 16)));
        for (int i = 0; i < run_length; ++i)
            weights[i] *= scale;
    }

    // The same but for the scale, by which a sum can be multiplied as well.
    static GGTTS_ANYWHERE void decode_unscaled(const Fragment &fragment, int run,
                                               float (&weights)[run_length]) {
        floats_of_bytes(fragment.weights.at[run], weights);
    }
    static GGTTS_ANYWHERE float scale(const Fragment &fragment, int run) {
        return float_of_half(static_cast<uint16_t>(fragment.scales.at[run / 2] >> (run % 2 * 16)));
    }
};

struct Float16 {
    static GGTTS_ANYWHERE float decode(uint16_t bits) { return float_of_half(bits); }
};
struct BrainFloat16 {
    static GGTTS_ANYWHERE float decode(uint16_t bits) {
        return float_of_bits(static_cast<uint32_t>(bits) << 16);
    }
};

template <class Number>
struct SixteenBits {
    static constexpr bool is_scaled = false;
    static constexpr int weight_bytes = 2;
    static constexpr int chunk_bytes = 2 * chunk_width;
    struct Fragment {
        Words pieces[2];
    };

    template <class Weights = FarWeights>
    static GGTTS_ANYWHERE Fragment load(const uint8_t *chunk, int lane) {
        return {{Weights::words(chunk + lane * 16), Weights::words(chunk + chunk_bytes / 2 + lane * 16)}};
    }

    static GGTTS_ANYWHERE void decode(const Fragment &fragment, int run, float (&weights)[run_length]) {
        for (int i = 0; i < run_length; ++i) {
            const uint32_t pair = fragment.pieces[run / 2].at[run % 2 * 2 + i / 2];
            weights[i] = Number::decode(static_cast<uint16_t>(pair >> (i % 2 * 16)));
        }
    }

    static GGTTS_ANYWHERE void decode_run(const uint8_t *chunk, int lane, int run,
                                          float (&weights)[run_length]) {
        const TwoWords pairs = load_two_words(chunk + run / 2 * (chunk_bytes / 2) + lane * 16 + run % 2 * 8);
        for (int i = 0; i < run_length; ++i)
            weights[i] = Number::decode(static_cast<uint16_t>(pairs.at[i / 2] >> (i % 2 * 16)));
    }
};

struct ThirtyTwoBits {
    static constexpr bool is_scaled = false;
    static constexpr int weight_bytes = 4;
    static constexpr int chunk_bytes = 4 * chunk_width;
    struct Fragment {
        Words pieces[4];
    };

    template <class Weights = FarWeights>
    static GGTTS_ANYWHERE Fragment load(const uint8_t *chunk, int lane) {
        Fragment fragment;
        for (int piece = 0; piece < 4; ++piece)
            fragment.pieces[piece] = Weights::words(chunk + piece * 512 + lane * 16);
        return fragment;
    }

    static GGTTS_ANYWHERE void decode(const Fragment &fragment, int run, float (&weights)[run_length]) {
        for (int i = 0; i < run_length; ++i)
            weights[i] = float_of_bits(fragment.pieces[run].at[i]);
    }

    static GGTTS_ANYWHERE void decode_run(const uint8_t *chunk, int lane, int run,
                                          float (&weights)[run_length]) {
        const Words words = load_words(chunk + run * 512 + lane * 16);
        for (int i = 0; i < run_length; ++i)
            weights[i] = float_of_bits(words.at[i]);
    }
};

// Chunk `chunk` of a row.
template <class Type>
GGTTS_ANYWHERE const uint8_t *chunk_of(const Matrix &matrix, int row, int chunk) {
    const int64_t group = row / rows_together;
    return matrix.data +
           ((group * matrix.chunks + chunk) * rows_together + row % rows_together) * Type::chunk_bytes;
}

// Four neighbours from `column` on, a multiple of 4: for tables of which a row is read now and then.
template <class Type>
GGTTS_ANYWHERE Floats weights_at(const Matrix &matrix, int row, int column) {
    const int inside = column % chunk_width;
    const int run = inside / (lanes * run_length), lane = inside / run_length % lanes;
    Floats weights;
    Type::decode_run(chunk_of<Type>(matrix, row, column / chunk_width), lane, run, weights.at);
    return weights;
}

}  // namespace ggtts::predictor
