#pragma once
// Tensors that many architectures share, in groups; an architecture's file lists the groups it has.
#include "src/model/arch_spec.h"

namespace tessera::arch {

inline constexpr ModelTensor kModelRows[] = {
    {"token_embd.weight", &Weights::token_embd, {Dim::Vocab, Dim::Embd}, Need::Always},
    {"output_norm.weight", &Weights::output_norm, {Dim::Embd}, Need::Always},
    {"output.weight", &Weights::output, {Dim::Vocab, Dim::Embd}, Need::Optional},
    {"rope_freqs.weight", &Weights::rope_freqs, {Dim::RotHalf}, Need::Optional},
};

/// Attention behind a norm, with optional biases.
inline constexpr LayerTensor kAttentionRows[] = {
    {"attn_norm.weight", &LayerWeights::attn_norm, {Dim::Embd}, Need::Always},
    {"attn_q.weight", &LayerWeights::wq, {Dim::Q, Dim::Embd}, Need::Always},
    {"attn_k.weight", &LayerWeights::wk, {Dim::Kv, Dim::Embd}, Need::Always},
    {"attn_v.weight", &LayerWeights::wv, {Dim::Kv, Dim::Embd}, Need::Always},
    {"attn_output.weight", &LayerWeights::wo, {Dim::Embd, Dim::Q}, Need::Always},
    {"attn_q.bias", &LayerWeights::bq, {Dim::Q}, Need::Optional},
    {"attn_k.bias", &LayerWeights::bk, {Dim::Kv}, Need::Optional},
    {"attn_v.bias", &LayerWeights::bv, {Dim::Kv}, Need::Optional},
    {"attn_output.bias", &LayerWeights::bo, {Dim::Embd}, Need::Optional},
};

/// Norms of each query and key head, before rotation.
inline constexpr LayerTensor kHeadNormRows[] = {
    {"attn_q_norm.weight", &LayerWeights::q_norm, {Dim::Head}, Need::Always},
    {"attn_k_norm.weight", &LayerWeights::k_norm, {Dim::Head}, Need::Always},
};

/// A gated feed-forward behind a norm, dense or of experts.
inline constexpr LayerTensor kFeedForwardRows[] = {
    {"ffn_norm.weight", &LayerWeights::ffn_norm, {Dim::Embd}, Need::Always},
    {"ffn_gate.weight", &LayerWeights::gate, {Dim::Ff, Dim::Embd}, Need::Dense},
    {"ffn_up.weight", &LayerWeights::up, {Dim::Ff, Dim::Embd}, Need::Dense},
    {"ffn_down.weight", &LayerWeights::down, {Dim::Embd, Dim::Ff}, Need::Dense},
    {"ffn_gate.bias", &LayerWeights::gate_bias, {Dim::Ff}, Need::Optional},
    {"ffn_up.bias", &LayerWeights::up_bias, {Dim::Ff}, Need::Optional},
    {"ffn_down.bias", &LayerWeights::down_bias, {Dim::Embd}, Need::Optional},
    {"ffn_gate_inp.weight", &LayerWeights::router, {Dim::Expert, Dim::Embd}, Need::Expert},
    {"ffn_gate_exps.weight", &LayerWeights::gate_exps, {Dim::Expert, Dim::FfExpert, Dim::Embd}, Need::Expert},
    {"ffn_up_exps.weight", &LayerWeights::up_exps, {Dim::Expert, Dim::FfExpert, Dim::Embd}, Need::Expert},
    {"ffn_down_exps.weight", &LayerWeights::down_exps, {Dim::Expert, Dim::Embd, Dim::FfExpert}, Need::Expert},
};

inline constexpr std::span<const LayerTensor> kPlainLayer[] = {kAttentionRows, kFeedForwardRows};
inline constexpr std::span<const LayerTensor> kHeadNormLayer[] = {kAttentionRows, kHeadNormRows,
                                                                  kFeedForwardRows};

}  // namespace tessera::arch
