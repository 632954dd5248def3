// The one forward pass. Differences between models are data (ArchSpec, Hparams, absent weights), never a
// second copy of this file. Each line is a verb of ggml-like/backend.h: one fused parallel phase.
#include "src/forward/forward.h"

namespace tessera {

namespace {

/// h <- norm(x), or x as it is where the architecture has no norm before a part.
void pre_norm(Backend& be, const Model& m, const Vector& norm, int64_t n_tok, Activations& a) {
    if (norm)
        be.norm(a.residual, norm, m.hparams().norm_eps, n_tok, a.normed);
    else
        be.copy(a.residual, n_tok, a.normed);
}

/// x <- x + scale (W y + bias), or x + norm(W y + bias) where the architecture has a norm behind a part.
void residual_add(Backend& be, const Model& m, const ActBuffer& y, const Weight& w, const Vector& bias,
                  const Vector& post_norm, int64_t n_tok, Activations& a) {
    LinearOut out{.w = w, .bias = bias, .y = &a.residual, .scale = m.hparams().residual_scale, .add = true};
    if (!post_norm) return be.linear(y, n_tok, {&out, 1});
    out.y = &a.sublayer_out;
    out.add = false;
    be.linear(y, n_tok, {&out, 1});
    be.add_norm(a.sublayer_out, post_norm, m.hparams().norm_eps, n_tok, a.residual);
}

/// Keys and values of all tokens into the cache, and their queries: q <- rope(Wq norm(x)).
void qkv_block(Backend& be, const Model& m, size_t layer, const KvLayer& kv,
               std::span<const Segment> segments, int64_t n_tok, Activations& a) {
    const Hparams& h = m.hparams();
    const LayerWeights& w = m.weights().layers[layer];
    const LayerRope rope = h.layers[layer].rope;
    pre_norm(be, m, w.attn_norm, n_tok, a);
    be.qkv(a.normed, n_tok,
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
            .rope = rope == LayerRope::None ? RopeKind::None : m.arch().rope,
            .n_rot = h.rope.n_rot,
            .angles = rope == LayerRope::Local ? &a.local_angles : &a.angles,
            .attn_temp = h.attn_temp,
            .kv = kv,
            .k_scratch = &a.k_scratch},
           segments, a.q);
}

/// x <- x + Wdown (act(Wgate norm(x)) * (Wup norm(x)))
void ffn_block(Backend& be, const Model& m, const LayerWeights& w, int64_t n_tok, Activations& a) {
    pre_norm(be, m, w.ffn_norm, n_tok, a);
    be.ffn_gate_up(a.normed, n_tok, {w.gate, w.up, w.gate_bias, w.up_bias, m.arch().activation}, a.ff);
    residual_add(be, m, a.ff, w.down, w.down_bias, w.ffn_post_norm, n_tok, a);
}

/// The same with experts: each token takes the n_used that its router prefers, and the shared one if there is
/// one.
void moe_block(Backend& be, const Model& m, const LayerWeights& w, int64_t n_tok, Activations& a) {
    const Hparams& h = m.hparams();
    const Activation activation = m.arch().activation;
    pre_norm(be, m, w.ffn_norm, n_tok, a);
    be.moe_route(a.normed, n_tok, {w.router, w.router_bias, m.arch().router}, a.routes);
    be.moe_gate_up(a.normed, n_tok, a.routes,
                   {w.gate_exps, w.up_exps, w.gate_exps_bias, w.up_exps_bias, activation}, a.gathered,
                   a.expert_ff);
    be.moe_down(a.expert_ff, n_tok, a.routes, w.down_exps, w.down_exps_bias,
                h.residual_scale * h.moe.weight_scale, a.expert_out, a.residual);
    if (!w.up_shared) return;
    be.ffn_gate_up(a.normed, n_tok, {w.gate_shared, w.up_shared, {}, {}, activation, w.shared_expert_gate},
                   a.shared_ff);
    residual_add(be, m, a.shared_ff, w.down_shared, {}, {}, n_tok, a);
}

/// The rows whose logits are wanted, as segments of one token each.
std::span<const Segment> wanted_segments(std::span<const Segment> segments, std::span<const int32_t> outputs,
                                         Activations& a) {
    a.output_segments.clear();
    const Segment* segment = segments.data();
    for (const int32_t row : outputs) {
        while (row >= segment->row0 + segment->n_tok) ++segment;
        a.output_segments.push_back({segment->pages, row, 1, segment->pos0 + (row - segment->row0)});
    }
    return a.output_segments;
}

}  // namespace

void forward(Backend& be, const Model& m, const kv::Layout& kv, const Batch& b, Activations& a) {
    const Hparams& h = m.hparams();
    const Weights& w = m.weights();
    int64_t n_tok = static_cast<int64_t>(b.tokens.size());
    const int64_t n_out = static_cast<int64_t>(b.outputs.size());
    const size_t n_segments = b.segments.size() / static_cast<size_t>(kv.n_layer_groups);
    be.embed(w.token_embd, b.tokens, h.embd_scale, a.residual);
    be.rope_angles(m.rope(b.n_ctx), b.segments.first(n_segments), a.angles);
    if (h.local_rope.n_rot > 0) be.rope_angles(m.local_rope(), b.segments.first(n_segments), a.local_angles);
    for (size_t i = 0; i < w.layers.size(); ++i) {
        const LayerWeights& layer = w.layers[i];
        const auto segments =
            b.segments.subspan(static_cast<size_t>(kv.group_of_layer[i]) * n_segments, n_segments);
        const AttendArgs attend{.kv = kv.layers[i],
                                .n_head = h.n_head,
                                .scale = h.attn_scale,
                                .softcap = h.attn_softcap,
                                .window = h.layers[i].window,
                                .sinks = layer.sinks};
        qkv_block(be, m, i, kv.layers[i], segments, n_tok, a);
        if (i + 1 < w.layers.size() || n_out == n_tok) {
            be.attend(a.q, n_tok, attend, segments, a.attn);
        } else {
            // Behind the last layer's keys and values only the output rows continue.
            if (n_out == 0) return;
            be.attend(a.q, n_tok, attend, wanted_segments(segments, b.outputs, a), a.attn);
            be.gather_rows(b.outputs, a.attn);
            be.gather_rows(b.outputs, a.residual);
            n_tok = n_out;
        }
        residual_add(be, m, a.attn, layer.wo, layer.bo, layer.attn_post_norm, n_tok, a);
        if (layer.router)
            moe_block(be, m, layer, n_tok, a);
        else
            ffn_block(be, m, layer, n_tok, a);
    }
    if (b.hidden) be.norm(a.residual, w.output_norm, h.norm_eps, n_out, *b.hidden);
    const int64_t n_logits = b.hidden ? b.n_logits : n_out;
    if (n_logits == 0) return;
    be.norm(a.residual, w.output_norm, h.norm_eps, n_logits, a.final_normed);
    const LinearOut logits[] = {
        {.w = w.output, .bias = {}, .y = &a.logits, .scale = h.logit_scale, .softcap = h.final_softcap}};
    be.linear(a.final_normed, n_logits, logits);
}

}  // namespace tessera
