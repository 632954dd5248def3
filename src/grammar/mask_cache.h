#pragma once
// Computes token masks for one grammar and one vocabulary, and caches intermediate results.
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/grammar/grammar.h"
#include "src/grammar/stacks.h"
#include "src/grammar/token_trie.h"

namespace tessera::grammar {

/// Shared by all matchers of the same grammar and vocabulary; thread-safe (one mask is computed at a time).
///
/// The upper part of a stack, down to the first call, decides most tokens. Its result is cached and valid for
/// all callers of the rule. Tokens that extend beyond the end of that rule are cached as trie nodes
/// ("exits"), from which the caller's part of the stack continues, again through the cache.
class MaskCache {
  public:
    /// Errors: the grammar refers to a token that the vocabulary does not have.
    static Result<std::shared_ptr<MaskCache>> create(std::shared_ptr<const Grammar> grammar,
                                                     std::shared_ptr<const TokenTrie> trie);

    const Grammar& grammar() const { return *grammar_; }
    const TokenTrie& trie() const { return *trie_; }

    /// Whether token reference `ref` of the automaton means token `id`.
    bool matches(uint32_t ref, int32_t id) const;

    /// Sets the bits of the tokens that may come next and clears all others. `items` refer to `stacks`, to
    /// which nodes are added. `words` has TokenTrie::mask_words() elements.
    void mask(Stacks& stacks, std::span<const Item> items, bool accepting, std::span<uint64_t> words);

    /// Approximate number of bytes held.
    size_t memory() const {
        const std::lock_guard lock(mutex_);
        return held();
    }

  private:
    MaskCache(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie);

    // A set of items on partial stacks, whose bottom stands for any caller. Id 0 is the empty set without
    // exit.
    struct Config {
        uint32_t first, n;
        bool exited;
    };
    struct Walk {
        std::vector<uint64_t> bits;   // either the words of the mask,
        std::vector<int32_t> tokens;  // or the ids, if there are few
        uint32_t exits = 0;           // a node set; 0: none
    };
    // Node sets: 0 is empty, 1 holds the root.
    static constexpr uint32_t kRootSet = 1;
    // Config 0 at the start of a walk: the rule has ended, so only tokens that end at a node of the set
    // match.
    static constexpr uint32_t kEnded = 0;

    void clear();
    size_t held() const;
    void apply(Stacks& stacks, std::span<const Item> items, uint32_t node_set, std::span<uint64_t> words,
               size_t depth);
    void leave(Stacks& stacks, uint32_t cut, uint32_t exits, std::span<uint64_t> words, size_t depth);
    uint32_t relative_node(const Stacks& stacks, uint32_t node);
    uint32_t intern_config(std::span<const Item> items, bool exited);
    uint32_t intern_set(const std::vector<uint32_t>& nodes);
    uint32_t step(uint32_t config, uint8_t byte);
    const Walk& walk(uint32_t config, uint32_t node_set);
    static void add_bits(const Walk& walk, std::span<uint64_t> words);
    bool walk_from(uint32_t config, uint32_t node_set, uint32_t max_depth, std::vector<uint32_t>& exits);
    bool walk_below(uint32_t config, uint32_t node, uint32_t max_depth, std::vector<uint32_t>& exits);
    void add_whole_tokens(uint32_t config);
    void add_free_specials(std::span<const Item> items);
    std::span<const Item> items_of(uint32_t config) const {
        return std::span(config_items_).subspan(configs_[config].first, configs_[config].n);
    }

    std::shared_ptr<const Grammar> grammar_;
    std::shared_ptr<const TokenTrie> trie_;
    std::vector<std::vector<int32_t>> token_refs_;  // ids that each reference matches, ascending
    size_t n_words_;

    mutable std::mutex mutex_;
    Stacks stacks_;  // stacks of the configs
    std::vector<Config> configs_;
    std::vector<Item> config_items_;
    std::unordered_multimap<uint64_t, uint32_t> config_ids_;
    std::vector<uint32_t> transitions_;  // [config][byte class]
    std::vector<std::vector<uint32_t>> node_sets_;
    std::unordered_multimap<uint64_t, uint32_t> set_ids_;
    std::unordered_map<uint64_t, Walk> walks_;
    size_t walk_memory_ = 0;
    // Scratch.
    struct Level {
        std::vector<Item> items;
        std::vector<std::pair<uint32_t, Item>> by_cut;
        std::vector<Item> relative;
    };
    std::deque<Level> levels_;
    std::vector<uint32_t> path_;
    std::vector<int32_t> found_;
    size_t work_ = 0;  // items visited in the current walk
};

}  // namespace tessera::grammar
