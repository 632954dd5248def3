// glm4: GLM-4-0414, GLM-Z1. Norms before and behind each sublayer, RoPE on half of a head, and gate and up
// fused as ffn_up. Source: arXiv 2406.12793, the model cards of GLM-4-0414.
#include "src/arch/rows.h"

namespace tessera::arch {

namespace {

constexpr std::span<const LayerTensor> kGlm4Layer[] = {kPreNormRows, kPostNormRows, kAttentionRows,
                                                       kMaybeBiasRows, kDownRows};

}  // namespace

extern const ArchSpec kGlm4 = {
    .name = "glm4",
    .model_tensors = kModelRows,
    .layer_tensors = kGlm4Layer,
    .fused_tensors = kFusedGateInUp,
};

}  // namespace tessera::arch
