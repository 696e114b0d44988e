#include "attention.hpp"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "row_kernels.hpp"
#include "vector_kernels.hpp"
#include "work_share.hpp"

namespace ggtts::kernels {
namespace {

struct KeyRange {
    int64_t first;
    int64_t end;

    int64_t count() const { return end - first; }
};

// One attention operation: its operands by name.
struct Operands {
    const ggml_tensor *q, *k, *v;
    const int32_t *positions;
    const int32_t *slots;  // of the sequences, or null: sequence n is in slot n
    int64_t sequences;
    float *result;
    const AttentionSettings &settings;

    int64_t head_dim() const { return q->ne[0]; }
    int64_t heads() const { return q->ne[1]; }
    int64_t tokens() const { return q->ne[2]; }
    int64_t kv_heads() const { return k->ne[2]; }
    int64_t slot(int64_t token) const {
        const int64_t sequence = token / (tokens() / sequences);
        return slots == nullptr ? sequence : slots[sequence];
    }
    int64_t heads_per_key_head() const { return heads() / kv_heads(); }

    KeyRange visible_keys(int64_t token) const {
        const int64_t available = k->ne[1];
        if (!settings.causal) {
            return {0, std::clamp<int64_t>(positions[0], 0, available)};
        }
        const int64_t end = std::clamp<int64_t>(static_cast<int64_t>(positions[token]) + 1, 0, available);
        return {settings.window > 0 ? std::max<int64_t>(0, end - settings.window) : 0, end};
    }
    const float *query(int64_t head, int64_t token) const {
        return reinterpret_cast<const float *>(static_cast<const char *>(q->data) +
                                               static_cast<size_t>(head) * q->nb[1] +
                                               static_cast<size_t>(token) * q->nb[2]);
    }
    static const char *row(const ggml_tensor *cache, int64_t slot, int64_t kv_head, int64_t position) {
        return static_cast<const char *>(cache->data) + static_cast<size_t>(slot) * cache->nb[3] +
               static_cast<size_t>(kv_head) * cache->nb[2] + static_cast<size_t>(position) * cache->nb[1];
    }
    float *out(int64_t head, int64_t token) const { return result + (token * heads() + head) * head_dim(); }
};

// Few queries: each passes over the rows of its keys and values.

void attend_one(const Operands &attention, const RowKernels &rows, const VectorKernels &vectors, int64_t head,
                int64_t token, std::vector<float> &scores) {
    const KeyRange range = attention.visible_keys(token);
    float *out = attention.out(head, token);
    if (range.count() <= 0) {
        std::memset(out, 0, static_cast<size_t>(attention.head_dim()) * sizeof(float));
        return;
    }
    const int64_t kv_head = head / attention.heads_per_key_head(), slot = attention.slot(token);
    scores.resize(static_cast<size_t>(range.count()));
    rows.dots(attention.query(head, token), Operands::row(attention.k, slot, kv_head, range.first),
              attention.k->nb[1], range.count(), attention.head_dim(), scores.data());
    const float highest = *std::max_element(scores.begin(), scores.end());
    const float total = vectors.exponentials(scores.data(), range.count(), highest, attention.settings.scale);
    const float inverse = 1.0f / total;
    for (float &score : scores) {
        score *= inverse;
    }
    rows.weighted_sum(scores.data(), Operands::row(attention.v, slot, kv_head, range.first),
                      attention.v->nb[1], range.count(), attention.head_dim(), out);
}

void attend_row_by_row(const Operands &attention, const VectorKernels &vectors, int thread, int threads) {
    const RowKernels &rows = row_kernels(attention.k->type == GGML_TYPE_F16);
    std::vector<float> scores;
    // Neighbouring jobs share a key head, so a thread finds its rows in cache.
    const int64_t tokens = attention.tokens();
    for (int64_t job = thread; job < attention.heads() * tokens; job += threads) {
        attend_one(attention, rows, vectors, job / tokens, job % tokens, scores);
    }
}

// Many queries: two matrix products per tile of queries, with keys and values of a head packed for them once.

class PackedHead {
public:
    PackedHead(const Operands &attention, const VectorKernels &vectors)
        : attention_(attention),
          vectors_(vectors),
          keys_(attention.k->ne[1]),
          value_panels_(rounded(attention.head_dim()) / vectors.panel_width),
          packed_keys_(static_cast<size_t>(rounded(keys_) * attention.head_dim())),
          packed_values_(static_cast<size_t>(keys_ * rounded(attention.head_dim()))),
          scores_(static_cast<size_t>(vectors.max_rows * rounded(keys_))),
          mixed_(static_cast<size_t>(vectors.max_rows * vectors.panel_width)) {}

    void pack(int64_t kv_head) {
        if (kv_head == kv_head_) {
            return;
        }
        kv_head_ = kv_head;
        const int64_t width = vectors_.panel_width, head_dim = attention_.head_dim();
        std::vector<float> row(static_cast<size_t>(head_dim));
        for (int64_t key = 0; key < keys_; ++key) {
            read_row(attention_.k, key, row.data());
            float *column = packed_keys_.data() + (key / width) * head_dim * width + key % width;
            for (int64_t i = 0; i < head_dim; ++i) {
                column[i * width] = row[static_cast<size_t>(i)];
            }
            read_row(attention_.v, key, row.data());
            for (int64_t panel = 0; panel < value_panels_; ++panel) {
                const int64_t values = std::min(width, head_dim - panel * width);
                std::memcpy(packed_values_.data() + (panel * keys_ + key) * width, row.data() + panel * width,
                            static_cast<size_t>(values) * sizeof(float));
            }
        }
    }

    void attend(int64_t head, int64_t first_token, int64_t count) {
        KeyRange all{keys_, 0};
        for (int64_t t = first_token; t < first_token + count; ++t) {
            const KeyRange range = attention_.visible_keys(t);
            all = {std::min(all.first, range.first), std::max(all.end, range.end)};
        }
        const int64_t stride = rounded(keys_);
        score(head, first_token, count, all, stride);
        for (int64_t t = 0; t < count; ++t) {
            normalise(scores_.data() + t * stride, attention_.visible_keys(first_token + t), all);
        }
        mix(head, first_token, count, all, stride);
    }

private:
    int64_t rounded(int64_t size) const {
        return (size + vectors_.panel_width - 1) / vectors_.panel_width * vectors_.panel_width;
    }

    void read_row(const ggml_tensor *cache, int64_t key, float *to) const {
        const char *from = Operands::row(cache, 0, kv_head_, key);
        if (cache->type == GGML_TYPE_F16) {
            ggml_fp16_to_fp32_row(reinterpret_cast<const ggml_fp16_t *>(from), to, attention_.head_dim());
        } else {
            std::memcpy(to, from, static_cast<size_t>(attention_.head_dim()) * sizeof(float));
        }
    }

    void score(int64_t head, int64_t first_token, int64_t count, KeyRange all, int64_t stride) {
        const int64_t width = vectors_.panel_width, head_dim = attention_.head_dim();
        const int64_t query_stride = static_cast<int64_t>(attention_.q->nb[2] / sizeof(float));
        std::fill(scores_.begin(), scores_.end(), 0.0f);
        for (int64_t panel = all.first / width; panel * width < all.end; ++panel) {
            vectors_.multiply_panel({attention_.query(head, first_token), query_stride,
                                     packed_keys_.data() + panel * head_dim * width, head_dim, nullptr,
                                     nullptr, scores_.data() + panel * width, stride},
                                    count);
        }
    }

    // Scores become weights that sum to one over the visible keys and are zero on the others.
    void normalise(float *scores, KeyRange visible, KeyRange all) const {
        std::fill(scores + all.first, scores + visible.first, 0.0f);
        std::fill(scores + visible.end, scores + all.end, 0.0f);
        if (visible.count() <= 0) {
            return;
        }
        float *begin = scores + visible.first, *end = scores + visible.end;
        const float highest = *std::max_element(begin, end);
        const float total = vectors_.exponentials(begin, visible.count(), highest, attention_.settings.scale);
        const float inverse = 1.0f / total;
        std::for_each(begin, end, [inverse](float &weight) { weight *= inverse; });
    }

    void mix(int64_t head, int64_t first_token, int64_t count, KeyRange all, int64_t stride) {
        const int64_t width = vectors_.panel_width, head_dim = attention_.head_dim();
        for (int64_t panel = 0; panel < value_panels_; ++panel) {
            std::fill(mixed_.begin(), mixed_.end(), 0.0f);
            if (all.count() > 0) {
                vectors_.multiply_panel({scores_.data() + all.first, stride,
                                         packed_values_.data() + (panel * keys_ + all.first) * width,
                                         all.count(), nullptr, nullptr, mixed_.data(), width},
                                        count);
            }
            const int64_t values = std::min(width, head_dim - panel * width);
            for (int64_t t = 0; t < count; ++t) {
                std::memcpy(attention_.out(head, first_token + t) + panel * width, mixed_.data() + t * width,
                            static_cast<size_t>(values) * sizeof(float));
            }
        }
    }

    const Operands &attention_;
    const VectorKernels &vectors_;
    int64_t keys_, value_panels_;
    int64_t kv_head_ = -1;
    std::vector<float> packed_keys_;    // panels of [head_dim, panel_width]
    std::vector<float> packed_values_;  // panels of [keys, panel_width]
    std::vector<float> scores_, mixed_;
};

void attend_by_tiles(const Operands &attention, const VectorKernels &vectors, int thread, int threads) {
    PackedHead packed(attention, vectors);
    const int64_t tile = vectors.max_rows, tokens = attention.tokens();
    const int64_t tiles = (tokens + tile - 1) / tile;
    const auto [begin, end] = share(attention.heads() * tiles, thread, threads);
    for (int64_t job = begin; job < end; ++job) {
        const int64_t head = job / tiles, first = job % tiles * tile;
        packed.pack(head / attention.heads_per_key_head());
        packed.attend(head, first, std::min(tile, tokens - first));
    }
}

}  // namespace

void attention(ggml_tensor *result, int thread, int threads, void *userdata) {
    const ggml_tensor *keys = result->src[1], *slots = result->src[4];
    const Operands operands{result->src[0],
                            keys,
                            result->src[2],
                            static_cast<const int32_t *>(result->src[3]->data),
                            slots == nullptr ? nullptr : static_cast<const int32_t *>(slots->data),
                            slots == nullptr ? keys->ne[3] : slots->ne[0],
                            static_cast<float *>(result->data),
                            *static_cast<const AttentionSettings *>(userdata)};
    const VectorKernels &vectors = best_vector_kernels();
    if (operands.tokens() < tiled_from_tokens || operands.settings.window > 0 || keys->ne[3] > 1) {
        attend_row_by_row(operands, vectors, thread, threads);
    } else {
        attend_by_tiles(operands, vectors, thread, threads);
    }
}

}  // namespace ggtts::kernels
