#pragma once
// The grammars that requests are held to, with what has been worked out about them for this vocabulary: kept
// for the next request with the same grammar.
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

    /// Grammars are told apart by their address: who keeps one and asks again is served from what is known.
    /// Errors: a token that the grammar refers to does not exist; a vocabulary beyond the limits.
    Result<std::shared_ptr<grammar::MaskCache>> masks(std::shared_ptr<const grammar::Grammar> grammar);

  private:
    static constexpr size_t kMost = 16;

    std::shared_ptr<const text::Tokenizer> tokenizer_;
    std::mutex mutex_;
    std::shared_ptr<const grammar::TokenTrie> trie_;  // made for the first grammar
    struct Entry {
        std::shared_ptr<const grammar::Grammar> grammar;
        std::shared_ptr<grammar::MaskCache> masks;
    };
    std::list<Entry> entries_;  // the last used first
};

}  // namespace tessera::engine
