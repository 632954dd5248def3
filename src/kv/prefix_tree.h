#pragma once
// Texts whose keys and values are in the cache, shared by all sequences: a tree of blocks in which a path
// from the root spells the tokens. What no sequence uses goes when room is needed, the longest unused text
// first; of a text first what windowed layers see from its middle only: the window before its end, before
// each end of a prompt and before each place where texts part is enough to go on from there.
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "src/kv/page_pool.h"

namespace tessera::kv {

/// Is an owner of the pages in it. The pool outlives it. Not thread-safe.
class PrefixTree {
  public:
    explicit PrefixTree(PagePool& pool);
    ~PrefixTree();
    PrefixTree(const PrefixTree&) = delete;
    PrefixTree& operator=(const PrefixTree&) = delete;

    struct Match {
        PageTables pages;  // the last block may be known in part
        int64_t n_tok = 0;
    };
    /// The longest beginning of `tokens` that one can go on from. The pages stay the tree's until the caller
    /// shares them (Sequence::share_prefix) or the tree is changed.
    Match match(std::span<const int32_t> tokens);

    /// Makes known that block i of `pages` holds tokens 64 i and on, for all of `tokens`. Where the tree has
    /// a whole page of the same tokens already (the same bits, then), the page is replaced by it.
    /// `is_prompt`: others will want to go on from the end of these tokens, or from the last whole block
    /// before it.
    void insert(std::span<const int32_t> tokens, PageTables& pages, bool is_prompt = false);

    /// Drops what no one else owns until the pool has n free pages; false when it cannot.
    bool evict(int64_t n);
    /// Drops the end of a text whose first page is `page`, so that who writes on there needs no copy; false
    /// where there is none.
    bool evict_leaf(const std::byte* page);
    /// Drops everything.
    void clear();

    int64_t n_pages() const { return n_pages_; }

  private:
    struct Node;
    struct ByUse {
        bool operator()(const Node* a, const Node* b) const;
    };
    struct Place {
        Node* child = nullptr;
        size_t n_common = 0;
    };

    static Place best_child(const Node& node, std::span<const int32_t> tokens);
    std::span<std::byte*> window_pages(Node& node) const;
    int64_t usable(std::span<Node* const> path, int64_t n_tok) const;
    Node* add(Node& parent, std::span<const int32_t> tokens, const PageTables& pages, size_t block);
    void unite(Node& node, PageTables& pages, size_t block);
    void release(std::byte*& page);
    bool in_use(const Node& node) const;
    void drop_windows(Node* leaf, int64_t n);
    void remove(Node* leaf);
    void touch(Node* node);

    PagePool* pool_;
    std::unique_ptr<Node> root_;
    std::set<Node*, ByUse> leaves_;  // the longest unused first
    uint64_t clock_ = 0;
    int64_t n_pages_ = 0;
};

}  // namespace tessera::kv
