#pragma once
// Cache of token masks: the precomputed state of grammars for this vocabulary, kept for later requests with
// the same grammar.
#include <list>
#include <memory>
#include <mutex>

#include "src/grammar/matcher.h"
#include "src/text/tokenizer.h"

namespace tessera::engine {

/// Any thread.
class Constraints {
  public:
    explicit Constraints(std::shared_ptr<const text::Tokenizer> tokenizer)
        : tokenizer_(std::move(tokenizer)) {}

    /// Identifies grammars by address: callers that keep a grammar get the cached masks again. Errors: the
    /// grammar refers to a token that does not exist; a vocabulary beyond the limits.
    Result<std::shared_ptr<grammar::MaskCache>> masks(std::shared_ptr<const grammar::Grammar> grammar);

  private:
    static constexpr size_t kMost = 16;

    std::shared_ptr<const text::Tokenizer> tokenizer_;
    std::mutex mutex_;
    std::shared_ptr<const grammar::TokenTrie> trie_;  // created for the first grammar
    struct Entry {
        std::shared_ptr<const grammar::Grammar> grammar;
        std::shared_ptr<grammar::MaskCache> masks;
    };
    std::list<Entry> entries_;  // most recently used first
};

}  // namespace tessera::engine
