#pragma once
// The prefix cache: keys and values of earlier texts, shared by all sequences. It is a tree of blocks; a path
// from the root spells the tokens. When pages run short, unused texts are evicted in LRU order. Pages of
// windowed layers in the middle of a text are evicted first: a later request needs the window only before the
// end of the text, before each end of a prompt and before each branch of the tree. The same holds for the
// states of recurrent layers, which the tree keeps at the checkpoints of sequences.
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "src/kv/page_pool.h"
#include "src/kv/state_pool.h"

namespace tessera::kv {

/// Owns a reference to each of its pages and slots of state. The pools must outlive it. Not thread-safe.
class PrefixTree {
  public:
    /// `states` is null if the model has no recurrent layers.
    explicit PrefixTree(PagePool& pool, StatePool* states = nullptr);
    ~PrefixTree();
    PrefixTree(const PrefixTree&) = delete;
    PrefixTree& operator=(const PrefixTree&) = delete;

    struct Match {
        PageTables pages;  // the last block may match in part
        int64_t n_tok = 0;
        float* state = nullptr;  // after these tokens; null without recurrent layers or tokens
    };
    /// The longest cached prefix of `tokens` that a sequence can continue. They remain valid until the tree
    /// changes; Sequence::share_prefix() takes references of its own.
    Match match(std::span<const int32_t> tokens);

    /// Publishes `tokens`: block i of `pages` holds the tokens from kKvPage * i. Where the tree has a full
    /// page of the same tokens already, with the same bits, the page in `pages` is replaced by it.
    /// `is_prompt`: later requests are likely to continue from the end of these tokens, or from the last full
    /// block before it. The states of the checkpoints in these tokens are published with them, and replaced
    /// in the same way.
    void insert(std::span<const int32_t> tokens, PageTables& pages, bool is_prompt = false,
                std::span<Checkpoint> checkpoints = {});

    /// Evicts pages and states without other owners until the pools have n_pages free pages and n_slots free
    /// slots; false if it cannot.
    bool evict(int64_t n_pages, int64_t n_slots = 0);
    /// Evicts the leaf whose page in the first layer group is `page`, so that a sequence that continues there
    /// needs no copy; false if there is none.
    bool evict_leaf(const std::byte* page);
    /// Evicts everything.
    void clear();

    int64_t n_pages() const { return n_pages_; }
    int64_t n_states() const { return n_states_; }

  private:
    struct Node;
    enum class Spare : uint8_t { Nothing, Resumable };
    struct ByUse {
        bool operator()(const Node* a, const Node* b) const;
    };
    struct Place {
        Node* child = nullptr;
        size_t n_common = 0;
    };

    static Place best_child(const Node& node, std::span<const int32_t> tokens);
    std::span<std::byte*> window_pages(Node& node) const;
    static Checkpoint last_state(std::span<Node* const> path, int64_t n_tok);
    int64_t usable(std::span<Node* const> path, int64_t n_tok) const;
    Node* add(Node& parent, std::span<const int32_t> tokens, const PageTables& pages, size_t block);
    void merge_pages(Node& node, PageTables& pages, size_t block);
    void merge_states(Node& node, std::span<Checkpoint> given, int64_t first, int64_t last);
    void release(std::byte*& page);
    void release_states(Node& node);
    bool has_free(int64_t n_pages, int64_t n_slots) const;
    bool in_use(const Node& node) const;
    void evict_windows(Node* leaf, int64_t n);
    void evict_states(Node* leaf, int64_t n, Spare spare);
    void remove(Node* leaf);
    void touch(Node* node);

    PagePool* pool_;
    StatePool* states_;
    std::unique_ptr<Node> root_;
    std::set<Node*, ByUse> leaves_;  // least recently used first
    uint64_t clock_ = 0;
    int64_t n_pages_ = 0, n_states_ = 0;
};

}  // namespace tessera::kv
