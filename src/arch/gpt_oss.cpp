// gpt-oss: 20B and 120B. Biases everywhere, attention sinks, a sliding window in every other layer, YaRN, and
// experts with a clamped gate whose weights are a softmax over the selected logits. In files the pre-norm of
// the experts is called post_attention_norm. Source: arXiv 2508.10925.
#include "src/arch/rows.h"

namespace tessera::arch {

namespace {

constexpr LayerTensor kNormAndSinkRows[] = {
    {"attn_norm.weight", &LayerWeights::attn_norm, {Dim::Embd}, required},
    {"post_attention_norm.weight", &LayerWeights::ffn_norm, {Dim::Embd}, required},
    {"attn_output.bias", &AttnWeights::bo, {Dim::Embd}, required},
    {"attn_sinks.weight", &AttnWeights::sinks, {Dim::Heads}, required},
};
constexpr LayerTensor kExpertBiasRows[] = {
    {"ffn_gate_inp.bias", &MoeFfn::router_bias, {Dim::Expert}, required},
    {"ffn_gate_exps.bias", &MoeFfn::gate_exps_bias, {Dim::Expert, Dim::Ff}, required},
    {"ffn_up_exps.bias", &MoeFfn::up_exps_bias, {Dim::Expert, Dim::Ff}, required},
    {"ffn_down_exps.bias", &MoeFfn::down_exps_bias, {Dim::Expert, Dim::Embd}, required},
};
constexpr std::span<const LayerTensor> kGptOssLayer[] = {kNormAndSinkRows, kAttentionRows, kQkvBiasRows,
                                                         kExpertRows, kExpertBiasRows};

}  // namespace

extern const ArchSpec kGptOss = {
    .name = "gpt-oss",
    .rope = RopeKind::Neox,
    .activation = Activation::ClampedSilu,
    .window_period = 2,
    .default_window = 128,
    .model_tensors = kModelRows,
    .layer_tensors = kGptOssLayer,
    .fused_tensors = kFusedTensors,
};

}  // namespace tessera::arch
