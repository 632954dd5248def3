// The residual stream: the inputs of sublayers, and the addition of their outputs.
#include "src/forward/blocks.h"

namespace tessera {

void norm_rows(Backend& be, const Model& m, const ActBuffer& x, int64_t n_tok, const Vector& norm,
               const Vector& bias, ActBuffer& y) {
    const float eps = m.hparams().norm_eps;
    if (m.arch().layer_norm)
        be.layer_norm({.x = &x, .n_tok = n_tok, .w = norm, .bias = bias, .eps = eps, .y = &y});
    else
        be.norm({.x = &x, .n_tok = n_tok, .w = norm, .eps = eps, .y = &y});
}

void pre_norm(const LayerPass& p, const Vector& norm, const Vector& bias) {
    Activations& a = p.a;
    if (norm)
        norm_rows(p.be, p.m, a.residual, p.n_tok, norm, bias, a.normed);
    else
        p.be.copy({.x = &a.residual, .n_tok = p.n_tok, .y = &a.normed});
}

ActBuffer& sublayer_output(const LayerPass& p, const Vector& post_norm) {
    return post_norm ? p.a.sublayer_out : p.a.residual;
}

void add_post_norm(const LayerPass& p, const Vector& post_norm) {
    if (!post_norm) return;
    p.be.add_norm({.delta = &p.a.sublayer_out,
                   .n_tok = p.n_tok,
                   .w = post_norm,
                   .eps = p.hparams().norm_eps,
                   .x = &p.a.residual});
}

void residual_add(const LayerPass& p, const ActBuffer& y, const Weight& w, const Vector& bias,
                  const Vector& post_norm) {
    p.be.linear({.x = &y,
                 .n_tok = p.n_tok,
                 .product = {.w = w, .bias = bias, .scale = p.hparams().residual_scale, .add = !post_norm},
                 .y = &sublayer_output(p, post_norm)});
    add_post_norm(p, post_norm);
}

}  // namespace tessera
