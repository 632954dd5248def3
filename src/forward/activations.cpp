// Lays out the activations. Each buffer gets an int8 image when a packed weight reads it and floats when a
// row-major one does; its producer fills what is wanted.
#include "src/forward/activations.h"

#include <functional>

namespace tessera {

namespace {

void mark(Act& act, std::initializer_list<const Weight*> consumers) {
    for (const Weight* w : consumers) {
        if (!*w) continue;
        if (w->layout == Layout::Packed)
            act.wants_int8 = true;
        else
            act.wants_f32 = true;
    }
}

struct Shaped {
    Act* act;
    int64_t rows;
};

}  // namespace

Result<Activations> Activations::create(const Model& model, int64_t max_tok, int64_t max_out) {
    const Hparams& h = model.hparams();
    const int64_t expert_rows = max_tok * h.moe.n_used;
    Activations a;
    a.max_tok = max_tok;
    a.max_out = max_out;
    a.x = {.name = "x", .dim = h.n_embd};
    a.h = {.name = "h", .dim = h.n_embd};
    a.q = {.name = "q", .dim = h.q_dim()};
    a.attn = {.name = "attn", .dim = h.q_dim()};
    a.ff = {.name = "ff", .dim = h.n_ff};
    a.angles = {.name = "angles", .dim = h.rope.n_rot};
    a.local_angles = {.name = "local_angles", .dim = h.local_rope.n_rot};
    a.shared_ff = {.name = "shared_ff", .dim = h.moe.n_ff_shared};
    a.k_rows = {.name = "k_rows"};
    a.part = {.name = "part"};
    a.gathered = {.name = "gathered", .dim = h.n_embd};
    a.expert_ff = {.name = "expert_ff", .dim = h.moe.n_ff};
    a.expert_out = {.name = "expert_out", .dim = h.n_embd};
    a.out = {.name = "out", .dim = h.n_embd};
    a.logits = {.name = "logits", .dim = h.n_vocab};
    for (Act* act : {&a.h, &a.attn, &a.ff, &a.gathered, &a.expert_ff, &a.shared_ff, &a.out})
        act->wants_f32 = false;
    for (const LayerWeights& w : model.weights().layers) {
        mark(a.h, {&w.wq, &w.wk, &w.wv, &w.gate, &w.up, &w.router, &w.gate_exps, &w.up_exps, &w.gate_shared,
                   &w.up_shared, &w.token_gate});
        mark(a.attn, {&w.wo});
        mark(a.ff, {&w.down});
        mark(a.gathered, {&w.gate_exps, &w.up_exps});
        mark(a.expert_ff, {&w.down_exps});
        mark(a.shared_ff, {&w.down_shared});
        if (w.q_norm.n > h.head_dim || w.k_norm.n > h.head_dim) a.k_rows.dim = h.kv_dim();
        if (w.attn_post_norm || w.ffn_post_norm) a.part.dim = h.n_embd;
    }
    mark(a.out, {&model.weights().output});

    const Shaped all[] = {{&a.x, max_tok},
                          {&a.h, max_tok},
                          {&a.q, max_tok},
                          {&a.attn, max_tok},
                          {&a.ff, max_tok},
                          {&a.k_rows, max_tok},
                          {&a.part, max_tok},
                          {&a.angles, max_tok},
                          {&a.local_angles, max_tok},
                          {&a.shared_ff, max_tok},
                          {&a.gathered, expert_rows},
                          {&a.expert_ff, expert_rows},
                          {&a.expert_out, expert_rows},
                          {&a.out, max_out},
                          {&a.logits, max_out}};
    size_t bytes = 0;
    for (const Shaped& s : all) {
        const size_t n = static_cast<size_t>(s.rows * s.act->dim);
        bytes += Arena::padded(n * 4);
        if (s.act->wants_int8)
            bytes += Arena::padded(n) + 2 * Arena::padded(n / 32 * 4) + Arena::padded(n / 16 * 2);
    }
    const size_t n_routes = static_cast<size_t>(expert_rows);
    bytes += 4 * Arena::padded(n_routes * 4) + Arena::padded(static_cast<size_t>(h.moe.n_expert + 1) * 4);
    TSR_TRY(a.arena, Arena::create(bytes, "the activations"));
    for (const Shaped& s : all) {
        const size_t n = static_cast<size_t>(s.rows * s.act->dim);
        s.act->f32 = a.arena.take<float>(n).data();
        if (!s.act->wants_int8) continue;
        s.act->q = a.arena.take<int8_t>(n).data();
        s.act->d = a.arena.take<float>(n / 32).data();
        s.act->s = a.arena.take<float>(n / 32).data();
        s.act->sum16 = a.arena.take<int16_t>(n / 16).data();
    }
    a.wanted.reserve(static_cast<size_t>(max_out));
    a.routes.n_expert = h.moe.n_expert;
    a.routes.n_used = h.moe.n_used;
    a.routes.expert = a.arena.take<int32_t>(n_routes).data();
    a.routes.weight = a.arena.take<float>(n_routes).data();
    a.routes.slot = a.arena.take<int32_t>(n_routes).data();
    a.routes.token = a.arena.take<int32_t>(n_routes).data();
    a.routes.first = a.arena.take<int32_t>(static_cast<size_t>(h.moe.n_expert + 1)).data();
    return a;
}

}  // namespace tessera
