#pragma once
// The forward pass: tokens in, logits out. It is written once against Backend; read forward.cpp from top to
// bottom.
#include <span>

#include "src/forward/activations.h"
#include "src/kv/page_pool.h"

namespace tessera {

/// The tokens of one forward pass. Several sequences are batched side by side, one segment each. Every output
/// row gets either logits or, at the end of the list, a normed hidden state.
struct Batch {
    std::span<const int32_t> tokens;  // [n_tok], each in [0, n_vocab); n_tok <= activations.max_tok
    std::span<const Segment>
        group_segments;  // [n_layer_groups, n_segments]; each group covers rows 0 .. n_tok in order
    std::span<const int32_t> outputs;  // [n_out] rows whose results are needed, ascending
    int64_t n_ctx = 0;  // positions that the sequences may reach, the same in all their passes (Model::rope)
    ActBuffer* hidden = nullptr;  // [n_hidden, n_embd] floats
    int64_t n_hidden = 0;  // the last n_hidden outputs get normed hidden states, in `hidden`, and no logits

    /// Outputs that get logits; at most activations.max_out.
    int64_t n_logits() const { return std::ssize(outputs) - n_hidden; }
    /// The segments with the pages of one layer.
    std::span<const Segment> segments(const kv::Layout& kv, size_t layer) const {
        const size_t n_segments = group_segments.size() / static_cast<size_t>(kv.n_layer_groups);
        return group_segments.subspan(static_cast<size_t>(kv.group_of_layer[layer]) * n_segments, n_segments);
    }
};

/// Runs the batch: keys and values go to the segments' pages, the logits of outputs[i] to a.logits row i.
/// Never fails.
void forward(Backend& be, const Model& model, const kv::Layout& kv, const Batch& batch, Activations& a);

// The parts of forward(), in order. A part leaves only the residual stream, a.residual, for the next one.

/// residual <- the embeddings of batch.tokens, [n_tok, n_embd].
void embed_tokens(Backend& be, const Model& model, const Batch& batch, Activations& a);
/// Layers first .. last - 1 of the model on the residual stream. The model's last layer leaves the rows of
/// batch.outputs only, [n_out, n_embd].
void run_layers(Backend& be, const Model& model, const kv::Layout& kv, const Batch& batch, size_t first,
                size_t last, Activations& a);
/// Logits of the first rows of the residual stream, normed hidden states of the last batch.n_hidden.
void head(Backend& be, const Model& model, const Batch& batch, Activations& a);

}  // namespace tessera
