// starcoder2: StarCoder2 3B, 7B, 15B. LayerNorm, biases everywhere and a feed-forward network without a gate.
// Attention is full: files have no sliding window. Source: arXiv 2402.19173.
#include "src/arch/rows.h"

namespace tessera::arch {

namespace {

constexpr ModelTensor kStarCoder2Model[] = {
    {"token_embd.weight", &Weights::token_embd, {Dim::Vocab, Dim::Embd}, Presence::Required},
    {"output_norm.weight", &Weights::output_norm, {Dim::Embd}, Presence::Required},
    {"output_norm.bias", &Weights::output_norm_bias, {Dim::Embd}, Presence::Required},
    {"output.weight", &Weights::output, {Dim::Vocab, Dim::Embd}, Presence::Optional},
};
constexpr LayerTensor kBiasRows[] = {
    {"attn_norm.bias", &LayerWeights::attn_norm_bias, {Dim::Embd}, required},
    {"attn_output.bias", &AttnWeights::bo, {Dim::Embd}, required},
    {"ffn_norm.bias", &LayerWeights::ffn_norm_bias, {Dim::Embd}, required},
};
constexpr LayerTensor kUngatedRows[] = {
    {"ffn_up.weight", &DenseFfn::up, {Dim::Ff, Dim::Embd}, required},
    {"ffn_down.weight", &DenseFfn::down, {Dim::Embd, Dim::Ff}, required},
    {"ffn_up.bias", &DenseFfn::up_bias, {Dim::Ff}, required},
    {"ffn_down.bias", &DenseFfn::down_bias, {Dim::Embd}, required},
};
constexpr std::span<const LayerTensor> kStarCoder2Layer[] = {kPreNormRows, kAttentionRows, kQkvBiasRows,
                                                             kBiasRows, kUngatedRows};

}  // namespace

extern const ArchSpec kStarCoder2 = {
    .name = "starcoder2",
    .rope = RopeKind::Neox,
    .activation = Activation::Gelu,
    .layer_norm = true,
    .model_tensors = kStarCoder2Model,
    .layer_tensors = kStarCoder2Layer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
