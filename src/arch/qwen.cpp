// qwen2, qwen2moe, qwen3, qwen3moe. Like llama with RoPE on the halves of a head. Qwen2 and 2.5 have biases
// of q, k and v; Qwen3 has QK-norm per head. Expert weights are a softmax over all experts; Qwen3
// renormalizes those of the selected experts. Qwen2 does not, and has a shared expert with a gate. Source:
// arXiv 2407.10671 (Qwen2), 2505.09388 (Qwen3); the card of Qwen1.5-MoE.
#include "src/arch/rows.h"

namespace tessera::arch {

namespace {

constexpr LayerTensor kTokenGateRows[] = {
    {"ffn_gate_inp_shexp.weight", &MoeFfn::shared_expert_gate, {Dim::Embd}, if_shared},
};
constexpr std::span<const LayerTensor> kQwen2Layer[] = {kPreNormRows, kAttentionRows, kQkvBiasRows,
                                                        kDenseRows};
constexpr std::span<const LayerTensor> kQwen2MoeLayer[] = {kPreNormRows, kAttentionRows,    kQkvBiasRows,
                                                           kExpertRows,  kSharedExpertRows, kTokenGateRows};

}  // namespace

extern const ArchSpec kQwen2 = {
    .name = "qwen2",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kQwen2Layer,
    .fused_tensors = kFusedTensors,
};

extern const ArchSpec kQwen2Moe = {
    .name = "qwen2moe",
    .rope = RopeKind::Neox,
    .router = RouterKind::SoftmaxOverAll,
    .model_tensors = kModelRows,
    .layer_tensors = kQwen2MoeLayer,
    .fused_tensors = kFusedTensors,
};

extern const ArchSpec kQwen3 = {
    .name = "qwen3",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kHeadNormLayer,
    .fused_tensors = kFusedTensors,
};

extern const ArchSpec kQwen3Moe = {
    .name = "qwen3moe",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kHeadNormLayer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
