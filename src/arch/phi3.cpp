// phi3: Phi-3, Phi-3.5, Phi-4, Phi-4-mini. Like llama with RoPE on the halves of a head, partial in
// Phi-4-mini; fused tensors for q, k and v and for gate and up. LongRoPE has two sets of divisors. The key
// sliding_window is ignored: these models use full attention. Source: arXiv 2404.14219, 2412.08905,
// 2503.01743.
#include "src/arch/rows.h"

namespace tessera::arch {

namespace {

constexpr std::span<const LayerTensor> kPhi3Layer[] = {kPreNormRows, kAttentionRows, kMaybeBiasRows,
                                                       kDownRows};

}  // namespace

extern const ArchSpec kPhi3 = {
    .name = "phi3",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kPhi3Layer,
    .fused_tensors = kFusedGateInUp,
};

}  // namespace tessera::arch
