#pragma once
// One forward pass of the engine, from its plan to its results: the tokens that it computes of each
// completion, the batch of them, and the buffers that the batch and its results need. The scheduler fills it,
// forward() computes it. Nothing in it is shared, so several passes may be in flight over disjoint
// completions, each with buffers of its own.
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "src/engine/completion.h"
#include "src/forward/forward.h"
#include "src/kv/page_pool.h"
#include "src/model/model.h"

namespace tessera::engine {

/// Access for other threads while a pass runs.
struct PassControl {
    std::atomic<bool> abort{false};

    /// Aborts the running pass at its next operation, so that it is repeated without cancelled requests; mark
    /// these before the call. Short passes, and passes that repeat an aborted one, are not aborted.
    void interrupt() { abort.store(true); }
};

/// Sizes of the largest pass.
struct PassLimits {
    int64_t n_ctx = 0;        ///< positions that a completion may reach
    int64_t max_tok = 0;      ///< tokens of all chunks
    int64_t max_chunks = 0;   ///< completions
    int64_t max_logits = 0;   ///< rows of logits
    bool all_floats = false;  ///< activations have all floats (Activations::create)
};

/// Buffers are sized once. A pass allocates only for more hidden states than any pass before it had. Not
/// thread-safe.
class Pass {
  public:
    /// Consecutive tokens of one completion, from its first pending one on.
    struct Chunk {
        Completion* completion = nullptr;
        int64_t n_tok = 0;
        int64_t n_logits = 0;      // the last n_logits tokens get logits
        int64_t n_hidden = 0;      // hidden states, of the tokens that the completion's embedding needs
        int64_t row0 = 0;          // of the chunk's first logits or hidden state among those of the pass
        bool is_decoding = false;  // the completion has generated tokens, and only the last one is pending
    };

    Pass() = default;
    /// Errors: out of memory for a named buffer.
    static Result<Pass> create(const Model& model, const kv::Layout& layout, const PassLimits& limits);

    /// Begins an empty pass. `phase` is that of all its tokens if an NPU computes only one phase.
    void clear(Phase phase);
    /// Adds the next n_tok pending tokens of a completion, whose sequence has reserved their pages. The last
    /// n_logits of them get logits; none for an embedding, which chooses its hidden states itself.
    void add(Completion& completion, int64_t n_tok, int64_t n_logits);
    /// Builds the batch after the last add(). The chunks are in a new order then: those of embeddings last.
    void build_batch();
    /// The batch, whose results go to activations() and to this pass; valid until the next clear().
    Batch batch() { return {tokens_, segments_, outputs_, limits_.n_ctx, &hidden_, n_hidden()}; }
    Activations& activations() { return activations_; }
    /// Records the end of the computation. The results of an aborted pass are undefined.
    void set_computed(double seconds, bool was_aborted) {
        seconds_ = seconds;
        was_aborted_ = was_aborted;
    }

    Phase phase() const { return phase_; }
    bool empty() const { return chunks_.empty(); }
    int64_t n_tok() const { return std::ssize(tokens_); }
    /// Tokens of completions that are decoding.
    int64_t n_decoding() const;
    std::span<const Chunk> chunks() const { return chunks_; }
    /// The chunks with logits, in the order of chunks().
    std::span<const Chunk* const> chunks_with_logits() const { return chunks_with_logits_; }
    /// Logits [n_vocab] of token i of the last n_logits of a chunk.
    std::span<const float> logits(const Chunk& chunk, int64_t i) const;
    /// The normed hidden state [n_embd] of token i of the n_hidden that the chunk's embedding needs.
    std::span<const float> hidden(const Chunk& chunk, int64_t i) const;
    /// Time of the computation.
    double seconds() const { return seconds_; }
    bool was_aborted() const { return was_aborted_; }

  private:
    void append(Chunk& chunk);
    int64_t n_hidden() const { return std::ssize(outputs_) - n_logits_; }

    PassLimits limits_;
    int32_t n_layer_groups_ = 0;
    Phase phase_ = Phase::Prefill;
    std::vector<Chunk> chunks_;
    std::vector<const Chunk*> chunks_with_logits_;
    std::vector<int32_t> tokens_, outputs_;
    int64_t n_logits_ = 0;           // outputs with logits; they come first (Batch::n_hidden)
    std::vector<Segment> segments_;  // [n_layer_groups, n_chunks]
    Activations activations_;
    ActBuffer hidden_{.name = "hidden"};  // [n_hidden, n_embd] in hidden_rows_
    std::vector<float> hidden_rows_;
    double seconds_ = 0;
    bool was_aborted_ = false;
};

}  // namespace tessera::engine
