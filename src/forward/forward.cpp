// The one forward pass. Models differ in data (ArchSpec, Hparams, absent weights), never in a second copy of
// this file. Each call is an operation of ggml-like/backend.h: one fused parallel region.
#include "src/forward/forward.h"

namespace tessera {

namespace {

/// normed <- norm(residual), or a copy of it where the architecture has no pre-norm.
void pre_norm(Backend& be, const Model& m, const Vector& norm, int64_t n_tok, Activations& a) {
    if (norm)
        be.norm({.x = &a.residual, .n_tok = n_tok, .w = norm, .eps = m.hparams().norm_eps, .y = &a.normed});
    else
        be.copy({.x = &a.residual, .n_tok = n_tok, .y = &a.normed});
}

/// residual <- residual + scale (W y + bias), or residual + norm(W y + bias) where the architecture has a
/// post-norm.
void residual_add(Backend& be, const Model& m, const ActBuffer& y, const Weight& w, const Vector& bias,
                  const Vector& post_norm, int64_t n_tok, Activations& a) {
    const float scale = m.hparams().residual_scale;
    if (!post_norm)
        return be.linear({.x = &y,
                          .n_tok = n_tok,
                          .product = {.w = w, .bias = bias, .scale = scale, .add = true},
                          .y = &a.residual});
    be.linear(
        {.x = &y, .n_tok = n_tok, .product = {.w = w, .bias = bias, .scale = scale}, .y = &a.sublayer_out});
    be.add_norm({.delta = &a.sublayer_out,
                 .n_tok = n_tok,
                 .w = post_norm,
                 .eps = m.hparams().norm_eps,
                 .x = &a.residual});
}

/// Appends the keys and values of all tokens to the KV cache, and computes their queries: q <- rope(Wq
/// normed).
void qkv_block(Backend& be, const Model& m, size_t layer, const KvLayer& kv,
               std::span<const Segment> segments, int64_t n_tok, Activations& a) {
    const Hparams& h = m.hparams();
    const LayerSpec& spec = h.layers[layer];
    const AttnWeights& w = std::get<AttnWeights>(m.weights().layers[layer].mixer);
    pre_norm(be, m, m.weights().layers[layer].attn_norm, n_tok, a);
    QkvOp<Direct> op{.x = &a.normed,
                     .n_tok = n_tok,
                     .q = {.w = w.wq, .bias = w.bq},
                     .k = {.w = w.wk, .bias = w.bk},
                     .v = {.w = w.wv, .bias = w.bv},
                     .q_norm = w.q_norm,
                     .k_norm = w.k_norm,
                     .norm_eps = h.norm_eps,
                     .n_head = spec.n_head,
                     .cache = kv,
                     .segments = segments,
                     .queries = &a.q};
    if (h.attn_temp.strength > 0) op.attn_temp = h.attn_temp;
    if (op.norms_whole_rows()) op.k_scratch = &a.k_scratch;
    if (spec.rope != LayerRope::None && m.arch().rope != RopeKind::None) {
        const bool is_local = spec.rope == LayerRope::Local;
        op.rope = m.arch().rope;
        op.n_rot = is_local ? h.local_rope.n_rot : h.rope.n_rot;
        op.angles = is_local ? &a.local_angles : &a.angles;
    }
    be.qkv(op);
}

/// residual <- residual + Wdown (act(Wgate normed) * (Wup normed))
void ffn_block(Backend& be, const Model& m, const LayerWeights& layer, const DenseFfn& w, int64_t n_tok,
               Activations& a) {
    pre_norm(be, m, layer.ffn_norm, n_tok, a);
    be.ffn_gate_up({.x = &a.normed,
                    .n_tok = n_tok,
                    .gate = {.w = w.gate, .bias = w.gate_bias, .activation = m.arch().activation},
                    .up = {.w = w.up, .bias = w.up_bias},
                    .y = &a.ff});
    residual_add(be, m, a.ff, w.down, w.down_bias, layer.ffn_post_norm, n_tok, a);
}

/// The feed-forward sublayer of a mixture of experts: each token takes the n_used experts that its router
/// ranks first, and the shared expert if there is one. Binding refuses post-norms here (check_sublayers).
void moe_block(Backend& be, const Model& m, const LayerWeights& layer, const MoeFfn& w, int64_t n_tok,
               Activations& a) {
    const Hparams& h = m.hparams();
    const Activation activation = m.arch().activation;
    pre_norm(be, m, layer.ffn_norm, n_tok, a);
    be.moe_route({.x = &a.normed,
                  .n_tok = n_tok,
                  .router = {.w = w.router, .bias = w.router_bias},
                  .kind = m.arch().router,
                  .routes = &a.routes});
    be.moe_gate_up({.x = &a.normed,
                    .n_tok = n_tok,
                    .routes = &a.routes,
                    .gate = {.w = w.gate_exps, .bias = w.gate_exps_bias, .activation = activation},
                    .up = {.w = w.up_exps, .bias = w.up_exps_bias},
                    .gathered = &a.gathered,
                    .y = &a.expert_ff});
    be.moe_down({.y = &a.expert_ff,
                 .n_tok = n_tok,
                 .routes = &a.routes,
                 .down = {.w = w.down_exps,
                          .bias = w.down_exps_bias,
                          .scale = h.residual_scale * h.moe.weight_scale,
                          .add = true},
                 .rows = &a.expert_out,
                 .out = &a.residual});
    if (!w.up_shared) return;
    be.ffn_gate_up({.x = &a.normed,
                    .n_tok = n_tok,
                    .gate = {.w = w.gate_shared, .activation = activation},
                    .up = {.w = w.up_shared},
                    .shared_expert_gate = w.shared_expert_gate,
                    .y = &a.shared_ff});
    residual_add(be, m, a.shared_ff, w.down_shared, {}, {}, n_tok, a);
}

/// Attention of the last layer. Only the output rows continue behind it, as segments of one token each;
/// returns their number.
int64_t attend_outputs(Backend& be, const Batch& b, AttendOp<Direct> op, Activations& a) {
    const int64_t n_out = std::ssize(b.outputs);
    if (n_out == op.n_tok) {
        be.attend(op);
        return n_out;
    }
    a.output_segments.clear();
    const Segment* segment = op.segments.data();
    for (const int32_t row : b.outputs) {
        while (row >= segment->row0 + segment->n_tok) ++segment;
        a.output_segments.push_back({segment->pages, row, 1, segment->pos0 + (row - segment->row0)});
    }
    op.segments = a.output_segments;
    be.attend(op);
    be.gather_rows({.rows = b.outputs, .a = &a.attn});
    be.gather_rows({.rows = b.outputs, .a = &a.residual});
    return n_out;
}

/// Logits of the first output rows, normed hidden states of the others.
void head_block(Backend& be, const Model& m, const Batch& b, Activations& a) {
    const Hparams& h = m.hparams();
    const Weights& w = m.weights();
    if (const int64_t n_logits = b.n_logits(); n_logits > 0) {
        be.norm({.x = &a.residual,
                 .n_tok = n_logits,
                 .w = w.output_norm,
                 .eps = h.norm_eps,
                 .y = &a.final_normed});
        be.linear({.x = &a.final_normed,
                   .n_tok = n_logits,
                   .product = {.w = w.output, .scale = h.logit_scale, .softcap = h.final_softcap},
                   .y = &a.logits});
    }
    if (b.n_hidden > 0) {
        const ActBuffer rows = a.residual.rows_from(b.n_logits());
        be.norm({.x = &rows, .n_tok = b.n_hidden, .w = w.output_norm, .eps = h.norm_eps, .y = b.hidden});
    }
}

}  // namespace

void forward(Backend& be, const Model& m, const kv::Layout& kv, const Batch& b, Activations& a) {
    const Hparams& h = m.hparams();
    const Weights& w = m.weights();
    int64_t n_tok = std::ssize(b.tokens);
    const std::span<const Segment> positions = b.segments(kv, 0);
    be.embed({.table = w.token_embd, .tokens = b.tokens, .scale = h.embd_scale, .x = &a.residual});
    be.rope_angles({.rope = m.rope(b.n_ctx), .n_tok = n_tok, .positions = positions, .angles = &a.angles});
    if (h.local_rope.n_rot > 0)
        be.rope_angles(
            {.rope = m.local_rope(), .n_tok = n_tok, .positions = positions, .angles = &a.local_angles});
    for (size_t i = 0; i < w.layers.size(); ++i) {
        const LayerWeights& layer = w.layers[i];
        const AttnWeights& attn = std::get<AttnWeights>(layer.mixer);
        const AttendOp<Direct> attend{.q = &a.q,
                                      .n_tok = n_tok,
                                      .cache = kv.layers[i],
                                      .segments = b.segments(kv, i),
                                      .n_head = h.layers[i].n_head,
                                      .scale = h.layers[i].attn_scale,
                                      .softcap = h.attn_softcap,
                                      .window = h.layers[i].window,
                                      .sinks = attn.sinks,
                                      .y = &a.attn};
        qkv_block(be, m, i, kv.layers[i], attend.segments, n_tok, a);
        const bool is_last = i + 1 == w.layers.size();
        if (is_last && b.outputs.empty()) return;  // the pass only fills the KV cache
        if (is_last)
            n_tok = attend_outputs(be, b, attend, a);
        else
            be.attend(attend);
        residual_add(be, m, a.attn, attn.wo, attn.bo, layer.attn_post_norm, n_tok, a);
        if (const auto* moe = std::get_if<MoeFfn>(&layer.ffn))
            moe_block(be, m, layer, *moe, n_tok, a);
        else
            ffn_block(be, m, layer, std::get<DenseFfn>(layer.ffn), n_tok, a);
    }
    head_block(be, m, b, a);
}

}  // namespace tessera
