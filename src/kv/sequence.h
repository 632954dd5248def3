#pragma once
// One timeline of tokens in the cache: page tables that grow and are cut back.
#include <cstdint>
#include <span>
#include <vector>

#include "src/kv/page_pool.h"

namespace tessera::kv {

/// Borrows pages from a pool that outlives it. Not thread-safe.
class Sequence {
  public:
    explicit Sequence(PagePool& pool);
    ~Sequence() { truncate(0); }
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;

    int64_t n_tok() const { return n_tok_; }
    /// Page of each block in a layer group; null behind the window.
    std::byte* const* pages(int32_t group = 0) const { return tables_[static_cast<size_t>(group)].data(); }
    PageTables& page_tables() { return tables_; }

    /// Begins with pages that hold n_tok tokens already, as one more owner of each. The sequence is empty.
    void share_prefix(const PageTables& pages, int64_t n_tok);
    /// The page that the next token goes to, in the first layer group; null where it begins a new one.
    const std::byte* open_page() const {
        const auto at = static_cast<size_t>(n_tok_ / kKvPage);
        return at < tables_.front().size() ? tables_.front()[at] : nullptr;
    }
    /// Free pages that n more tokens take, in passes after each of which evict_out_of_window() is called.
    int64_t pages_for(int64_t n) const;
    /// Room for n more tokens; false, with nothing changed, when the pool has too few pages. A page that the
    /// tokens go to and that has other owners is replaced by a copy.
    bool reserve(int64_t n);
    /// n tokens within the reserved room are now part of the sequence.
    void advance(int64_t n);
    /// Gives back the pages of windowed layer groups that no later token sees.
    void evict_out_of_window();
    /// Forgets all tokens from position n on and gives their pages back; all tokens, where the window before
    /// n is forgotten already.
    void truncate(int64_t n);

  private:
    int64_t n_blocks() const { return static_cast<int64_t>(tables_.front().size()); }
    int64_t n_shared_pages() const;

    PagePool* pool_;
    PageTables tables_;
    int64_t n_tok_ = 0;
    int64_t first_held_ = 0;  // block, in windowed layer groups
};

}  // namespace tessera::kv
