// The dense feed-forward network: residual <- residual + Wdown (act(Wgate normed) * (Wup normed)), or without
// a gate residual + Wdown act(Wup normed).
#include "src/forward/blocks.h"

namespace tessera {

void ffn_block(const LayerPass& p, const DenseFfn& w) {
    const Activation activation = p.m.arch().activation;
    ActBuffer& ff = of_width(p.a.ff, p.spec().n_ff);
    pre_norm(p, p.weights().ffn_norm, p.weights().ffn_norm_bias);
    if (w.gate)
        p.be.ffn_gate_up({.x = &p.a.normed,
                          .n_tok = p.n_tok,
                          .gate = {.w = w.gate, .bias = w.gate_bias, .activation = activation},
                          .up = {.w = w.up, .bias = w.up_bias},
                          .y = &ff});
    else
        p.be.linear({.x = &p.a.normed,
                     .n_tok = p.n_tok,
                     .product = {.w = w.up, .bias = w.up_bias, .activation = activation},
                     .y = &ff});
    residual_add(p, ff, w.down, w.down_bias, p.weights().ffn_post_norm);
}

}  // namespace tessera
