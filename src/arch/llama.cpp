// llama: Llama 1-3, Mistral and Mistral-Nemo, Mixtral, SmolLM2, TinyLlama, Yi and their many children.
// Pre-norm RMS, SwiGLU, grouped queries, adjacent-pair rotary (converters permute q and k rows for it),
// optional biases, optional experts (Mixtral), embeddings tied or not. Source: arXiv 2302.13971, 2310.06825,
// 2401.04088.
#include "src/arch/specs.h"

namespace tessera::arch {

namespace {

using L = LayerWeights;
using W = Weights;

constexpr ModelTensor kModel[] = {
    {"token_embd.weight", &W::token_embd, {Dim::Vocab, Dim::Embd}, Need::Always},
    {"output_norm.weight", &W::output_norm, {Dim::Embd}, Need::Always},
    {"output.weight", &W::output, {Dim::Vocab, Dim::Embd}, Need::Optional},
    {"rope_freqs.weight", &W::rope_freqs, {Dim::RotHalf}, Need::Optional},
};

constexpr LayerTensor kLayer[] = {
    {"attn_norm.weight", &L::attn_norm, {Dim::Embd}, Need::Always},
    {"attn_q.weight", &L::wq, {Dim::Q, Dim::Embd}, Need::Always},
    {"attn_k.weight", &L::wk, {Dim::Kv, Dim::Embd}, Need::Always},
    {"attn_v.weight", &L::wv, {Dim::Kv, Dim::Embd}, Need::Always},
    {"attn_output.weight", &L::wo, {Dim::Embd, Dim::Q}, Need::Always},
    {"attn_q.bias", &L::bq, {Dim::Q}, Need::Optional},
    {"attn_k.bias", &L::bk, {Dim::Kv}, Need::Optional},
    {"attn_v.bias", &L::bv, {Dim::Kv}, Need::Optional},
    {"attn_output.bias", &L::bo, {Dim::Embd}, Need::Optional},
    {"ffn_norm.weight", &L::ffn_norm, {Dim::Embd}, Need::Always},
    {"ffn_gate.weight", &L::gate, {Dim::Ff, Dim::Embd}, Need::Dense},
    {"ffn_up.weight", &L::up, {Dim::Ff, Dim::Embd}, Need::Dense},
    {"ffn_down.weight", &L::down, {Dim::Embd, Dim::Ff}, Need::Dense},
    {"ffn_gate.bias", &L::gate_bias, {Dim::Ff}, Need::Optional},
    {"ffn_up.bias", &L::up_bias, {Dim::Ff}, Need::Optional},
    {"ffn_down.bias", &L::down_bias, {Dim::Embd}, Need::Optional},
    {"ffn_gate_inp.weight", &L::router, {Dim::Expert, Dim::Embd}, Need::Expert},
    {"ffn_gate_exps.weight", &L::gate_exps, {Dim::Expert, Dim::FfExpert, Dim::Embd}, Need::Expert},
    {"ffn_up_exps.weight", &L::up_exps, {Dim::Expert, Dim::FfExpert, Dim::Embd}, Need::Expert},
    {"ffn_down_exps.weight", &L::down_exps, {Dim::Expert, Dim::Embd, Dim::FfExpert}, Need::Expert},
};

}  // namespace

const ArchSpec kLlama = {
    .name = "llama",
    .rope = RopeKind::Norm,
    .model_tensors = kModel,
    .layer_tensors = kLayer,
};

}  // namespace tessera::arch
