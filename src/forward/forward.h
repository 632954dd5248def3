#pragma once
// The forward pass: tokens in, logits out. Written once against Backend; read forward.cpp from top to bottom.
#include <span>

#include "src/forward/activations.h"
#include "src/kv/page_pool.h"

namespace tessera {

/// The tokens of one forward pass. Several sequences are batched side by side, one segment each.
struct Batch {
    std::span<const int32_t> tokens;  // [n_tok], each in [0, n_vocab); n_tok <= activations.max_tok
    std::span<const Segment>
        segments;  // cover the rows 0 .. n_tok in order, once for each layer group of the cache
    std::span<const int32_t> outputs;  // rows that are wanted, rising
    int64_t n_ctx = 0;  // positions that the sequences may reach, the same in all their passes (Model::rope)
    ActBuffer* hidden = nullptr;  // where set, the normed rows of `outputs` go here,
    int64_t n_logits =
        0;  // and the first n_logits have logits; else all of them; at most activations.max_out
};

/// Runs the batch: keys and values go to the segments' pages, logits of outputs[i] to a.logits row i. Never
/// fails.
void forward(Backend& be, const Model& model, const kv::Layout& kv, const Batch& batch, Activations& a);

}  // namespace tessera
