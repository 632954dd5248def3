#pragma once
// The sampler chain of a sequence: turns one row of logits into one token. The last sampler is the draw.
#include <memory>
#include <span>
#include <vector>

#include "common/expected.h"
#include "src/sample/candidates.h"
#include "src/sample/params.h"
#include "src/sample/sampler.h"

namespace tessera::sample {

/// Tokens that one call of Chain::sample must not choose, in addition to those the samplers drop.
struct Limits {
    /// Token i is allowed where bit i % 64 of word i / 64 is 1; the words cover the vocabulary. Empty: all.
    std::span<const uint64_t> allowed = {};
    /// Ids that are not allowed; distinct.
    std::span<const int32_t> banned = {};
};

/// The sampling state of one sequence. Call i of sample() uses random numbers that depend on (seed, stream,
/// i) only, so other sequences never change its tokens. The same logits give the same token on every machine:
/// exponentials do not come from the C library, sums do not depend on the order of summands, and ties go to
/// the lower id. Not thread-safe. Apart from create(), clone() and the first sample(), nothing allocates.
class Chain {
  public:
    /// `stream` distinguishes sequences that share a seed (n completions of a prompt). Errors
    /// (InvalidArgument): n_vocab out of range, a logit_bias token outside the vocabulary, a sampler that
    /// needs a tokenizer without one, two orders at once.
    static Result<Chain> create(const Params& params, const Setting& setting, uint64_t stream = 0);

    /// The next token for logits [n_vocab]. It is not accepted: call accept() once it is part of the text.
    /// NaN counts as -inf. If all logits are -inf, returns the lowest id and sets last().all_masked; the
    /// caller then ends the text with an error.
    int32_t sample(std::span<const float> logits, const Limits& limits = {});

    /// The same in the caller's buffer, which chains may share one after the other. Afterwards it holds the
    /// candidates that the token was drawn from.
    int32_t sample(std::span<const float> logits, Candidates& buffer, const Limits& limits = {});

    /// A token that became part of the text, prompt tokens included. 0 <= id < n_vocab.
    void accept(int32_t id);

    /// Forgets all accepted tokens. To take tokens back, call this and then accept() for the text that stays.
    /// Later draws use new random numbers; the feedback state of mirostat and adaptive_p is kept.
    void forget_text();

    /// Back to the state after create(), with the same seed.
    void reset();

    /// A copy in the same state.
    Chain clone() const;

    /// Result of the last sample().
    const Context& last() const { return last_; }

    /// The seed in use, never -1, with which a run can be repeated.
    uint64_t seed() const { return seed_; }
    uint64_t stream() const { return stream_; }

    /// Number of sample() calls so far; seek() restores it with a saved sequence.
    uint64_t step() const { return step_; }
    void seek(uint64_t step) { step_ = step; }

    /// Names of the active samplers in order.
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
