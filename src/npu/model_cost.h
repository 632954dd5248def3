#pragma once
// How fast a whole model would be on a device, from its sizes alone: two formulas whose numbers were fitted
// to published speeds (docs/design/npu.md). For single operations see cost.h.
#include <cstdint>

#include "src/npu/device.h"

namespace tessera::npu {

/// Sizes of a decoder without experts.
struct ModelSizes {
    int64_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab;
};

/// Weights of 4 bits with blocks of 64 for the layers, of 8 bits for the output, keys and values of 8 bits;
/// all n_ctx positions are read and scored, used or not, as graphs of fixed shapes do. A score of a single
/// row takes a vector unit for as long as those of a whole vector of rows. By the numbers model_fit of the
/// device: those of transfers and layers are the instructions'.
struct DecodeEstimate {
    int64_t weight_bytes = 0, kv_bytes = 0;  ///< for each token, keys and values counted once
    int64_t scores = 0;                      ///< of all layers and heads
    double token_us = 0;
};
DecodeEstimate estimate_decode(const HtpDevice& device, const ModelSizes& sizes, int64_t n_ctx);

/// One chunk of a prompt, with activations of 16 bits: products, and scores of n_tok rows with all n_ctx
/// positions.
struct PromptEstimate {
    double products_us = 0, attention_us = 0;
    double chunk_us() const { return products_us + attention_us; }
};
PromptEstimate estimate_prompt(const HtpDevice& device, const ModelSizes& sizes, int64_t n_tok,
                               int64_t n_ctx);

}  // namespace tessera::npu
