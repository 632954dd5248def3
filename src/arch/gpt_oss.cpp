// gpt-oss: 20B and 120B. Biases everywhere, attention sinks, a sliding window in every other layer, YaRN, and
// experts with a clamped gate whose weights are a softmax over the selected logits. In files the pre-norm of
// the experts is called post_attention_norm. Source: arXiv 2508.10925.
#include "src/arch/rows.h"
#include "src/arch/specs.h"

namespace tessera::arch {

namespace {

constexpr LayerTensor kNormAndSinkRows[] = {
    {"attn_norm.weight", &LayerWeights::attn_norm, {Dim::Embd}, Need::Always},
    {"post_attention_norm.weight", &LayerWeights::ffn_norm, {Dim::Embd}, Need::Always},
    {"attn_output.bias", &LayerWeights::bo, {Dim::Embd}, Need::Always},
    {"attn_sinks.weight", &LayerWeights::sinks, {Dim::Heads}, Need::Always},
};
constexpr LayerTensor kExpertBiasRows[] = {
    {"ffn_gate_inp.bias", &LayerWeights::router_bias, {Dim::Expert}, Need::Always},
    {"ffn_gate_exps.bias", &LayerWeights::gate_exps_bias, {Dim::Expert, Dim::FfExpert}, Need::Always},
    {"ffn_up_exps.bias", &LayerWeights::up_exps_bias, {Dim::Expert, Dim::FfExpert}, Need::Always},
    {"ffn_down_exps.bias", &LayerWeights::down_exps_bias, {Dim::Expert, Dim::Embd}, Need::Always},
};
constexpr std::span<const LayerTensor> kGptOssLayer[] = {kNormAndSinkRows, kAttentionRows, kQkvBiasRows,
                                                         kExpertRows, kExpertBiasRows};

}  // namespace

const ArchSpec kGptOss = {
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
