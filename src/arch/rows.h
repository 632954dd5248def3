#pragma once
// Groups of tensors shared by many architectures. The file of an architecture lists its groups.
#include "src/model/arch_spec.h"

namespace tessera::arch {

// When a layer has a tensor whose part of the layer it has.
constexpr Presence required(const LayerSpec&) { return Presence::Required; }
constexpr Presence optional(const LayerSpec&) { return Presence::Optional; }
/// Required by a shared expert.
constexpr Presence if_shared(const LayerSpec& layer) {
    return layer.n_ff_shared > 0 ? Presence::Required : Presence::Absent;
}

inline constexpr ModelTensor kModelRows[] = {
    {"token_embd.weight", &Weights::token_embd, {Dim::Vocab, Dim::Embd}, Presence::Required},
    {"output_norm.weight", &Weights::output_norm, {Dim::Embd}, Presence::Required},
    {"output.weight", &Weights::output, {Dim::Vocab, Dim::Embd}, Presence::Optional},
    {"rope_freqs.weight", &Weights::rope_freqs, {Dim::RotHalf}, Presence::Optional},
    {"rope_factors_short.weight", &Weights::rope_short, {Dim::RotHalf}, Presence::Optional},
    {"rope_factors_long.weight", &Weights::rope_long, {Dim::RotHalf}, Presence::Optional},
};

/// Pre-norms.
inline constexpr LayerTensor kPreNormRows[] = {
    {"attn_norm.weight", &LayerWeights::attn_norm, {Dim::Embd}, required},
    {"ffn_norm.weight", &LayerWeights::ffn_norm, {Dim::Embd}, required},
};

/// Post-norms: on the outputs of sublayers, before they are added to the residual stream.
inline constexpr LayerTensor kPostNormRows[] = {
    {"post_attention_norm.weight", &LayerWeights::attn_post_norm, {Dim::Embd}, required},
    {"post_ffw_norm.weight", &LayerWeights::ffn_post_norm, {Dim::Embd}, required},
};

/// Attention without biases.
inline constexpr LayerTensor kAttentionRows[] = {
    {"attn_q.weight", &AttnWeights::wq, {Dim::Q, Dim::Embd}, required},
    {"attn_k.weight", &AttnWeights::wk, {Dim::K, Dim::Embd}, required},
    {"attn_v.weight", &AttnWeights::wv, {Dim::V, Dim::Embd}, required},
    {"attn_output.weight", &AttnWeights::wo, {Dim::Embd, Dim::Attn}, required},
};

/// Biases of attention, optional and required.
inline constexpr LayerTensor kMaybeBiasRows[] = {
    {"attn_q.bias", &AttnWeights::bq, {Dim::Q}, optional},
    {"attn_k.bias", &AttnWeights::bk, {Dim::K}, optional},
    {"attn_v.bias", &AttnWeights::bv, {Dim::V}, optional},
    {"attn_output.bias", &AttnWeights::bo, {Dim::Embd}, optional},
};
inline constexpr LayerTensor kQkvBiasRows[] = {
    {"attn_q.bias", &AttnWeights::bq, {Dim::Q}, required},
    {"attn_k.bias", &AttnWeights::bk, {Dim::K}, required},
    {"attn_v.bias", &AttnWeights::bv, {Dim::V}, required},
};

/// QK-norm of each head, before RoPE.
inline constexpr LayerTensor kHeadNormRows[] = {
    {"attn_q_norm.weight", &AttnWeights::q_norm, {Dim::Head}, required},
    {"attn_k_norm.weight", &AttnWeights::k_norm, {Dim::Head}, required},
};

/// Dense feed-forward sublayer with a gate.
inline constexpr LayerTensor kDenseRows[] = {
    {"ffn_gate.weight", &DenseFfn::gate, {Dim::Ff, Dim::Embd}, required},
    {"ffn_up.weight", &DenseFfn::up, {Dim::Ff, Dim::Embd}, required},
    {"ffn_down.weight", &DenseFfn::down, {Dim::Embd, Dim::Ff}, required},
    {"ffn_gate.bias", &DenseFfn::gate_bias, {Dim::Ff}, optional},
    {"ffn_up.bias", &DenseFfn::up_bias, {Dim::Ff}, optional},
    {"ffn_down.bias", &DenseFfn::down_bias, {Dim::Embd}, optional},
};

/// Mixture-of-experts feed-forward sublayer.
inline constexpr LayerTensor kExpertRows[] = {
    {"ffn_gate_inp.weight", &MoeFfn::router, {Dim::Expert, Dim::Embd}, required},
    {"ffn_gate_exps.weight", &MoeFfn::gate_exps, {Dim::Expert, Dim::Ff, Dim::Embd}, required},
    {"ffn_up_exps.weight", &MoeFfn::up_exps, {Dim::Expert, Dim::Ff, Dim::Embd}, required},
    {"ffn_down_exps.weight", &MoeFfn::down_exps, {Dim::Expert, Dim::Embd, Dim::Ff}, required},
};

/// Shared expert.
inline constexpr LayerTensor kSharedExpertRows[] = {
    {"ffn_gate_shexp.weight", &MoeFfn::gate_shared, {Dim::FfShared, Dim::Embd}, if_shared},
    {"ffn_up_shexp.weight", &MoeFfn::up_shared, {Dim::FfShared, Dim::Embd}, if_shared},
    {"ffn_down_shexp.weight", &MoeFfn::down_shared, {Dim::Embd, Dim::FfShared}, if_shared},
};

/// Dense or mixture of experts, depending on the file.
inline constexpr std::span<const LayerTensor> kPlainLayer[] = {kPreNormRows, kAttentionRows, kMaybeBiasRows,
                                                               kDenseRows, kExpertRows};
inline constexpr std::span<const LayerTensor> kHeadNormLayer[] = {
    kPreNormRows, kAttentionRows, kMaybeBiasRows, kHeadNormRows, kDenseRows, kExpertRows};

inline constexpr FusedTensor kFusedQkv = {
    .name = "attn_qkv.weight",
    .parts = {{&AttnWeights::wq, Dim::Q}, {&AttnWeights::wk, Dim::K}, {&AttnWeights::wv, Dim::V}},
    .n_in = Dim::Embd};
inline constexpr FusedTensor kFusedQkvBias = {
    .name = "attn_qkv.bias",
    .parts = {{&AttnWeights::bq, Dim::Q}, {&AttnWeights::bk, Dim::K}, {&AttnWeights::bv, Dim::V}}};
inline constexpr FusedTensor kFusedExperts = {
    .name = "ffn_gate_up_exps.weight",
    .parts = {{&MoeFfn::gate_exps, Dim::Ff}, {&MoeFfn::up_exps, Dim::Ff}},
    .stack = Dim::Expert,
    .n_in = Dim::Embd};

/// Dense feed-forward sublayer whose gate and up are fused as ffn_up (kFusedGateInUp).
inline constexpr LayerTensor kDownRows[] = {
    {"ffn_gate.weight", &DenseFfn::gate, {Dim::Ff, Dim::Embd}, required},
    {"ffn_down.weight", &DenseFfn::down, {Dim::Embd, Dim::Ff}, required},
};
inline constexpr FusedTensor kFusedGateInUp[] = {
    kFusedQkv,
    kFusedQkvBias,
    {.name = "ffn_up.weight",
     .parts = {{&DenseFfn::gate, Dim::Ff}, {&DenseFfn::up, Dim::Ff}},
     .n_in = Dim::Embd},
};

/// Fused tensors that converters may write for any architecture.
inline constexpr FusedTensor kFusedTensors[] = {kFusedQkv, kFusedQkvBias, kFusedExperts};

}  // namespace tessera::arch
