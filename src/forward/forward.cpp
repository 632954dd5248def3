// The one forward pass. Differences between models are data (ArchSpec, Hparams, absent weights), never a
// second copy of this file. Each line is a verb of ggml-like/backend.h: one fused parallel phase.
#include "src/forward/forward.h"

namespace tessera {

namespace {

/// Keys and values of all tokens into the cache, and their queries: q <- rope(Wq norm(x))
void qkv_block(Backend& be, const Model& m, const LayerWeights& w, const KvLayer& kv, const Batch& b,
               Activations& a) {
    const Hparams& h = m.hparams();
    be.norm(a.x, w.attn_norm, h.norm_eps, static_cast<int64_t>(b.tokens.size()), a.h);
    be.qkv(a.h,
           {.wq = w.wq,
            .wk = w.wk,
            .wv = w.wv,
            .bq = w.bq,
            .bk = w.bk,
            .bv = w.bv,
            .q_norm = w.q_norm,
            .k_norm = w.k_norm,
            .norm_eps = h.norm_eps,
            .n_head = h.n_head,
            .rope = m.arch().rope,
            .n_rot = h.rope.n_rot,
            .angles = &a.angles,
            .kv = kv},
           b.segments, a.q);
}

/// x <- x + Wo attention(q), for the first n_tok rows
void output_block(Backend& be, const LayerWeights& w, int64_t n_tok, Activations& a) {
    const LinearOut out[] = {{.w = w.wo, .bias = w.bo, .y = &a.x, .add = true}};
    be.linear(a.attn, n_tok, out);
}

/// x <- x + Wdown (act(Wgate norm(x)) * (Wup norm(x)))
void ffn_block(Backend& be, const Model& m, const LayerWeights& w, int64_t n_tok, Activations& a) {
    be.norm(a.x, w.ffn_norm, m.hparams().norm_eps, n_tok, a.h);
    be.gated(a.h, n_tok, {w.gate, w.up, w.gate_bias, w.up_bias, m.arch().activation}, a.ff);
    const LinearOut out[] = {{.w = w.down, .bias = w.down_bias, .y = &a.x, .add = true}};
    be.linear(a.ff, n_tok, out);
}

/// The same with experts: each token takes the n_used that its router prefers.
void moe_block(Backend& be, const Model& m, const LayerWeights& w, int64_t n_tok, Activations& a) {
    be.norm(a.x, w.ffn_norm, m.hparams().norm_eps, n_tok, a.h);
    be.moe_route(a.h, n_tok, w.router, m.arch().router, a.routes);
    be.moe_gated(a.h, n_tok, a.routes, {w.gate_exps, w.up_exps, {}, {}, m.arch().activation}, a.gathered,
                 a.expert_ff);
    be.moe_down(a.expert_ff, n_tok, a.routes, w.down_exps, 1.0f, a.expert_out, a.x);
}

/// The rows whose logits are wanted, as segments of one token each.
std::span<const Segment> wanted_segments(const Batch& b, Activations& a) {
    a.wanted.clear();
    const Segment* segment = b.segments.data();
    for (const int32_t row : b.outputs) {
        while (row >= segment->row0 + segment->n_tok) ++segment;
        a.wanted.push_back({segment->pages, row, 1, segment->pos0 + (row - segment->row0)});
    }
    return a.wanted;
}

}  // namespace

void forward(Backend& be, const Model& m, const kv::Layout& kv, const Batch& b, Activations& a) {
    const Weights& w = m.weights();
    int64_t n_tok = static_cast<int64_t>(b.tokens.size());
    const int64_t n_out = static_cast<int64_t>(b.outputs.size());
    be.embed(w.token_embd, b.tokens, 1.0f, a.x);
    be.rope_angles(m.rope(), b.segments, a.angles);
    for (size_t i = 0; i < w.layers.size(); ++i) {
        const AttendArgs attend{
            .kv = kv.layers[i], .n_head = m.hparams().n_head, .scale = m.hparams().attn_scale};
        qkv_block(be, m, w.layers[i], kv.layers[i], b, a);
        if (i + 1 < w.layers.size() || n_out == n_tok) {
            be.attend(a.q, attend, b.segments, a.attn);
        } else {
            // Behind the last layer's keys and values only the wanted rows go on.
            if (n_out == 0) return;
            be.attend(a.q, attend, wanted_segments(b, a), a.attn);
            be.keep_rows(b.outputs, a.attn);
            be.keep_rows(b.outputs, a.x);
            n_tok = n_out;
        }
        output_block(be, w.layers[i], n_tok, a);
        if (w.layers[i].router)
            moe_block(be, m, w.layers[i], n_tok, a);
        else
            ffn_block(be, m, w.layers[i], n_tok, a);
    }
    be.norm(a.x, w.output_norm, m.hparams().norm_eps, n_out, a.out);
    const LinearOut logits[] = {{.w = w.output, .bias = {}, .y = &a.logits}};
    be.linear(a.out, n_out, logits);
}

}  // namespace tessera
