// Decode is bound by memory bandwidth and attention scores, prefill by matrix products and attention.
#include "src/npu/model_cost.h"

namespace tessera::npu {

namespace {

/// Number of weights of one layer.
int64_t layer_weights(const ModelSizes& s) {
    const int64_t n_q = s.n_head * s.head_dim, n_kv = s.n_head_kv * s.head_dim;
    return s.n_embd * (2 * n_q + 2 * n_kv + 3 * s.n_ff);
}

}  // namespace

DecodeEstimate estimate_decode(const HtpDevice& device, const ModelSizes& s, int64_t n_ctx) {
    DecodeEstimate out;
    // 4 bits per weight and half a byte of multiplier per 64 weights.
    out.weight_bytes = s.n_layer * layer_weights(s) * 65 / 128 + s.n_vocab * s.n_embd;
    out.kv_bytes = 2 * s.n_layer * s.n_head_kv * s.head_dim * n_ctx;
    out.scores = s.n_layer * s.n_head * n_ctx;
    const double bytes = static_cast<double>(out.weight_bytes + device.model_kv_passes * out.kv_bytes);
    const double score_ns = device.model_score_ns / static_cast<double>(device.hvx_contexts);
    out.token_us = (bytes / device.model_gb_per_s + static_cast<double>(out.scores) * score_ns) * 1e-3;
    return out;
}

PromptEstimate estimate_prompt(const HtpDevice& device, const ModelSizes& s, int64_t n_tok, int64_t n_ctx) {
    // 16-bit activations take two passes of bytes; the output matrix is needed for the last row only.
    const double products_per_s = static_cast<double>(device.hmx_mac_per_cycle * device.hmx_units) *
                                  static_cast<double>(device.clock_hz) * device.hmx_efficiency / 2;
    const double products = static_cast<double>(n_tok) * static_cast<double>(s.n_layer * layer_weights(s));
    const double scores = static_cast<double>(n_tok * n_ctx) * static_cast<double>(s.n_head * s.n_layer);
    return {products / products_per_s * 1e6, scores / device.attention_elements_per_s * 1e6};
}

}  // namespace tessera::npu
