#pragma once
// All scratch of the forward pass, sized once from the model and the largest batch. One owner: a session or
// engine.
#include <vector>

#include "common/arena.h"
#include "ggml-like/backend.h"
#include "src/model/model.h"

namespace tessera {

struct Activations {
    Act x;             // [max_tok, n_embd]  the residual stream
    Act h;             // [max_tok, n_embd]  normed input of a part
    Act q;             // [max_tok, n_head * head_dim]
    Act attn;          // [max_tok, n_head * head_dim]
    Act ff;            // [max_tok, n_ff]
    Act k_rows;        // [max_tok, n_head_kv * head_dim] keys where norms are over whole rows
    Act part;          // [max_tok, n_embd]  what a part adds, where it is normed first
    Act angles;        // [max_tok, n_rot]
    Act local_angles;  // [max_tok, n_rot]  of LayerRope::Local
    Act shared_ff;     // [max_tok, n_ff_shared]
    Act gathered;      // [max_tok * n_used, n_embd]       experts: inputs in expert order
    Act expert_ff;     // [max_tok * n_used, n_ff_expert]
    Act expert_out;    // [max_tok * n_used, n_embd]
    Act out;           // [max_out, n_embd]  normed rows for the head
    Act logits;        // [max_out, n_vocab]
    MoeRoutes routes;
    std::vector<Segment> wanted;  // [max_out] the rows of the last layer that go on

    /// max_tok: rows of the largest batch; max_out: rows whose logits may be wanted at once.
    static Result<Activations> create(const Model& model, int64_t max_tok, int64_t max_out);

    /// What every buffer is for, without memory: enough for a backend that does not compute.
    static Activations describe(const Model& model, int64_t max_tok, int64_t max_out);

    /// Bytes of memory that create() takes for the same.
    static size_t bytes(const Model& model, int64_t max_tok, int64_t max_out);
    /// Of these, floats of gated rows that only integer kernels read: a pass never touches them, unless its
    /// backend wants them as well (Act::wants_f32), as those do that watch or that compute in floats.
    static size_t untouched_bytes(const Model& model, int64_t max_tok);

    int64_t max_tok = 0, max_out = 0;
    Arena arena;
};

}  // namespace tessera
