#pragma once
// The parameters of a model, bound by name and shape. Views: the Model owns the memory.
#include <type_traits>
#include <variant>
#include <vector>

#include "ggml-like/tensor.h"

namespace tessera {

// The parts of a layer. Absent parameters are empty. each_matrix(part, fn) calls fn(matrix) for the matrices
// in the order of the forward pass.

/// Attention over keys and values of earlier positions.
struct AttnWeights {
    Weight wq;              // [n_head * k_dim, n_embd]
    Weight wk;              // [n_head_kv * k_dim, n_embd]
    Weight wv;              // [n_head_kv * v_dim, n_embd]
    Weight wo;              // [n_embd, n_head * v_dim]
    Vector bq, bk, bv, bo;  // as many as rows, each
    Vector q_norm, k_norm;  // [k_dim], or over the rows of wq and wk
    Vector sinks;           // [n_head]

    template <class Part, class Fn>
    static void each_matrix(Part& part, Fn&& fn) {
        for (auto* matrix : {&part.wq, &part.wk, &part.wv, &part.wo}) fn(*matrix);
    }
};

/// Feed-forward network; `gate` is empty in one without a gate.
struct DenseFfn {
    Weight gate, up;  // [n_ff, n_embd]
    Weight down;      // [n_embd, n_ff]
    Vector gate_bias, up_bias, down_bias;

    template <class Part, class Fn>
    static void each_matrix(Part& part, Fn&& fn) {
        for (auto* matrix : {&part.gate, &part.up, &part.down}) fn(*matrix);
    }
};

/// Mixture of experts, each a feed-forward network with a gate.
struct MoeFfn {
    Weight router;                        // [n_expert, n_embd]
    Weight gate_exps, up_exps;            // [n_expert, n_ff, n_embd]
    Weight down_exps;                     // [n_expert, n_embd, n_ff]
    Vector router_bias;                   // [n_expert]
    Vector gate_exps_bias, up_exps_bias;  // [n_expert, n_ff]
    Vector down_exps_bias;                // [n_expert, n_embd]
    Weight gate_shared, up_shared;        // [n_ff_shared, n_embd] shared expert
    Weight down_shared;                   // [n_embd, n_ff_shared]
    Weight shared_expert_gate;            // [1, n_embd] gate of the shared expert; looked at, not packed

    template <class Part, class Fn>
    static void each_matrix(Part& part, Fn&& fn) {
        for (auto* matrix : {&part.router, &part.gate_exps, &part.up_exps, &part.down_exps, &part.gate_shared,
                             &part.up_shared, &part.down_shared})
            fn(*matrix);
    }
};

// The alternatives are those of MixerKind and FfnKind.
using MixerWeights = std::variant<AttnWeights>;
using FfnWeights = std::variant<DenseFfn, MoeFfn>;

template <class Part, class Variant>
inline constexpr bool kIsAlternative = false;
template <class Part, class... Parts>
inline constexpr bool kIsAlternative<Part, std::variant<Parts...>> = (std::is_same_v<Part, Parts> || ...);

/// One layer.
struct LayerWeights {
    Vector attn_norm, attn_post_norm;  // [n_embd] before the mixer, and on its output
    Vector attn_norm_bias;             // [n_embd] of a LayerNorm
    MixerWeights mixer;
    Vector ffn_norm, ffn_post_norm;  // [n_embd] before the feed-forward sublayer, and on its output
    Vector ffn_norm_bias;            // [n_embd]
    FfnWeights ffn;

    /// The layer itself or one of its parts; null if the layer is of another kind.
    template <class Part, class Layer>
    static auto* part(Layer& layer) {
        if constexpr (std::is_same_v<Part, LayerWeights>)
            return &layer;
        else if constexpr (kIsAlternative<Part, MixerWeights>)
            return std::get_if<Part>(&layer.mixer);
        else
            return std::get_if<Part>(&layer.ffn);
    }

    /// fn(matrix) for each matrix of the layer in the order of the forward pass. Experts are stacks.
    template <class Layer, class Fn>
    static void each_matrix(Layer& layer, Fn&& fn) {
        const auto of_part = [&](auto& part) { part.each_matrix(part, fn); };
        std::visit(of_part, layer.mixer);
        std::visit(of_part, layer.ffn);
    }
};

struct Weights {
    Weight token_embd;                     // [n_vocab, n_embd]
    Weight output;                         // [n_vocab, n_embd]; token_embd if embeddings are tied
    Vector output_norm, output_norm_bias;  // [n_embd]
    Vector rope_freqs;                     // [n_rot / 2] divisors, or empty
    Vector rope_short;  // [n_rot / 2] divisors for contexts up to the original one, or empty
    Vector rope_long;   // [n_rot / 2] divisors for longer contexts, or empty
    std::vector<LayerWeights> layers;
};

}  // namespace tessera
