#pragma once
// Groups of tensors shared by many architectures. The file of an architecture lists its groups.
#include "src/model/arch_spec.h"

namespace tessera::arch {

inline constexpr ModelTensor kModelRows[] = {
    {"token_embd.weight", &Weights::token_embd, {Dim::Vocab, Dim::Embd}, Need::Always},
    {"output_norm.weight", &Weights::output_norm, {Dim::Embd}, Need::Always},
    {"output.weight", &Weights::output, {Dim::Vocab, Dim::Embd}, Need::Optional},
    {"rope_freqs.weight", &Weights::rope_freqs, {Dim::RotHalf}, Need::Optional},
    {"rope_factors_short.weight", &Weights::rope_short, {Dim::RotHalf}, Need::Optional},
    {"rope_factors_long.weight", &Weights::rope_long, {Dim::RotHalf}, Need::Optional},
};

/// Pre-norms.
inline constexpr LayerTensor kPreNormRows[] = {
    {"attn_norm.weight", &LayerWeights::attn_norm, {Dim::Embd}, Need::Always},
    {"ffn_norm.weight", &LayerWeights::ffn_norm, {Dim::Embd}, Need::Always},
};

/// Post-norms: on the outputs of sublayers, before they are added to the residual stream.
inline constexpr LayerTensor kPostNormRows[] = {
    {"post_attention_norm.weight", &LayerWeights::attn_post_norm, {Dim::Embd}, Need::Always},
    {"post_ffw_norm.weight", &LayerWeights::ffn_post_norm, {Dim::Embd}, Need::Always},
};

/// Attention without biases.
inline constexpr LayerTensor kAttentionRows[] = {
    {"attn_q.weight", &LayerWeights::wq, {Dim::Q, Dim::Embd}, Need::Always},
    {"attn_k.weight", &LayerWeights::wk, {Dim::Kv, Dim::Embd}, Need::Always},
    {"attn_v.weight", &LayerWeights::wv, {Dim::Kv, Dim::Embd}, Need::Always},
    {"attn_output.weight", &LayerWeights::wo, {Dim::Embd, Dim::Q}, Need::Always},
};

/// Biases of attention, optional and required.
inline constexpr LayerTensor kMaybeBiasRows[] = {
    {"attn_q.bias", &LayerWeights::bq, {Dim::Q}, Need::Optional},
    {"attn_k.bias", &LayerWeights::bk, {Dim::Kv}, Need::Optional},
    {"attn_v.bias", &LayerWeights::bv, {Dim::Kv}, Need::Optional},
    {"attn_output.bias", &LayerWeights::bo, {Dim::Embd}, Need::Optional},
};
inline constexpr LayerTensor kQkvBiasRows[] = {
    {"attn_q.bias", &LayerWeights::bq, {Dim::Q}, Need::Always},
    {"attn_k.bias", &LayerWeights::bk, {Dim::Kv}, Need::Always},
    {"attn_v.bias", &LayerWeights::bv, {Dim::Kv}, Need::Always},
};

/// QK-norm of each head, before RoPE.
inline constexpr LayerTensor kHeadNormRows[] = {
    {"attn_q_norm.weight", &LayerWeights::q_norm, {Dim::Head}, Need::Always},
    {"attn_k_norm.weight", &LayerWeights::k_norm, {Dim::Head}, Need::Always},
};

/// Dense feed-forward sublayer with a gate.
inline constexpr LayerTensor kDenseRows[] = {
    {"ffn_gate.weight", &LayerWeights::gate, {Dim::Ff, Dim::Embd}, Need::Dense},
    {"ffn_up.weight", &LayerWeights::up, {Dim::Ff, Dim::Embd}, Need::Dense},
    {"ffn_down.weight", &LayerWeights::down, {Dim::Embd, Dim::Ff}, Need::Dense},
    {"ffn_gate.bias", &LayerWeights::gate_bias, {Dim::Ff}, Need::Optional},
    {"ffn_up.bias", &LayerWeights::up_bias, {Dim::Ff}, Need::Optional},
    {"ffn_down.bias", &LayerWeights::down_bias, {Dim::Embd}, Need::Optional},
};

/// Mixture-of-experts feed-forward sublayer.
inline constexpr LayerTensor kExpertRows[] = {
    {"ffn_gate_inp.weight", &LayerWeights::router, {Dim::Expert, Dim::Embd}, Need::Expert},
    {"ffn_gate_exps.weight", &LayerWeights::gate_exps, {Dim::Expert, Dim::FfExpert, Dim::Embd}, Need::Expert},
    {"ffn_up_exps.weight", &LayerWeights::up_exps, {Dim::Expert, Dim::FfExpert, Dim::Embd}, Need::Expert},
    {"ffn_down_exps.weight", &LayerWeights::down_exps, {Dim::Expert, Dim::Embd, Dim::FfExpert}, Need::Expert},
};

/// Shared expert.
inline constexpr LayerTensor kSharedExpertRows[] = {
    {"ffn_gate_shexp.weight", &LayerWeights::gate_shared, {Dim::FfShared, Dim::Embd}, Need::Shared},
    {"ffn_up_shexp.weight", &LayerWeights::up_shared, {Dim::FfShared, Dim::Embd}, Need::Shared},
    {"ffn_down_shexp.weight", &LayerWeights::down_shared, {Dim::Embd, Dim::FfShared}, Need::Shared},
};

/// Dense or mixture of experts, depending on the file.
inline constexpr std::span<const LayerTensor> kPlainLayer[] = {kPreNormRows, kAttentionRows, kMaybeBiasRows,
                                                               kDenseRows, kExpertRows};
inline constexpr std::span<const LayerTensor> kHeadNormLayer[] = {
    kPreNormRows, kAttentionRows, kMaybeBiasRows, kHeadNormRows, kDenseRows, kExpertRows};

inline constexpr FusedTensor kFusedQkv = {
    .name = "attn_qkv.weight",
    .parts = {{&LayerWeights::wq, Dim::Q}, {&LayerWeights::wk, Dim::Kv}, {&LayerWeights::wv, Dim::Kv}},
    .n_in = Dim::Embd};
inline constexpr FusedTensor kFusedQkvBias = {
    .name = "attn_qkv.bias",
    .parts = {{&LayerWeights::bq, Dim::Q}, {&LayerWeights::bk, Dim::Kv}, {&LayerWeights::bv, Dim::Kv}}};
inline constexpr FusedTensor kFusedExperts = {
    .name = "ffn_gate_up_exps.weight",
    .parts = {{&LayerWeights::gate_exps, Dim::FfExpert}, {&LayerWeights::up_exps, Dim::FfExpert}},
    .stack = Dim::Expert,
    .n_in = Dim::Embd};

/// Fused tensors that converters may write for any architecture.
inline constexpr FusedTensor kFusedTensors[] = {kFusedQkv, kFusedQkvBias, kFusedExperts};

}  // namespace tessera::arch
