// The head: the last norm, and the product with the output matrix.
#include "src/forward/forward.h"

namespace tessera {

void head(Backend& be, const Model& m, const Batch& b, Activations& a) {
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

}  // namespace tessera
