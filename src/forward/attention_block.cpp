// Attention: queries, keys and values, attention over the KV cache, and the output projection.
#include "src/forward/blocks.h"

namespace tessera {

namespace {

/// Appends the keys and values of all tokens to the KV cache, and computes their queries.
void append_kv(const LayerPass& p, const AttnWeights& w, const KvLayer& cache,
               std::span<const Segment> segments) {
    const Hparams& h = p.hparams();
    const LayerSpec& spec = p.spec();
    QkvOp<Direct> op{.x = &p.a.normed,
                     .n_tok = p.n_tok,
                     .q = {.w = w.wq, .bias = w.bq},
                     .k = {.w = w.wk, .bias = w.bk},
                     .v = {.w = w.wv, .bias = w.bv},
                     .q_norm = w.q_norm,
                     .k_norm = w.k_norm,
                     .norm_eps = h.norm_eps,
                     .n_head = spec.n_head,
                     .cache = cache,
                     .segments = segments,
                     .queries = &of_width(p.a.q, spec.n_q())};
    if (h.attn_temp.strength > 0) op.attn_temp = h.attn_temp;
    if (op.norms_whole_rows()) op.k_scratch = &of_width(p.a.k_scratch, spec.n_k());
    if (spec.rope != LayerRope::None && p.m.arch().rope != RopeKind::None) {
        const bool is_local = spec.rope == LayerRope::Local;
        op.rope = p.m.arch().rope;
        op.n_rot = is_local ? h.local_rope.n_rot : h.rope.n_rot;
        op.angles = is_local ? &p.a.local_angles : &p.a.angles;
    }
    p.be.qkv(op);
}

/// Attention of the output rows only, as segments of one token each. Only these rows of the residual stream
/// continue.
void attend_outputs(const LayerPass& p, AttendOp<Direct> op, std::span<const int32_t> outputs) {
    std::vector<Segment>& rows = p.a.output_segments;
    rows.clear();
    const Segment* segment = op.segments.data();
    for (const int32_t row : outputs) {
        while (row >= segment->row0 + segment->n_tok) ++segment;
        rows.push_back({segment->pages, row, 1, segment->pos0 + (row - segment->row0)});
    }
    op.segments = rows;
    p.be.attend(op);
    p.be.gather_rows({.rows = outputs, .a = op.y});
    p.be.gather_rows({.rows = outputs, .a = &p.a.residual});
}

}  // namespace

int64_t attention_block(LayerPass p, const AttnWeights& w, const KvLayer& cache,
                        std::span<const Segment> segments, const std::span<const int32_t>* outputs) {
    const LayerSpec& spec = p.spec();
    pre_norm(p, p.weights().attn_norm, p.weights().attn_norm_bias);
    append_kv(p, w, cache, segments);
    if (outputs && outputs->empty()) return 0;
    const AttendOp<Direct> attend{.q = &p.a.q,
                                  .n_tok = p.n_tok,
                                  .cache = cache,
                                  .segments = segments,
                                  .n_head = spec.n_head,
                                  .scale = spec.attn_scale,
                                  .softcap = p.hparams().attn_softcap,
                                  .window = spec.window,
                                  .sinks = w.sinks,
                                  .y = &of_width(p.a.attn, spec.n_attn())};
    if (outputs && std::ssize(*outputs) < p.n_tok) {
        attend_outputs(p, attend, *outputs);
        p.n_tok = std::ssize(*outputs);
    } else {
        p.be.attend(attend);
    }
    residual_add(p, p.a.attn, w.wo, w.bo, p.weights().attn_post_norm);
    return p.n_tok;
}

}  // namespace tessera
