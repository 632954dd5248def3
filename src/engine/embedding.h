#pragma once
// Embeddings: pooling of the hidden states of a text's tokens.
#include <cstdint>
#include <span>
#include <vector>

#include "src/model/model.h"

namespace tessera::engine {

/// The hidden state of the last token, or the mean over all tokens.
enum class Pooling : uint8_t { Last, Mean };
/// The pooling of the model file (`ARCHITECTURE.pooling_type`); Last if it has no such key.
Pooling model_pooling(const Model& model);

/// Divides a vector by its Euclidean norm; a zero vector is not changed.
void normalize(std::span<float> row);

/// Accumulates hidden states as passes compute them. Sums are in double and in the order of the tokens, so
/// that chunking and batching do not change a bit.
class EmbeddingSum {
  public:
    /// For a text of n_tok tokens and states of n_embd floats.
    EmbeddingSum(Pooling pooling, int64_t n_tok, int64_t n_embd);

    /// Tokens at the front whose states are no longer needed.
    int64_t n_done() const { return next_; }
    /// Appends to `rows` the rows of a pass whose states are needed, if rows row0 .. row0 + n are the text's
    /// tokens from `first`.
    void want(int64_t first, int64_t n, int64_t row0, std::vector<int32_t>& rows) const;
    /// Adds the next needed state, [n_embd].
    void add(std::span<const float> state);
    size_t n_embd() const { return sum_.size(); }
    /// Writes the embedding [n_embd], after the states of all tokens were added.
    void write(std::span<float> out) const;

  private:
    std::vector<double> sum_;
    int64_t next_, n_added_ = 0;
};

}  // namespace tessera::engine
