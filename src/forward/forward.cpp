// The one forward pass. Differences between models are data (ArchSpec, Hparams, absent weights), never a
// second copy of this file. Each line is a verb of ggml-like/backend.h: one fused parallel phase.
#include "src/forward/forward.h"

namespace tessera {

namespace {

/// x <- x + Wo attention(norm(x))
void attention_block(Backend& be, const Model& m, const LayerWeights& w, const KvLayer& kv, const Batch& b,
                     Activations& a) {
    const Hparams& h = m.hparams();
    const int64_t n_tok = static_cast<int64_t>(b.tokens.size());
    be.norm(a.x, w.attn_norm, h.norm_eps, n_tok, {}, a.h);
    be.qkv(a.h,
           {.wq = w.wq,
            .wk = w.wk,
            .wv = w.wv,
            .bq = w.bq,
            .bk = w.bk,
            .bv = w.bv,
            .n_head = h.n_head,
            .rope = m.arch().rope,
            .n_rot = h.rope.n_rot,
            .angles = &a.angles,
            .kv = kv},
           b.segments, a.q);
    be.attend(a.q, {.kv = kv, .n_head = h.n_head, .scale = h.attn_scale}, b.segments, a.attn);
    const LinearOut out[] = {{.w = w.wo, .bias = w.bo, .y = &a.x, .add = true}};
    be.linear(a.attn, n_tok, out);
}

/// x <- x + Wdown (act(Wgate norm(x)) * (Wup norm(x)))
void ffn_block(Backend& be, const Model& m, const LayerWeights& w, const Batch& b, Activations& a) {
    const int64_t n_tok = static_cast<int64_t>(b.tokens.size());
    be.norm(a.x, w.ffn_norm, m.hparams().norm_eps, n_tok, {}, a.h);
    be.gated(a.h, n_tok, {w.gate, w.up, w.gate_bias, w.up_bias, m.arch().activation}, a.ff);
    const LinearOut out[] = {{.w = w.down, .bias = w.down_bias, .y = &a.x, .add = true}};
    be.linear(a.ff, n_tok, out);
}

/// The same with experts: each token takes the n_used that its router prefers.
void moe_block(Backend& be, const Model& m, const LayerWeights& w, const Batch& b, Activations& a) {
    const int64_t n_tok = static_cast<int64_t>(b.tokens.size());
    be.norm(a.x, w.ffn_norm, m.hparams().norm_eps, n_tok, {}, a.h);
    be.moe_route(a.h, n_tok, w.router, m.arch().router, a.routes);
    be.moe_gated(a.h, n_tok, a.routes, {w.gate_exps, w.up_exps, {}, {}, m.arch().activation}, a.gathered,
                 a.expert_ff);
    be.moe_down(a.expert_ff, n_tok, a.routes, w.down_exps, 1.0f, a.expert_out, a.x);
}

}  // namespace

void forward(Backend& be, const Model& m, const kv::Layout& kv, const Batch& b, Activations& a) {
    const Weights& w = m.weights();
    be.embed(w.token_embd, b.tokens, 1.0f, a.x);
    be.rope_angles(m.rope(), b.segments, a.angles);
    for (size_t i = 0; i < w.layers.size(); ++i) {
        attention_block(be, m, w.layers[i], kv.layers[i], b, a);
        if (w.layers[i].router)
            moe_block(be, m, w.layers[i], b, a);
        else
            ffn_block(be, m, w.layers[i], b, a);
    }
    const int64_t n_out = static_cast<int64_t>(b.outputs.size());
    if (n_out == 0) return;
    be.norm(a.x, w.output_norm, m.hparams().norm_eps, n_out, b.outputs, a.out);
    const LinearOut logits[] = {{.w = w.output, .bias = {}, .y = &a.logits}};
    be.linear(a.out, n_out, logits);
}

}  // namespace tessera
