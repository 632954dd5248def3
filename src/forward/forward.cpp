// The one forward pass. Models differ in data (ArchSpec, Hparams, absent weights), never in a second copy of
// this file. Each call is an operation of ggml-like/backend.h: one fused parallel region.
#include "src/forward/forward.h"

namespace tessera {

namespace {

/// normed <- norm(residual), or a copy of it where the architecture has no pre-norm.
void pre_norm(Backend& be, const Model& m, const Vector& norm, int64_t n_tok, Activations& a) {
    if (norm)
        be.norm(a.residual, norm, m.hparams().norm_eps, n_tok, a.normed);
    else
        be.copy(a.residual, n_tok, a.normed);
}

/// residual <- residual + scale (W y + bias), or residual + norm(W y + bias) where the architecture has a
/// post-norm.
void residual_add(Backend& be, const Model& m, const ActBuffer& y, const Weight& w, const Vector& bias,
                  const Vector& post_norm, int64_t n_tok, Activations& a) {
    LinearOut out{.w = w, .bias = bias, .y = &a.residual, .scale = m.hparams().residual_scale, .add = true};
    if (!post_norm) return be.linear(y, n_tok, {&out, 1});
    out.y = &a.sublayer_out;
    out.add = false;
    be.linear(y, n_tok, {&out, 1});
    be.add_norm(a.sublayer_out, post_norm, m.hparams().norm_eps, n_tok, a.residual);
}

/// Appends the keys and values of all tokens to the KV cache, and computes their queries: q <- rope(Wq
/// normed).
void qkv_block(Backend& be, const Model& m, size_t layer, const KvLayer& kv,
               std::span<const Segment> segments, int64_t n_tok, Activations& a) {
    const Hparams& h = m.hparams();
    const LayerSpec& spec = h.layers[layer];
    const AttnWeights& w = std::get<AttnWeights>(m.weights().layers[layer].mixer);
    const bool is_local = spec.rope == LayerRope::Local;
    pre_norm(be, m, m.weights().layers[layer].attn_norm, n_tok, a);
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
            .n_head = spec.n_head,
            .rope = spec.rope == LayerRope::None ? RopeKind::None : m.arch().rope,
            .n_rot = is_local ? h.local_rope.n_rot : h.rope.n_rot,
            .angles = is_local ? &a.local_angles : &a.angles,
            .attn_temp = h.attn_temp,
            .kv = kv,
            .k_scratch = &a.k_scratch},
           segments, a.q);
}

/// residual <- residual + Wdown (act(Wgate normed) * (Wup normed))
void ffn_block(Backend& be, const Model& m, const LayerWeights& layer, const DenseFfn& w, int64_t n_tok,
               Activations& a) {
    pre_norm(be, m, layer.ffn_norm, n_tok, a);
    be.ffn_gate_up(a.normed, n_tok, {w.gate, w.up, w.gate_bias, w.up_bias, m.arch().activation}, a.ff);
    residual_add(be, m, a.ff, w.down, w.down_bias, layer.ffn_post_norm, n_tok, a);
}

/// The feed-forward sublayer of a mixture of experts: each token takes the n_used experts that its router
/// ranks first, and the shared expert if there is one. Binding refuses post-norms here (check_sublayers).
void moe_block(Backend& be, const Model& m, const LayerWeights& layer, const MoeFfn& w, int64_t n_tok,
               Activations& a) {
    const Hparams& h = m.hparams();
    const Activation activation = m.arch().activation;
    pre_norm(be, m, layer.ffn_norm, n_tok, a);
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

/// Attention of the last layer. Only the output rows continue behind it, as segments of one token each;
/// returns their number.
int64_t attend_outputs(Backend& be, const Batch& b, const AttendArgs& args, std::span<const Segment> segments,
                       int64_t n_tok, Activations& a) {
    const int64_t n_out = std::ssize(b.outputs);
    if (n_out == n_tok) {
        be.attend(a.q, n_tok, args, segments, a.attn);
        return n_tok;
    }
    a.output_segments.clear();
    const Segment* segment = segments.data();
    for (const int32_t row : b.outputs) {
        while (row >= segment->row0 + segment->n_tok) ++segment;
        a.output_segments.push_back({segment->pages, row, 1, segment->pos0 + (row - segment->row0)});
    }
    be.attend(a.q, n_tok, args, a.output_segments, a.attn);
    be.gather_rows(b.outputs, a.attn);
    be.gather_rows(b.outputs, a.residual);
    return n_out;
}

/// Logits of the first output rows, normed hidden states of the others.
void head_block(Backend& be, const Model& m, const Batch& b, Activations& a) {
    const Hparams& h = m.hparams();
    const Weights& w = m.weights();
    if (const int64_t n_logits = b.n_logits(); n_logits > 0) {
        be.norm(a.residual, w.output_norm, h.norm_eps, n_logits, a.final_normed);
        const LinearOut logits{
            .w = w.output, .bias = {}, .y = &a.logits, .scale = h.logit_scale, .softcap = h.final_softcap};
        be.linear(a.final_normed, n_logits, {&logits, 1});
    }
    if (b.n_hidden > 0)
        be.norm(a.residual.rows_from(b.n_logits()), w.output_norm, h.norm_eps, b.n_hidden, *b.hidden);
}

}  // namespace

void forward(Backend& be, const Model& m, const kv::Layout& kv, const Batch& b, Activations& a) {
    const Hparams& h = m.hparams();
    const Weights& w = m.weights();
    int64_t n_tok = std::ssize(b.tokens);
    be.embed(w.token_embd, b.tokens, h.embd_scale, a.residual);
    be.rope_angles(m.rope(b.n_ctx), b.segments(kv, 0), a.angles);
    if (h.local_rope.n_rot > 0) be.rope_angles(m.local_rope(), b.segments(kv, 0), a.local_angles);
    for (size_t i = 0; i < w.layers.size(); ++i) {
        const LayerWeights& layer = w.layers[i];
        const AttnWeights& attn = std::get<AttnWeights>(layer.mixer);
        const std::span<const Segment> segments = b.segments(kv, i);
        const AttendArgs attend{.kv = kv.layers[i],
                                .n_head = h.layers[i].n_head,
                                .scale = h.layers[i].attn_scale,
                                .softcap = h.attn_softcap,
                                .window = h.layers[i].window,
                                .sinks = attn.sinks};
        qkv_block(be, m, i, kv.layers[i], segments, n_tok, a);
        const bool is_last = i + 1 == w.layers.size();
        if (is_last && b.outputs.empty()) return;  // the pass only fills the KV cache
        if (is_last)
            n_tok = attend_outputs(be, b, attend, segments, n_tok, a);
        else
            be.attend(a.q, n_tok, attend, segments, a.attn);
        residual_add(be, m, a.attn, attn.wo, attn.bo, layer.attn_post_norm, n_tok, a);
        if (const auto* moe = std::get_if<MoeFfn>(&layer.ffn))
            moe_block(be, m, layer, *moe, n_tok, a);
        else
            ffn_block(be, m, layer, std::get<DenseFfn>(layer.ffn), n_tok, a);
    }
    head_block(be, m, b, a);
}

}  // namespace tessera
