// The mixture of experts: each token takes the n_used experts that its router ranks first, and the shared
// expert if there is one. A post-norm is on the sum of all of them.
#include "src/forward/blocks.h"

namespace tessera {

namespace {

/// output <- output + Wdown (act(Wgate normed) * (Wup normed)), times the sigmoid of the expert's gate.
void shared_expert(const LayerPass& p, const MoeFfn& w, ActBuffer& output) {
    ActBuffer& ff = of_width(p.a.shared_ff, p.spec().n_ff_shared);
    p.be.ffn_gate_up({.x = &p.a.normed,
                      .n_tok = p.n_tok,
                      .gate = {.w = w.gate_shared, .activation = p.m.arch().activation},
                      .up = {.w = w.up_shared},
                      .shared_expert_gate = w.shared_expert_gate,
                      .y = &ff});
    p.be.linear({.x = &ff,
                 .n_tok = p.n_tok,
                 .product = {.w = w.down_shared, .scale = p.hparams().residual_scale, .add = true},
                 .y = &output});
}

}  // namespace

void ffn_block(const LayerPass& p, const MoeFfn& w) {
    const Hparams& h = p.hparams();
    const Vector& post_norm = p.weights().ffn_post_norm;
    Activations& a = p.a;
    ActBuffer& ff = of_width(p.a.expert_ff, p.spec().n_ff);
    ActBuffer& output = sublayer_output(p, post_norm);
    pre_norm(p, p.weights().ffn_norm, p.weights().ffn_norm_bias);
    p.be.moe_route({.x = &a.normed,
                    .n_tok = p.n_tok,
                    .router = {.w = w.router, .bias = w.router_bias},
                    .kind = p.m.arch().router,
                    .routes = &a.routes});
    p.be.moe_gate_up(
        {.x = &a.normed,
         .n_tok = p.n_tok,
         .routes = &a.routes,
         .gate = {.w = w.gate_exps, .bias = w.gate_exps_bias, .activation = p.m.arch().activation},
         .up = {.w = w.up_exps, .bias = w.up_exps_bias},
         .gathered = &a.gathered,
         .y = &ff});
    p.be.moe_down({.y = &ff,
                   .n_tok = p.n_tok,
                   .routes = &a.routes,
                   .down = {.w = w.down_exps,
                            .bias = w.down_exps_bias,
                            .scale = h.residual_scale * h.moe.weight_scale,
                            .add = !post_norm},
                   .rows = &a.expert_out,
                   .out = &output});
    if (w.up_shared) shared_expert(p, w, output);
    add_post_norm(p, post_norm);
}

}  // namespace tessera
