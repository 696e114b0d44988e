// What becomes of the sums of products on matrix units: steps that kernels share.
#pragma once

#include "products.hpp"
#include "split_activations.hpp"

namespace ggtts::predictor {

// The residual stream of all columns, and what blocks of it are made into.
template <class Split>
struct Residual {
    float *x;        // [columns][width]
    float *squares;  // [columns][blocks of the width], sums over each block
    Split normed;    // times the weights of the norm that follows
    int width;
    int columns;  // of `normed`
};

// Makes values of the lanes blocks of the residual stream.
template <class AllLanes, class Split, class Where>
GGTTS_ANYWHERE void publish(AllLanes &all, const Residual<Split> &residual, const float *norm, Where where) {
    all.combine_eights([](const FourValues &own) { return sum_of_squares(own.values); },
                       [](float a, float b) { return a + b; },
                       [](FourValues &own, float squares) { own.squares = squares; });
    all.each([&](int lane, FourValues &own) {
        const BlockPlace place = where(lane);
        if (!place.exists)
            return;
        const int row = place.block * block_width + first_of_lane(lane);
        *reinterpret_cast<Floats *>(residual.x + place.column * residual.width + row) = own.values;
        if (first_of_lane(lane) == 0)
            residual.squares[place.column * (residual.width / block_width) + place.block] = own.squares;
        const Floats weights = *reinterpret_cast<const Floats *>(norm + row);
        for (int i = 0; i < 4; ++i)
            own.values.at[i] *= weights.at[i];
    });
    split_blocks(all, residual.normed, residual.columns, where);
}

// The factor of the RMSNorm of each lane's column: squares_of(lane) are the sums over its blocks.
template <class AllLanes, class SquaresOf>
GGTTS_ANYWHERE void find_scales(AllLanes &all, int width, float epsilon, SquaresOf squares_of) {
    all.each([&](int lane, FourValues &own) {
        own.squares = 0.0F;
#pragma unroll 4
        for (int i = lane % lanes_of_block; i < width / block_width; i += lanes_of_block)
            own.squares += squares_of(lane, i);
    });
    all.combine_eights(
        [](const FourValues &own) { return own.squares; }, [](float a, float b) { return a + b; },
        [&](FourValues &own, float squares) { own.scale = norm_scale(squares, width, epsilon); });
}

// silu(gate) * up (Shazeer, "GLU variants improve Transformer", 2020), of rows that take turns.
GGTTS_ANYWHERE Floats gated(const Floats &first, const Floats &second, float scale) {
    Floats result;
    for (int i = 0; i < 4; ++i) {
        const Floats &rows = i < 2 ? first : second;
        const float gate = rows.at[i % 2 * 2] * scale, up = rows.at[i % 2 * 2 + 1] * scale;
        result.at[i] = gate / (1.0F + expf(-gate)) * up;
    }
    return result;
}

}  // namespace ggtts::predictor
