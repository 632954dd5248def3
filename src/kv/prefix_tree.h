#pragma once
// Texts whose keys and values are in the cache, shared by all sequences: a tree of pages in which a path from
// the root spells the tokens. What no sequence uses goes when room is needed, the longest unused first.
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
        std::vector<std::byte*> pages;  // the last one may be known in part
        int64_t n_tok = 0;
    };
    /// The longest beginning of `tokens` that is known. The pages stay the tree's until the caller shares
    /// them (Sequence::adopt) or the tree is changed.
    Match match(std::span<const int32_t> tokens);

    /// Makes known that pages[i] holds tokens 64 i and on, for all of `tokens`. Where the tree has a whole
    /// page of the same tokens already (the same bits, then), pages[i] is replaced by it.
    void insert(std::span<const int32_t> tokens, std::span<std::byte*> pages);

    /// Drops what no one else owns until the pool has n free pages; false when it cannot.
    bool make_room(int64_t n);
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
    Node* add(Node& parent, std::span<const int32_t> tokens, std::byte* page);
    void remove(Node* leaf);
    void touch(Node* node);

    PagePool* pool_;
    std::unique_ptr<Node> root_;
    std::set<Node*, ByUse> leaves_;  // the longest unused first
    uint64_t clock_ = 0;
    int64_t n_pages_ = 0;
};

}  // namespace tessera::kv
