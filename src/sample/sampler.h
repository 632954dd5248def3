#pragma once
// The interface of samplers, and the table of all of them. To add one, write its .cpp (parameter rows, class,
// SamplerInfo) and add a line in registry.cpp; flags, JSON fields, range checks and
// docs/reference/sampling.md are generated from the rows.
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/expected.h"
#include "common/rng.h"
#include "src/sample/candidates.h"
#include "src/sample/params.h"
#include "src/text/tokenizer.h"

namespace tessera::sample {

/// The model and context that a chain samples for.
struct Setting {
    int32_t n_vocab = 0;  ///< logits of a row, 1 to 2^24
    /// Must outlive the chain. Needed only by samplers that look at text (dry with breakers, banned_strings,
    /// infill).
    const text::Tokenizer* tokenizer = nullptr;
    int64_t n_ctx = 0;  ///< maximum length of the text in tokens, for windows over all of it; 0: kDefaultCtx

    static constexpr int64_t kDefaultCtx = 131072;
    size_t window() const { return static_cast<size_t>(n_ctx > 0 ? n_ctx : kDefaultCtx); }
};

/// State and result of one call of Chain::sample, shared by its samplers.
struct Context {
    uint64_t seed = 0;
    uint64_t stream = 0;
    uint64_t step = 0;  ///< number of this call since the start of the chain

    int32_t id = -1;          ///< the token chosen
    double p = 0;             ///< its probability among the candidates that survived
    size_t n_nan = 0;         ///< logits that were NaN and were taken as -inf
    bool all_masked = false;  ///< every candidate was -inf; `id` is the lowest of them, not a draw

    /// Users of random numbers. Each has a sequence of its own, so that none shifts another's.
    enum class Lane : uint32_t { Draw = 0, Xtc = 1, kCount = 4 };

    /// The lane's 64 random bits of this step: a function of (seed, stream, step, lane) alone.
    uint64_t random(Lane lane) const {
        Rng rng(seed, stream);
        rng.seek(step * static_cast<uint64_t>(Lane::kCount) + static_cast<uint64_t>(lane));
        return rng.next_u64();
    }
};

/// One stage of a chain. Not thread-safe. After construction no method but clone() allocates.
class Sampler {
  public:
    virtual ~Sampler() = default;
    /// Edits logits or drops candidates; leaves at least one, and no NaN.
    virtual void apply(Candidates& candidates, Context& context) = 0;
    /// Called with the token that the chain chose, which may not become part of the text.
    virtual void drawn(const Context& /*context*/) {}
    /// Called for each token that becomes part of the text, prompt included. 0 <= id < n_vocab.
    virtual void accept(int32_t /*id*/) {}
    /// Back to the state after construction.
    virtual void reset() {}
    /// Forgets the accepted tokens; those that stay are accepted again. Keeps the feedback from draws.
    virtual void forget_text() { reset(); }
    /// A copy in the same state.
    virtual std::unique_ptr<Sampler> clone() const = 0;
};

struct SamplerInfo {
    std::string_view name;
    std::string_view help;
    std::span<const ParamInfo> params;
    /// Builds the sampler; returns null if its parameters switch it off. Errors: a value that does not fit
    /// the vocabulary, or a missing tokenizer.
    Result<std::unique_ptr<Sampler>> (*make)(const Params& params, const Setting& setting);
    char letter = 0;            ///< its letter in "sampling_seq", or 0
    bool always_first = false;  ///< placed in front of any order that does not name it
};

/// All samplers in default order; the last is "draw", which ends every chain.
std::span<const SamplerInfo> all_samplers();

/// Resolves a list of sampler names ("top_k;temperature", `;` or `,` between) to table rows. Samplers that
/// always come first and "draw" at the end are added if missing; empty text means the default order. Errors:
/// unknown name (with the nearest known one), name given twice, draw not last.
Result<std::vector<const SamplerInfo*>> parse_order(std::string_view text);

/// The same for letters ("edskypmxt").
Result<std::vector<const SamplerInfo*>> parse_letters(std::string_view text);

/// The order that the parameters set. Errors: "samplers" and "sampling_seq" both given.
Result<std::vector<const SamplerInfo*>> chosen_order(const Params& params);

/// The tokenizer, or an error that `param` needs one.
Result<const text::Tokenizer*> need_tokenizer(const Setting& setting, const char* param);

}  // namespace tessera::sample
