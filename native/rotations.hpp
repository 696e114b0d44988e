// Rotary embeddings (Su et al., "RoFormer", 2021) as tables.
#pragma once

#include <cmath>
#include <vector>

namespace ggtts {

// Adds [head_dim / 2][cosine, sine] of a position.
inline void add_rotation(std::vector<float> &table, int position, int head_dim, float theta) {
    for (int pair = 0; pair < head_dim / 2; ++pair) {
        const double angle = position * std::pow(static_cast<double>(theta), -2.0 * pair / head_dim);
        table.push_back(static_cast<float>(std::cos(angle)));
        table.push_back(static_cast<float>(std::sin(angle)));
    }
}

}  // namespace ggtts
