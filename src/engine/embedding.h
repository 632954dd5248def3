#pragma once
// The vector that stands for a text, out of the hidden states of its tokens.
#include <cstdint>
#include <span>
#include <vector>

#include "src/model/model.h"

namespace tessera::engine {

/// What becomes of the hidden states of a text's tokens.
enum class Pooling : uint8_t { Last, Mean };
/// The one that the model's file names (`ARCHITECTURE.pooling_type`); the last token's where it names none.
Pooling model_pooling(const Model& model);

/// Divides a vector by its Euclidean length; one of zeros stays as it is.
void normalize(std::span<float> row);

/// Takes the states as passes compute them. Sums run in double over tokens in their order, so that neither
/// how a text is cut into passes nor what else those compute changes a bit.
class EmbeddingSum {
  public:
    /// Of a text of n_tok tokens, with states of n_embd floats.
    EmbeddingSum(Pooling pooling, int64_t n_tok, int64_t n_embd);

    /// Tokens at the front whose states are not wanted any more.
    int64_t n_done() const { return next_; }
    /// Appends the rows of a pass whose states are wanted, when the text's tokens from `first` on are its
    /// rows row0 .. row0 + n.
    void want(int64_t first, int64_t n, int64_t row0, std::vector<int32_t>& rows) const;
    /// The next state that was wanted, [n_embd].
    void add(std::span<const float> state);
    size_t n_embd() const { return sum_.size(); }
    /// All tokens' have come: the embedding, n_embd floats.
    void write(std::span<float> out) const;

  private:
    std::vector<double> sum_;
    int64_t next_, n_added_ = 0;
};

}  // namespace tessera::engine
