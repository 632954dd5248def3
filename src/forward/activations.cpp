// Lays out the activations. A buffer gets an int8 image if an int8 kernel reads it, and floats if another
// weight reads it; its producer fills whichever it has.
#include "src/forward/activations.h"

#include <utility>

#include "ggml-like/act_layout.h"

namespace tessera {

namespace {

void mark(ActBuffer& act, std::initializer_list<const Weight*> consumers) {
    for (const Weight* w : consumers) {
        if (!*w) continue;
        if (w->takes_int8())
            act.needs_int8 = true;
        else
            act.needs_f32 = true;
    }
}

/// Allocates every buffer from `memory`: an arena, or a counter of the bytes that an arena would need.
template <class Memory>
void place(Activations& a, Memory& memory) {
    for (ActBuffer* act : {&a.residual, &a.normed, &a.q, &a.attn, &a.ff, &a.k_scratch, &a.sublayer_out,
                           &a.angles, &a.local_angles, &a.shared_ff})
        allocate_act(*act, a.max_tok, memory);
    for (ActBuffer* act : {&a.gathered, &a.expert_ff, &a.expert_out})
        allocate_act(*act, a.max_tok * a.routes.n_used, memory);
    for (ActBuffer* act : {&a.final_normed, &a.logits}) allocate_act(*act, a.max_out, memory);
    allocate_routes(a.routes, a.max_tok, memory);
}

}  // namespace

Activations Activations::describe(const Model& model, int64_t max_tok, int64_t max_out) {
    const Hparams& h = model.hparams();
    Activations a;
    a.max_tok = max_tok;
    a.max_out = max_out;
    a.residual = {.name = "x", .dim = h.n_embd};
    a.normed = {.name = "h", .dim = h.n_embd};
    a.q = {.name = "q", .dim = h.largest(&LayerSpec::n_q)};
    a.attn = {.name = "attn", .dim = h.largest(&LayerSpec::n_attn)};
    a.ff = {.name = "ff"};
    a.angles = {.name = "angles", .dim = h.rope.n_rot};
    a.local_angles = {.name = "local_angles", .dim = h.local_rope.n_rot};
    a.shared_ff = {.name = "shared_ff", .dim = h.largest(&LayerSpec::n_ff_shared)};
    a.k_scratch = {.name = "k_scratch"};
    a.sublayer_out = {.name = "sublayer_out"};
    a.gathered = {.name = "gathered", .dim = h.n_embd, .is_gathered = true};
    a.expert_ff = {
        .name = "expert_ff",
    };
    a.expert_out = {.name = "expert_out", .dim = h.n_embd};
    a.final_normed = {.name = "out", .dim = h.n_embd};
    a.logits = {.name = "logits", .dim = h.n_vocab};
    for (ActBuffer* act :
         {&a.normed, &a.attn, &a.ff, &a.gathered, &a.expert_ff, &a.shared_ff, &a.final_normed})
        act->needs_f32 = false;
    for (size_t i = 0; i < h.layers.size(); ++i) {
        const LayerSpec& spec = h.layers[i];
        const LayerWeights& layer = model.weights().layers[i];
        const AttnWeights& attn = std::get<AttnWeights>(layer.mixer);
        mark(a.normed, {&attn.wq, &attn.wk, &attn.wv});
        mark(a.attn, {&attn.wo});
        if (const auto* w = std::get_if<DenseFfn>(&layer.ffn)) {
            a.ff.dim = spec.n_ff;
            mark(a.normed, {&w->gate, &w->up});
            mark(a.ff, {&w->down});
        } else {
            const MoeFfn& moe = std::get<MoeFfn>(layer.ffn);
            a.expert_ff.dim = spec.n_ff;
            mark(a.normed, {&moe.router, &moe.gate_exps, &moe.up_exps, &moe.gate_shared, &moe.up_shared,
                            &moe.shared_expert_gate});
            mark(a.gathered, {&moe.gate_exps, &moe.up_exps});
            mark(a.expert_ff, {&moe.down_exps});
            mark(a.shared_ff, {&moe.down_shared});
        }
        if (attn.q_norm.n > spec.k_dim || attn.k_norm.n > spec.k_dim) a.k_scratch.dim = spec.n_k();
        if (layer.attn_post_norm || layer.ffn_post_norm) a.sublayer_out.dim = h.n_embd;
    }
    mark(a.final_normed, {&model.weights().output});
    a.routes.n_expert = h.moe.n_expert;
    a.routes.n_used = h.moe.n_used;
    a.output_segments.reserve(static_cast<size_t>(max_out));
    return a;
}

size_t Activations::bytes(const Model& model, int64_t max_tok, int64_t max_out) {
    Activations a = describe(model, max_tok, max_out);
    ArenaSize size;
    place(a, size);
    return size.bytes();
}

size_t Activations::untouched_bytes(const Model& model, int64_t max_tok) {
    const Activations a = describe(model, max_tok, 1);
    int64_t n_floats = 0;
    for (const auto& [act, rows] : {std::pair{&a.ff, max_tok}, std::pair{&a.shared_ff, max_tok},
                                    std::pair{&a.expert_ff, max_tok * a.routes.n_used}})
        if (!act->needs_f32) n_floats += rows * act->dim;
    return static_cast<size_t>(n_floats) * sizeof(float);
}

Result<Activations> Activations::create(const Model& model, int64_t max_tok, int64_t max_out) {
    Activations a = describe(model, max_tok, max_out);
    TSR_TRY(a.arena, Arena::create(bytes(model, max_tok, max_out), "the activations"));
    place(a, a.arena);
    return a;
}

}  // namespace tessera
