#pragma once
// The state of one output under a grammar.
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
/// There are no dead ends: a token is allowed only if some text after it completes the grammar.
class Matcher {
  public:
    explicit Matcher(std::shared_ptr<MaskCache> cache);

    /// The tokens that may come next, bit `id % 64` of word `id / 64`; `words` has TokenTrie::mask_words()
    /// elements. Tokens that end the generation are included if and only if is_accepting(). Empty after the
    /// end.
    void mask(std::span<uint64_t> words);
    bool allows(int32_t token);

    /// Errors, which change nothing: the token is not allowed (InvalidArgument), or the grammar is so
    /// ambiguous that more than kMaxStacks derivations are alive (Unsupported).
    Result<void> accept(int32_t token);
    /// The same for text of any tokens; accepts all of it or nothing.
    Result<void> accept_bytes(std::string_view text);
    /// Length of the longest prefix of `text` that accept_bytes would accept.
    size_t n_fitting(std::string_view text);

    /// Undoes the last `n` successful calls of accept and accept_bytes; at most n_steps().
    void rollback(size_t n);
    size_t n_steps() const { return steps_.size() - 1; }
    void reset() { rollback(n_steps()); }

    /// Whether the output may end here.
    bool is_accepting() const { return steps_.back().accepting; }
    /// Whether only the end may follow.
    bool is_finished() const;

    /// Bytes that must come next in any output, at most `max_bytes`; they may end inside a character.
    std::string forced_bytes(size_t max_bytes = 4096);

    const MaskCache& cache() const { return *cache_; }

  private:
    struct Step {
        size_t first;  // index of the items in trail_
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
