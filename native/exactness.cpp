#include "exactness.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "descriptions.hpp"
#include "ggml_failures.hpp"
#include "gguf_file.hpp"

namespace ggtts {

bool keeps_all_bits(ggml_backend_t backend, ggml_type type) {
    constexpr int64_t terms = 64, rows = 32;
    constexpr size_t tensors = 3;
    // The least number above one that 11 bits do not hold, and that they round down.
    constexpr float factor = 1.0F + 1.0F / 4096;
    const Descriptions context(tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(tensors, false));
    ggml_context *room = context.get();
    ggml_tensor *left = ggml_new_tensor_2d(room, type, terms, rows);
    ggml_tensor *right = ggml_new_tensor_2d(room, GGML_TYPE_F32, terms, columns_without_rounding);
    ggml_tensor *product = ggml_mul_mat(room, left, right);
    ggml_mul_mat_set_prec(product, GGML_PREC_F32);
    ggml_cgraph *graph = ggml_new_graph_custom(room, tensors, false);
    ggml_build_forward_expand(graph, product);
    const auto memory = own(ggml_backend_get_device(backend), ggml_backend_alloc_ctx_tensors(room, backend));
    if (!memory)
        return true;  // whatever is computed next says so
    const std::vector<float> factors(static_cast<size_t>(ggml_nelements(left)), factor);
    const std::vector<uint8_t> weights = from_float32(type, factors.data(), rows, terms);
    ggml_backend_tensor_set(left, weights.data(), 0, weights.size());
    ggml_backend_tensor_set(right, factors.data(), 0, ggml_nbytes(right));
    std::optional<UnguardedCalls> others_wait;
    if (ggml_backend_dev_type(ggml_backend_get_device(backend)) == GGML_BACKEND_DEVICE_TYPE_CPU)
        others_wait.emplace();
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS)
        return true;
    std::vector<float> found(static_cast<size_t>(ggml_nelements(product)));
    ggml_backend_tensor_get(product, found.data(), 0, ggml_nbytes(product));
    constexpr float expected = terms * factor * factor;
    return std::all_of(found.begin(), found.end(),
                       [](float value) { return std::abs(value - expected) < expected * 1e-5F; });
}

}  // namespace ggtts
