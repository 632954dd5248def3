// Turns the planned chunks into the batch of forward(). Chunks lie in the batch one after the other; segments
// repeat for each layer group, with the pages of that group.
#include "src/engine/pass.h"

#include <algorithm>

namespace tessera::engine {

Result<Pass> Pass::create(const Model& model, const kv::Layout& layout, const PassLimits& limits) {
    Pass pass;
    pass.limits_ = limits;
    pass.n_layer_groups_ = layout.n_layer_groups;
    TSR_TRY(pass.activations_,
            Activations::create(model, limits.max_tok, limits.max_logits, limits.all_floats));
    const auto max_chunks = static_cast<size_t>(limits.max_chunks);
    pass.chunks_.reserve(max_chunks);
    pass.chunks_with_logits_.reserve(max_chunks);
    pass.tokens_.reserve(static_cast<size_t>(limits.max_tok));
    pass.outputs_.reserve(static_cast<size_t>(limits.max_logits));
    pass.segments_.reserve(max_chunks * static_cast<size_t>(layout.n_layer_groups));
    pass.hidden_.dim = model.hparams().n_embd;
    return pass;
}

void Pass::clear(Phase phase) {
    phase_ = phase;
    chunks_.clear();
    chunks_with_logits_.clear();
    tokens_.clear();
    outputs_.clear();
    segments_.clear();
    n_logits_ = 0;
    seconds_ = 0;
    was_aborted_ = false;
}

void Pass::add(Completion& completion, int64_t n_tok, int64_t n_logits) {
    chunks_.push_back({.completion = &completion,
                       .n_tok = n_tok,
                       .n_logits = n_logits,
                       .is_decoding = completion.decoding()});
}

/// Appends a chunk's tokens to the batch, with the outputs that it wants. Chunks with logits come first
/// (Batch::n_hidden).
void Pass::append(Chunk& chunk) {
    const kv::Sequence& sequence = chunk.completion->sequence();
    const auto pending = chunk.completion->pending();
    const int64_t first_row = n_tok();
    tokens_.insert(tokens_.end(), pending.begin(), pending.begin() + chunk.n_tok);
    segments_.push_back(
        {nullptr, first_row, chunk.n_tok, sequence.n_tok(), sequence.state_in(), sequence.state_out()});
    if (const EmbeddingSum* sum = chunk.completion->embedding()) {
        chunk.row0 = n_hidden();
        sum->want(sequence.n_tok(), chunk.n_tok, first_row, outputs_);
        chunk.n_hidden = n_hidden() - chunk.row0;
        return;
    }
    chunk.row0 = n_logits_;
    for (int64_t i = chunk.n_tok - chunk.n_logits; i < chunk.n_tok; ++i)
        outputs_.push_back(static_cast<int32_t>(first_row + i));
    n_logits_ += chunk.n_logits;
    if (chunk.n_logits > 0) chunks_with_logits_.push_back(&chunk);
}

void Pass::build_batch() {
    std::partition(chunks_.begin(), chunks_.end(),
                   [](const Chunk& chunk) { return !chunk.completion->embedding(); });
    for (Chunk& chunk : chunks_) append(chunk);
    TSR_CHECK(n_tok() <= limits_.max_tok && n_logits_ <= limits_.max_logits);
    for (int32_t group = 0; group < n_layer_groups_; ++group)
        for (size_t i = 0; i < chunks_.size(); ++i) {
            if (group > 0) segments_.push_back(segments_[i]);
            segments_[static_cast<size_t>(group) * chunks_.size() + i].pages =
                chunks_[i].completion->sequence().pages(group);
        }
    hidden_rows_.resize(static_cast<size_t>(n_hidden() * hidden_.dim));
    hidden_.f32 = hidden_rows_.data();
}

int64_t Pass::n_decoding() const {
    return std::count_if(chunks_.begin(), chunks_.end(),
                         [](const Chunk& chunk) { return chunk.is_decoding; });
}

std::span<const float> Pass::logits(const Chunk& chunk, int64_t i) const {
    return {activations_.logits.row(chunk.row0 + i), static_cast<size_t>(activations_.logits.dim)};
}

std::span<const float> Pass::hidden(const Chunk& chunk, int64_t i) const {
    return {hidden_.row(chunk.row0 + i), static_cast<size_t>(hidden_.dim)};
}

}  // namespace tessera::engine
