#pragma once
// One output under way, held to a grammar.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "src/grammar/mask_cache.h"

namespace tessera::grammar {

/// Used by one thread at a time; many matchers may share a MaskCache.
///
/// Everything that was accepted can still be finished: a token is allowed only if some text after it
/// completes the grammar.
class Matcher {
  public:
    explicit Matcher(std::shared_ptr<MaskCache> cache);

    /// The tokens that may come next, bit `id % 64` of word `id / 64`; `words` has TokenTrie::mask_words()
    /// elements. Tokens that end the generation are among them exactly where is_accepting(). Empty after the
    /// end.
    void mask(std::span<uint64_t> words);
    bool allows(int32_t token);

    /// Fails, and changes nothing, for a token that is not allowed (InvalidArgument) and where the grammar is
    /// so ambiguous that more than kMaxStacks derivations are alive (Unsupported).
    Result<void> accept(int32_t token);
    /// The same for text, whatever tokens it consists of; all of it or nothing.
    Result<void> accept_bytes(std::string_view text);
    /// Longest beginning of `text` that accept_bytes would take.
    size_t n_fitting(std::string_view text);

    /// Takes back the last `n` successful calls of accept and accept_bytes; at most n_steps().
    void rollback(size_t n);
    size_t n_steps() const { return steps_.size() - 1; }
    void reset() { rollback(n_steps()); }

    /// Whether the output may end here.
    bool is_accepting() const { return steps_.back().accepting; }
    /// Whether nothing but the end may follow.
    bool is_finished() const;

    /// Bytes that have to come next whatever the model says, at most `max_bytes`; they may end inside a
    /// character.
    std::string forced_bytes(size_t max_bytes = 4096);

    const MaskCache& cache() const { return *cache_; }

  private:
    struct Step {
        size_t first;  // of the items, in trail_
        bool accepting, ended;
    };
    std::span<const Item> items() const { return std::span(trail_).subspan(steps_.back().first); }
    void start(std::span<const Item> from);
    bool advance(uint8_t byte);
    bool advance(std::string_view text);
    bool try_token(int32_t token);
    void push_step(bool ended);
    bool next_forced(uint8_t& byte);

    std::shared_ptr<MaskCache> cache_;
    Stacks stacks_;
    std::vector<Item> trail_;
    std::vector<Step> steps_;
    std::vector<Item> now_;  // a step being tried
    bool now_accepting_ = false, overflowed_ = false;
};

}  // namespace tessera::grammar
