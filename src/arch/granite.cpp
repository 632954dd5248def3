// granite, granitemoe: Granite 3 and 4 without recurrent layers. Like llama, with factors of embeddings,
// sublayer outputs, attention scores and logits. granitemoe has experts whose weights are a softmax over the
// selected logits, and optionally a shared expert. Source: the cards of Granite 3.0 and 4.0; arXiv 2408.13359
// (the factors).
#include "src/arch/rows.h"

namespace tessera::arch {

namespace {

constexpr std::span<const LayerTensor> kGraniteLayer[] = {kPreNormRows, kAttentionRows, kMaybeBiasRows,
                                                          kDenseRows};
constexpr std::span<const LayerTensor> kGraniteMoeLayer[] = {kPreNormRows, kAttentionRows, kMaybeBiasRows,
                                                             kExpertRows, kSharedExpertRows};

}  // namespace

extern const ArchSpec kGranite = {
    .name = "granite",
    .rope = RopeKind::Norm,
    .has_multipliers = true,
    .model_tensors = kModelRows,
    .layer_tensors = kGraniteLayer,
    .fused_tensors = kFusedTensors,
};

extern const ArchSpec kGraniteMoe = {
    .name = "granitemoe",
    .rope = RopeKind::Norm,
    .has_multipliers = true,
    .model_tensors = kModelRows,
    .layer_tensors = kGraniteMoeLayer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
