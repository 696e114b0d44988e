#include "attention.hpp"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "row_kernels.hpp"

namespace ggtts::kernels {
namespace {

struct KeyRange {
    int64_t first;
    int64_t count;
};

KeyRange visible_keys(const AttentionSettings &settings, const int32_t *positions, int64_t token,
                      int64_t available) {
    if (!settings.causal)
        return {0, std::clamp<int64_t>(positions[0], 0, available)};
    const int64_t end = std::clamp<int64_t>(static_cast<int64_t>(positions[token]) + 1, 0, available);
    const int64_t first = settings.window > 0 ? std::max<int64_t>(0, end - settings.window) : 0;
    return {first, end - first};
}

// Scores become weights that sum to one.
void softmax_in_place(float *scores, int64_t count, float scale) {
    float highest = -INFINITY;
    for (int64_t i = 0; i < count; ++i)
        highest = std::max(highest, scores[i]);
    float total = 0.0f;
    for (int64_t i = 0; i < count; ++i) {
        scores[i] = std::exp((scores[i] - highest) * scale);
        total += scores[i];
    }
    const float inverse = 1.0f / total;
    for (int64_t i = 0; i < count; ++i)
        scores[i] *= inverse;
}

}  // namespace

void attention(ggml_tensor *result, int thread, int threads, void *userdata) {
    const auto &settings = *static_cast<const AttentionSettings *>(userdata);
    const ggml_tensor *q = result->src[0], *k = result->src[1], *v = result->src[2];
    const auto *positions = static_cast<const int32_t *>(result->src[3]->data);
    const int64_t head_dim = q->ne[0], heads = q->ne[1], tokens = q->ne[2], kv_heads = k->ne[2];
    const RowKernels &rows = row_kernels(k->type == GGML_TYPE_F16);
    std::vector<float> scores;

    // Neighbouring jobs share a key head, so a thread finds its rows in cache.
    for (int64_t job = thread; job < heads * tokens; job += threads) {
        const int64_t head = job / tokens, token = job % tokens, kv_head = head / (heads / kv_heads);
        const KeyRange range = visible_keys(settings, positions, token, k->ne[1]);
        auto *out = static_cast<float *>(result->data) + (token * heads + head) * head_dim;
        if (range.count == 0) {
            std::memset(out, 0, static_cast<size_t>(head_dim) * sizeof(float));
            continue;
        }
        scores.resize(static_cast<size_t>(range.count));
        const auto *query = reinterpret_cast<const float *>(static_cast<const char *>(q->data) +
                                                            static_cast<size_t>(head) * q->nb[1] +
                                                            static_cast<size_t>(token) * q->nb[2]);
        const auto row = [&](const ggml_tensor *cache) {
            return static_cast<const char *>(cache->data) + static_cast<size_t>(kv_head) * cache->nb[2] +
                   static_cast<size_t>(range.first) * cache->nb[1];
        };
        rows.dots(query, row(k), k->nb[1], range.count, head_dim, scores.data());
        softmax_in_place(scores.data(), range.count, settings.scale);
        rows.weighted_sum(scores.data(), row(v), v->nb[1], range.count, head_dim, out);
    }
}

}  // namespace ggtts::kernels
