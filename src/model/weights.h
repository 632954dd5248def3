#pragma once
// The parameters of a model, bound by name and shape. Views: the Model owns the memory.
#include <vector>

#include "ggml-like/tensor.h"

namespace tessera {

/// One decoder block. Absent parts are empty.
struct LayerWeights {
    Vector attn_norm;  // [n_embd]
    Weight wq;         // [n_head * head_dim, n_embd]
    Weight wk, wv;     // [n_head_kv * head_dim, n_embd]
    Weight wo;         // [n_embd, n_head * head_dim]
    Vector bq, bk, bv, bo;
    Vector q_norm, k_norm;  // [head_dim]

    Vector ffn_norm;  // [n_embd]
    Weight gate, up;  // [n_ff, n_embd]
    Weight down;      // [n_embd, n_ff]
    Vector gate_bias, up_bias, down_bias;

    Weight router;              // [n_expert, n_embd]
    Weight gate_exps, up_exps;  // [n_expert, n_ff_expert, n_embd]
    Weight down_exps;           // [n_expert, n_embd, n_ff_expert]
};

struct Weights {
    Weight token_embd;   // [n_vocab, n_embd]
    Weight output;       // [n_vocab, n_embd]; token_embd again when tied
    Vector output_norm;  // [n_embd]
    Vector rope_freqs;   // [n_rot / 2] divisors, or empty
    std::vector<LayerWeights> layers;
};

}  // namespace tessera
