// The one forward pass. Models differ in data (ArchSpec, LayerSpec, absent weights), never in a second copy
// of this file. The blocks of a layer are in the files beside it, one a kind. Each call of the backend is an
// operation of ggml-like/ops.h: one fused parallel region.
#include "src/forward/forward.h"

#include "src/forward/blocks.h"

namespace tessera {

void embed_tokens(Backend& be, const Model& m, const Batch& b, Activations& a) {
    be.embed({.table = m.weights().token_embd,
              .tokens = b.tokens,
              .scale = m.hparams().embd_scale,
              .x = &a.residual});
}

void run_layers(Backend& be, const Model& m, const kv::Layout& kv, const Batch& b, size_t first, size_t last,
                Activations& a) {
    int64_t n_tok = std::ssize(b.tokens);
    const std::span<const Segment> positions = b.segments(kv, 0);
    be.rope_angles({.rope = m.rope(b.n_ctx), .n_tok = n_tok, .positions = positions, .angles = &a.angles});
    if (m.hparams().local_rope.n_rot > 0)
        be.rope_angles(
            {.rope = m.local_rope(), .n_tok = n_tok, .positions = positions, .angles = &a.local_angles});
    for (size_t i = first; i < last; ++i) {
        LayerPass p{be, m, i, a, n_tok};
        const auto& w = m.weights().layers[i];
        // Behind the keys and values of the model's last layer only the outputs continue.
        const auto* outputs = i + 1 == m.weights().layers.size() ? &b.outputs : nullptr;
        const auto& attn = std::get<AttnWeights>(w.mixer);
        p.n_tok = n_tok = attention_block(p, attn, kv.layers[i], b.segments(kv, i), outputs);
        if (n_tok == 0) return;
        std::visit([&p](const auto& ffn) { ffn_block(p, ffn); }, w.ffn);
    }
}

void forward(Backend& be, const Model& m, const kv::Layout& kv, const Batch& b, Activations& a) {
    embed_tokens(be, m, b, a);
    run_layers(be, m, kv, b, 0, m.weights().layers.size(), a);
    head(be, m, b, a);
}

}  // namespace tessera
