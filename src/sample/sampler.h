#pragma once
// What a sampler is, and the table of all of them. Adding one: its own .cpp (parameter rows, class,
// SamplerInfo) and a line in registry.cpp; flags, JSON fields, range checks and docs/reference/sampling.md
// follow from the rows.
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

/// What a chain is made for.
struct Setting {
    int32_t n_vocab = 0;  ///< logits of a row, 1 to 2^24
    /// Spells the tokens; outlives the chain. Only samplers that look at text need it (dry with breakers,
    /// banned_strings, infill).
    const text::Tokenizer* tokenizer = nullptr;
    int64_t n_ctx = 0;  ///< tokens a text can have, for windows over all of it; 0: kDefaultCtx

    static constexpr int64_t kDefaultCtx = 131072;
    size_t window() const { return static_cast<size_t>(n_ctx > 0 ? n_ctx : kDefaultCtx); }
};

/// One call of Chain::sample: what the samplers share, and what came of it.
struct Context {
    uint64_t seed = 0;
    uint64_t stream = 0;
    uint64_t step = 0;  ///< number of this call since the start of the chain

    int32_t id = -1;          ///< the token chosen
    double p = 0;             ///< its probability among the candidates that survived
    size_t n_nan = 0;         ///< logits that were NaN and were taken as -inf
    bool all_masked = false;  ///< every candidate was -inf; `id` is the lowest of them, not a draw

    /// Who takes random numbers; each has its own, so that none shifts another's.
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
    /// Tells which token the chain chose; it may not become part of the text.
    virtual void drawn(const Context& /*context*/) {}
    /// Tells of a token that is now part of the text, prompt included. 0 <= id < n_vocab.
    virtual void accept(int32_t /*id*/) {}
    /// Back to the state after construction.
    virtual void reset() {}
    /// Forgets the accepted tokens, which will be told of again after some were taken back; keeps what was
    /// learnt of the draws.
    virtual void forget_text() { reset(); }
    /// A copy in the same state.
    virtual std::unique_ptr<Sampler> clone() const = 0;
};

struct SamplerInfo {
    std::string_view name;
    std::string_view help;
    std::span<const ParamInfo> params;
    /// Builds the sampler; a null pointer says that its parameters switch it off. Errors: a value that does
    /// not fit the vocabulary, or needs one that is not there.
    Result<std::unique_ptr<Sampler>> (*make)(const Params& params, const Setting& setting);
    char letter = 0;            ///< its letter in "sampling_seq", or 0
    bool always_first = false;  ///< takes part, in front, where an order does not name it
};

/// All samplers in default order; the last is "draw", which ends every chain.
std::span<const SamplerInfo> all_samplers();

/// Resolves a list of sampler names ("top_k;temperature", `;` or `,` between) to table rows. What always
/// comes first is added where missing, as is "draw" at the end; empty text means the default order. Errors:
/// unknown name (with the nearest known one), name given twice, draw not last.
Result<std::vector<const SamplerInfo*>> parse_order(std::string_view text);

/// The same for letters ("edskypmxt").
Result<std::vector<const SamplerInfo*>> parse_letters(std::string_view text);

/// The order that the parameters ask for. Errors: "samplers" and "sampling_seq" both given.
Result<std::vector<const SamplerInfo*>> chosen_order(const Params& params);

/// A tokenizer, or the error that `param` needs one.
Result<const text::Tokenizer*> need_tokenizer(const Setting& setting, const char* param);

}  // namespace tessera::sample
