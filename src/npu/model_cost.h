#pragma once
// Predicted speed of a whole model on a device, from its sizes only: two formulas fitted to published speeds
// (docs/design/npu.md). For single operations see cost.h.
#include <cstdint>

#include "src/npu/device.h"

namespace tessera::npu {

/// Sizes of a dense decoder.
struct ModelSizes {
    int64_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab;
};

/// Decode time with 4-bit layer weights in blocks of 64, 8-bit output weights and an 8-bit KV cache. All
/// n_ctx positions are read and scored, because graphs have fixed shapes. A score of a single row costs as
/// much as a whole vector of rows. Uses the device's model_fit numbers; the fields for transfers and layers
/// belong to the instruction model.
struct DecodeEstimate {
    int64_t weight_bytes = 0, kv_bytes = 0;  ///< per token; keys and values counted once
    int64_t scores = 0;                      ///< over all layers and heads
    double token_us = 0;
};
DecodeEstimate estimate_decode(const HtpDevice& device, const ModelSizes& sizes, int64_t n_ctx);

/// Time of one prefill chunk with 16-bit activations: matrix products, and attention of n_tok rows over all
/// n_ctx positions.
struct PromptEstimate {
    double products_us = 0, attention_us = 0;
    double chunk_us() const { return products_us + attention_us; }
};
PromptEstimate estimate_prompt(const HtpDevice& device, const ModelSizes& sizes, int64_t n_tok,
                               int64_t n_ctx);

}  // namespace tessera::npu
