#pragma once
// The buffers of the forward pass. Their sizes, readers and lifetimes are those of the recorded pass
// (record.h), so that a new operation needs a member here and a row in kBuffers, and buffers that are never
// live together share memory. Owned by one session or one pass of the engine.
#include <vector>

#include "common/arena.h"
#include "ggml-like/backend.h"
#include "src/model/model.h"

namespace tessera {

/// The width of a buffer is that of the layer in progress; there is memory for the widest one.
struct Activations {
    ActBuffer residual;      // [max_tok, n_embd]  the residual stream
    ActBuffer normed;        // [max_tok, n_embd]  input of a sublayer, after its pre-norm
    ActBuffer q;             // [max_tok, n_head * k_dim]
    ActBuffer attn;          // [max_tok, n_head * v_dim]
    ActBuffer ff;            // [max_tok, n_ff]
    ActBuffer k_scratch;     // [max_tok, n_head_kv * k_dim]  keys, where QK-norm covers whole rows
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

    int64_t max_tok = 0, max_out = 0;

    /// max_tok: rows of the largest batch; max_out: the most rows with logits in one pass. all_floats:
    /// buffers also have the floats that only other backends read, which observe activations or compute in
    /// floats. Errors: out of memory.
    static Result<Activations> create(const Model& model, int64_t max_tok, int64_t max_out,
                                      bool all_floats = false);
    /// Bytes of memory that create() allocates for the same arguments.
    static size_t bytes(const Model& model, int64_t max_tok, int64_t max_out, bool all_floats = false);

    /// The buffers by name only, for recording.
    static Activations describe(const Model& model);

    Buffer memory;
};

}  // namespace tessera
