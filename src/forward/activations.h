#pragma once
// All scratch buffers of the forward pass, sized once from the model and the largest batch. Owned by one
// session or scheduler.
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

    /// max_tok: rows of the largest batch; max_out: the most rows with logits in one pass. Errors: out of
    /// memory.
    static Result<Activations> create(const Model& model, int64_t max_tok, int64_t max_out);

    /// Every buffer with its shape and consumers but without memory: enough for a backend that does not
    /// compute.
    static Activations describe(const Model& model, int64_t max_tok, int64_t max_out);

    /// Bytes of memory that create() allocates for the same arguments.
    static size_t bytes(const Model& model, int64_t max_tok, int64_t max_out);
    /// The part of these bytes that no pass touches: floats of gate-and-up results that only int8 kernels
    /// read. Backends that observe activations or compute in floats do touch them (ActBuffer::needs_f32).
    static size_t untouched_bytes(const Model& model, int64_t max_tok);

    int64_t max_tok = 0, max_out = 0;
    Arena arena;
};

}  // namespace tessera
