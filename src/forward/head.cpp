// The head: the last norm, and the product with the output matrix.
#include "src/forward/blocks.h"

namespace tessera {

void head(Backend& be, const Model& m, const Batch& b, Activations& a) {
    const Hparams& h = m.hparams();
    const Weights& w = m.weights();
    if (const int64_t n_logits = b.n_logits(); n_logits > 0) {
        norm_rows(be, m, a.residual, n_logits, w.output_norm, w.output_norm_bias, a.final_normed);
        be.linear({.x = &a.final_normed,
                   .n_tok = n_logits,
                   .product = {.w = w.output, .scale = h.logit_scale, .softcap = h.final_softcap},
                   .y = &a.logits});
    }
    if (b.n_hidden > 0) {
        const ActBuffer rows = a.residual.rows_from(b.n_logits());
        norm_rows(be, m, rows, b.n_hidden, w.output_norm, w.output_norm_bias, *b.hidden);
    }
}

}  // namespace tessera
