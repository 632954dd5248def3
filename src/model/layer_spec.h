#pragma once
// One layer of a model in numbers: the kinds of its sublayers and their sizes. Layers of a model may differ.
#include <cstdint>

namespace tessera {

/// The sublayer that combines the tokens of a sequence.
enum class MixerKind : uint8_t { Attention };

/// The sublayer that transforms each token by itself: a feed-forward network, or a mixture of experts.
enum class FfnKind : uint8_t { Dense, Moe };

/// RoPE variant of a layer.
enum class LayerRope : uint8_t { None, Global, Local };

struct LayerSpec {
    MixerKind mixer = MixerKind::Attention;
    FfnKind ffn = FfnKind::Dense;
    int64_t n_head = 0, n_head_kv = 0;  // query heads; key and value heads, which divide them
    int64_t k_dim = 0, v_dim = 0;       // elements of a head of queries and keys; of values
    float attn_scale = 0;               // of q.k
    int64_t window = 0;                 // keys that a query attends to; 0 = all
    LayerRope rope = LayerRope::Global;
    int64_t n_ff = 0;          // of the feed-forward network, or of one expert
    int64_t n_ff_shared = 0;   // of the shared expert; 0 = none
    int64_t state_floats = 0;  // state of one sequence; 0 = the layer is not recurrent

    // Rows of the projections of queries, keys and values, and of what attention returns.
    int64_t n_q() const { return n_head * k_dim; }
    int64_t n_k() const { return n_head_kv * k_dim; }
    int64_t n_v() const { return n_head_kv * v_dim; }
    int64_t n_attn() const { return n_head * v_dim; }

    bool operator==(const LayerSpec&) const = default;
};

}  // namespace tessera
