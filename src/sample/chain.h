#pragma once
// From one row of logits to one token: the samplers of a sequence, in order, ending with the draw.
#include <memory>
#include <span>
#include <vector>

#include "common/expected.h"
#include "src/sample/candidates.h"
#include "src/sample/params.h"
#include "src/sample/sampler.h"

namespace tessera::sample {

/// What one call of Chain::sample may not choose, besides what the chain's samplers rule out.
struct Limits {
    /// Token i is allowed where bit i % 64 of word i / 64 is 1; the words cover the vocabulary. Empty: all.
    std::span<const uint64_t> allowed = {};
    /// Ids that are not; each once.
    std::span<const int32_t> banned = {};
};

/// The sampling state of one sequence. Call i of sample() takes the random numbers of (seed, stream, i)
/// alone, so a sequence gives the same tokens whatever else is sampled, in whatever order. The same logits
/// give the same token on every machine: no C library exponential, sums that do not depend on order, ties to
/// the lower id. Not thread-safe. Apart from create(), clone() and the first sample(), nothing allocates.
class Chain {
  public:
    /// `stream` tells sequences with one seed apart (n completions of a prompt). Errors (InvalidArgument):
    /// n_vocab out of range, a logit_bias token outside the vocabulary, a sampler that needs a tokenizer
    /// without one, two orders at once.
    static Result<Chain> create(const Params& params, const Setting& setting, uint64_t stream = 0);

    /// The next token for logits [n_vocab]. It is not accepted: call accept() once it is part of the text.
    /// NaN counts as -inf. Where all logits are -inf the lowest id comes back; last().all_masked says so, and
    /// the caller ends the text with an error.
    int32_t sample(std::span<const float> logits, const Limits& limits = {});

    /// The same in the caller's buffer, which several chains may share in turn; afterwards it holds the
    /// candidates the token was drawn from.
    int32_t sample(std::span<const float> logits, Candidates& buffer, const Limits& limits = {});

    /// A token that became part of the text, prompt tokens included. 0 <= id < n_vocab.
    void accept(int32_t id);

    /// Takes back all that was accepted, to be followed by accept() of the text that stays: how tokens are
    /// taken back. Draws go on with new random numbers, and feedback (mirostat, adaptive_p) as it stands.
    void forget_text();

    /// Back to the state after create(), with the same seed.
    void reset();

    /// A copy that goes on as this one would.
    Chain clone() const;

    /// What came of the last sample().
    const Context& last() const { return last_; }

    /// The seed in use, never -1: with it a random run can be repeated.
    uint64_t seed() const { return seed_; }
    uint64_t stream() const { return stream_; }

    /// Number of sample() calls so far; seek() restores it with a saved sequence.
    uint64_t step() const { return step_; }
    void seek(uint64_t step) { step_ = step; }

    /// Names of the samplers that take part, in order; those switched off by their parameters are left out.
    std::span<const std::string_view> names() const { return names_; }

  private:
    Chain() = default;

    std::vector<std::unique_ptr<Sampler>> samplers_;
    std::vector<std::string_view> names_;  // parallel to samplers_
    Candidates buffer_;
    Context last_;
    int32_t n_vocab_ = 0;
    uint64_t seed_ = 0, stream_ = 0, step_ = 0;
};

}  // namespace tessera::sample
