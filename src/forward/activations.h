#pragma once
// All scratch of the forward pass, sized once from the model and the largest batch. One owner: a session or
// engine.
#include <vector>

#include "common/arena.h"
#include "ggml-like/backend.h"
#include "src/model/model.h"

namespace tessera {

struct Activations {
    ActBuffer residual;      // [max_tok, n_embd]  the residual stream
    ActBuffer normed;        // [max_tok, n_embd]  input of a sublayer, after its pre-norm
    ActBuffer q;             // [max_tok, n_head * head_dim]
    ActBuffer attn;          // [max_tok, n_head * head_dim]
    ActBuffer ff;            // [max_tok, n_ff]
    ActBuffer k_scratch;     // [max_tok, n_head_kv * head_dim]  keys, where QK-norm covers whole rows
    ActBuffer sublayer_out;  // [max_tok, n_embd]  output of a sublayer that has a post-norm
    ActBuffer angles;        // [max_tok, n_rot]
    ActBuffer local_angles;  // [max_tok, n_rot]  of LayerRope::Local
    ActBuffer shared_ff;     // [max_tok, n_ff_shared]
    ActBuffer gathered;      // [max_tok * n_used, n_embd]  inputs of the experts, in expert order
    ActBuffer expert_ff;     // [max_tok * n_used, n_ff_expert]
    ActBuffer expert_out;    // [max_tok * n_used, n_embd]
    ActBuffer final_normed;  // [max_out, n_embd]  normed output rows, the input of the head
    ActBuffer logits;        // [max_out, n_vocab]
    MoeRoutes routes;
    std::vector<Segment> output_segments;  // [max_out]  the output rows of the last layer, one segment each

    /// max_tok: rows of the largest batch; max_out: rows whose logits may be wanted at once.
    static Result<Activations> create(const Model& model, int64_t max_tok, int64_t max_out);

    /// What every buffer is for, without memory: enough for a backend that does not compute.
    static Activations describe(const Model& model, int64_t max_tok, int64_t max_out);

    /// Bytes of memory that create() takes for the same.
    static size_t bytes(const Model& model, int64_t max_tok, int64_t max_out);
    /// Of these, floats of gated rows that only integer kernels read: a pass never touches them, unless its
    /// backend wants them as well (ActBuffer::needs_f32), as those do that watch or that compute in floats.
    static size_t untouched_bytes(const Model& model, int64_t max_tok);

    int64_t max_tok = 0, max_out = 0;
    Arena arena;
};

}  // namespace tessera
