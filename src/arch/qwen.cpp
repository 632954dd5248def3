// qwen2, qwen2moe, qwen3, qwen3moe. Like llama, but pairs of a head's halves rotate; Qwen2 and 2.5 have q, k
// and v biases, Qwen3 a norm of each q and k head before rotation. Experts are chosen by softmax over all;
// Qwen3 renormalises the chosen ones' weights, Qwen2 does not, and has an expert that every token takes by a
// gate of its own. Source: arXiv 2407.10671 (Qwen2), 2505.09388 (Qwen3); the card of Qwen1.5-MoE.
#include "src/arch/rows.h"
#include "src/arch/specs.h"

namespace tessera::arch {

namespace {

constexpr LayerTensor kTokenGateRows[] = {
    {"ffn_gate_inp_shexp.weight", &LayerWeights::shared_expert_gate, {Dim::Embd}, Need::Shared},
};
constexpr std::span<const LayerTensor> kQwen2Layer[] = {kPreNormRows, kAttentionRows, kQkvBiasRows,
                                                        kDenseRows};
constexpr std::span<const LayerTensor> kQwen2MoeLayer[] = {kPreNormRows, kAttentionRows,    kQkvBiasRows,
                                                           kExpertRows,  kSharedExpertRows, kTokenGateRows};

}  // namespace

const ArchSpec kQwen2 = {
    .name = "qwen2",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kQwen2Layer,
    .fused_tensors = kFusedTensors,
};

const ArchSpec kQwen2Moe = {
    .name = "qwen2moe",
    .rope = RopeKind::Neox,
    .router = RouterKind::ShareOfAll,
    .model_tensors = kModelRows,
    .layer_tensors = kQwen2MoeLayer,
    .fused_tensors = kFusedTensors,
};

const ArchSpec kQwen3 = {
    .name = "qwen3",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kHeadNormLayer,
    .fused_tensors = kFusedTensors,
};

const ArchSpec kQwen3Moe = {
    .name = "qwen3moe",
    .rope = RopeKind::Neox,
    .model_tensors = kModelRows,
    .layer_tensors = kHeadNormLayer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
