#pragma once
// One timeline of tokens in the cache: a page table that grows and is cut back.
#include <cstdint>
#include <span>
#include <vector>

#include "src/kv/page_pool.h"

namespace tessera::kv {

/// Borrows pages from a pool that outlives it. Not thread-safe.
class Sequence {
  public:
    explicit Sequence(PagePool& pool) : pool_(&pool) { pages_.reserve(static_cast<size_t>(pool.n_pages())); }
    ~Sequence() { truncate(0); }
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;

    int64_t n_tok() const { return n_tok_; }
    std::byte* const* pages() const { return pages_.data(); }
    std::span<std::byte*> page_table() { return pages_; }

    /// Begins with pages that hold n_tok tokens already, as one more owner of each. The sequence is empty.
    void adopt(std::span<std::byte* const> pages, int64_t n_tok);
    /// Free pages that reserve(n) takes.
    int64_t pages_for(int64_t n) const;
    /// Room for n more tokens; false, with nothing changed, when the pool has too few pages. A page that the
    /// tokens go to and that has other owners is replaced by a copy.
    bool reserve(int64_t n);
    /// n tokens within the reserved room are now part of the sequence.
    void advance(int64_t n);
    /// Forgets all tokens from position n on and gives their pages back.
    void truncate(int64_t n);

  private:
    bool writes_shared_page() const;

    PagePool* pool_;
    std::vector<std::byte*> pages_;
    int64_t n_tok_ = 0;
};

}  // namespace tessera::kv
