// olmo2: OLMo 2 and 3. Post-norms instead of pre-norms, and QK-norm over whole rows. In OLMo 3 three of four
// layers have a sliding window and RoPE without YaRN. Source: arXiv 2501.00656; the card of OLMo 3.
#include "src/arch/rows.h"

namespace tessera::arch {

namespace {

constexpr LayerTensor kRowNormRows[] = {
    {"attn_q_norm.weight", &AttnWeights::q_norm, {Dim::Q}, required},
    {"attn_k_norm.weight", &AttnWeights::k_norm, {Dim::K}, required},
};
constexpr std::span<const LayerTensor> kOlmo2Layer[] = {kAttentionRows, kRowNormRows, kPostNormRows,
                                                        kDenseRows};

}  // namespace

extern const ArchSpec kOlmo2 = {
    .name = "olmo2",
    .rope = RopeKind::Neox,
    .window_period = 4,
    .plain_local_rope = true,
    .model_tensors = kModelRows,
    .layer_tensors = kOlmo2Layer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
