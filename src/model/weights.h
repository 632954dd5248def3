#pragma once
// The parameters of a model, bound by name and shape. Views: the Model owns the memory.
#include <vector>

#include "ggml-like/tensor.h"

namespace tessera {

/// One layer. Absent parameters are empty.
struct LayerWeights {
    Vector attn_norm;  // [n_embd]
    Weight wq;         // [n_head * head_dim, n_embd]
    Weight wk, wv;     // [n_head_kv * head_dim, n_embd]
    Weight wo;         // [n_embd, n_head * head_dim]
    Vector bq, bk, bv, bo;
    Vector q_norm, k_norm;  // [head_dim], or over the rows of wq and wk
    Vector sinks;           // [n_head]
    Vector attn_post_norm;  // [n_embd]

    Vector ffn_norm;  // [n_embd]
    Weight gate, up;  // [n_ff, n_embd]
    Weight down;      // [n_embd, n_ff]
    Vector gate_bias, up_bias, down_bias;
    Vector ffn_post_norm;  // [n_embd]

    Weight router;                  // [n_expert, n_embd]
    Weight gate_exps, up_exps;      // [n_expert, n_ff_expert, n_embd]
    Weight down_exps;               // [n_expert, n_embd, n_ff_expert]
    Vector router_bias;             // [n_expert]
    Vector gate_exps_bias;          // [n_expert, n_ff_expert]
    Vector up_exps_bias;            // [n_expert, n_ff_expert]
    Vector down_exps_bias;          // [n_expert, n_embd]
    Weight gate_shared, up_shared;  // [n_ff_shared, n_embd] shared expert
    Weight down_shared;             // [n_embd, n_ff_shared]
    Weight shared_expert_gate;      // [1, n_embd] gate of the shared expert
};

struct Weights {
    Weight token_embd;   // [n_vocab, n_embd]
    Weight output;       // [n_vocab, n_embd]; token_embd if embeddings are tied
    Vector output_norm;  // [n_embd]
    Vector rope_freqs;   // [n_rot / 2] divisors, or empty
    Vector rope_short;   // [n_rot / 2] divisors for contexts up to the original one, or empty
    Vector rope_long;    // [n_rot / 2] divisors for longer contexts, or empty
    std::vector<LayerWeights> layers;
};

/// The matrices of a layer in the order of the forward pass; experts are stacks of n_expert.
inline constexpr Weight LayerWeights::*kLayerMatrices[] = {
    &LayerWeights::wq,        &LayerWeights::wk,          &LayerWeights::wv,
    &LayerWeights::wo,        &LayerWeights::gate,        &LayerWeights::up,
    &LayerWeights::down,      &LayerWeights::router,      &LayerWeights::gate_exps,
    &LayerWeights::up_exps,   &LayerWeights::down_exps,   &LayerWeights::gate_shared,
    &LayerWeights::up_shared, &LayerWeights::down_shared,
};

}  // namespace tessera
