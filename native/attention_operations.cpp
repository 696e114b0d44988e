// Rotary positions and attention.
#include <attention.hpp>

#include <array>

#include "backend.hpp"
#include "operands.hpp"

namespace ggtts {

Tensor rope(const Tensor &a, const Tensor &positions, int dimensions, float theta) {
    const auto graph = common_graph("rope", {&a, &positions});
    require_type("rope", a, GGML_TYPE_F32);
    require_type("rope", positions, GGML_TYPE_I32);
    if (positions.raw->ne[0] != a.raw->ne[2] || ggml_nelements(positions.raw) != positions.raw->ne[0]) {
        refuse("rope", describe(positions) + " positions for " + describe(a) + " (head_dim, heads, tokens)");
    }
    if (dimensions < 2 || dimensions % 2 != 0 || dimensions > a.raw->ne[0] || !(theta > 0)) {
        refuse("rope", std::to_string(dimensions) + " dimensions of " + describe(a));
    }
    // No context extension: with ext_factor 0 and freq_scale 1 the original context length has no effect.
    return node(graph,
                ggml_rope_ext(graph->room(), with_rows(a).raw, dense(positions).raw, nullptr, dimensions,
                              GGML_ROPE_TYPE_NEOX, 0, theta, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f));
}

namespace {

// With slots, keys are [head_dim, positions, kv_heads, slots], and each slot has as many queries as the
// others.
void check_attention(const char *operation, const Tensor &q, const Tensor &k, const Tensor &v,
                     int64_t slots) {
    require_type(operation, q, GGML_TYPE_F32);
    for (const Tensor *cache : {&k, &v}) {
        require_readable(operation, *cache);
        const ggml_type type = cache->raw->type;
        if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16)
            refuse(operation, "keys or values " + describe(*cache));
        if (cache->raw->nb[0] != ggml_type_size(type))
            refuse(operation, "heads out of line: " + describe(*cache));
    }
    if (k.raw->type != v.raw->type || !ggml_are_same_shape(k.raw, v.raw)) {
        refuse(operation, "keys " + describe(k) + " and values " + describe(v));
    }
    if (q.raw->ne[0] != k.raw->ne[0] || q.raw->ne[1] % k.raw->ne[2] != 0 || q.raw->ne[3] != 1 ||
        q.raw->ne[2] % slots != 0) {
        refuse(operation, "queries " + describe(q) + " (head_dim, heads, tokens) and keys " + describe(k) +
                              " (head_dim, positions, kv_heads, slots)");
    }
}

// GGML looks for keys that nobody sees: for all rows of a tile of queries, though there may be fewer, and in
// the mask of each slot, though one may serve all. So each slot has to have a mask, with memory behind it.
void check_mask(const Tensor &mask, const Tensor &q, const Tensor &k, int64_t queries) {
    const int64_t slots = k.raw->ne[3];
    const ggml_tensor *raw = mask.raw;
    const bool fits = raw->ne[0] == k.raw->ne[1] && raw->ne[1] == queries && raw->ne[2] == 1;
    if (!fits || raw->ne[3] != slots || !ggml_is_contiguous(raw))
        refuse("flash_attention", "mask " + describe(mask) + " for " + describe(q) + " and " + describe(k));
    const ggml_tensor *whole = raw->view_src != nullptr ? raw->view_src : raw;
    const size_t read = static_cast<size_t>(slots - 1) * raw->nb[3] +
                        static_cast<size_t>(queries + mask_rows_behind) * raw->nb[1];
    if (raw->view_offs + read > ggml_nbytes(whole)) {
        refuse("flash_attention",
               "mask " + describe(mask) + " without " + std::to_string(mask_rows_behind) + " rows behind it");
    }
}

}  // namespace

Tensor flash_attention(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor *mask, float scale) {
    const auto graph = common_graph("flash_attention", {&q, &k, &v, mask});
    const int64_t slots = k.raw->ne[3];
    check_attention("flash_attention", q, k, v, slots);
    const int64_t queries = q.raw->ne[2] / slots;
    ggml_tensor *hidden = nullptr;
    if (mask != nullptr) {
        require_type("flash_attention", *mask, GGML_TYPE_F16);
        check_mask(*mask, q, k, queries);
        hidden = mask->raw;
    }
    const Tensor by_slot = slots == 1 ? q : reshape(q, {q.raw->ne[0], q.raw->ne[1], queries, slots});
    const Tensor by_head = permute(by_slot, {0, 2, 1, 3});
    ggml_tensor *result =
        ggml_flash_attn_ext(graph->room(), by_head.raw, k.raw, v.raw, hidden, scale, 0.0f, 0.0f);
    ggml_flash_attn_ext_set_prec(result, GGML_PREC_F32);
    return reshape(node(graph, result), {q.raw->ne[0] * q.raw->ne[1], q.raw->ne[2]});
}

Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &positions, float scale,
                 int64_t window, bool causal, const Tensor *slots) {
    const auto graph = common_graph("attention", {&q, &k, &v, &positions, slots});
    if (!graph->backend().has_own_operations())
        refuse("attention", "the fused operation runs on the CPU only");
    check_attention("attention", q, k, v, slots == nullptr ? k.raw->ne[3] : slots->raw->ne[0]);
    require_type("attention", positions, GGML_TYPE_I32);
    const int64_t wanted = causal ? q.raw->ne[2] : 1;
    if (ggml_nelements(positions.raw) != wanted) {
        refuse("attention", describe(positions) + " positions for " + describe(q));
    }
    if (window < 0)
        refuse("attention", "a negative window");
    auto settings =
        std::make_shared<kernels::AttentionSettings>(kernels::AttentionSettings{scale, window, causal});
    std::vector<ggml_tensor *> operands{with_rows(q).raw, k.raw, v.raw, dense(positions).raw};
    if (slots != nullptr) {
        require_type("attention", *slots, GGML_TYPE_I32);
        if (ggml_nelements(slots->raw) != slots->raw->ne[0])
            refuse("attention", describe(*slots) + " is no list of slots");
        limit_ids(*graph, *slots, k.raw->ne[3]);
        operands.push_back(dense(*slots).raw);
    }
    return fused("attention", graph, std::move(operands), q.raw->ne[0] * q.raw->ne[1], q.raw->ne[2],
                 kernels::attention, std::move(settings));
}

}  // namespace ggtts
