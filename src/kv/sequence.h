#pragma once
// One sequence of tokens in the KV cache: page tables that grow and are truncated.
#include <cstdint>
#include <span>
#include <vector>

#include "src/kv/page_pool.h"

namespace tessera::kv {

/// Holds references to pages of a pool, which must outlive it. Not thread-safe.
class Sequence {
  public:
    explicit Sequence(PagePool& pool);
    ~Sequence() { truncate(0); }
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;

    int64_t n_tok() const { return n_tok_; }
    /// [n_blocks] pages of a layer group; null before the window.
    std::byte* const* pages(int32_t group = 0) const { return tables_[static_cast<size_t>(group)].data(); }
    PageTables& page_tables() { return tables_; }

    /// Starts an empty sequence with pages that hold its first n_tok tokens already; becomes another owner of
    /// each page.
    void share_prefix(const PageTables& pages, int64_t n_tok);
    /// The page that the next token is written to, in the first layer group; null if it begins a new page.
    const std::byte* open_page() const {
        const auto at = static_cast<size_t>(n_tok_ / kKvPage);
        return at < tables_.front().size() ? tables_.front()[at] : nullptr;
    }
    /// Free pages needed for n more tokens, if evict_out_of_window() is called after each pass.
    int64_t pages_for(int64_t n) const;
    /// Allocates pages for n more tokens; false, with nothing changed, if the pool has too few free pages. A
    /// page that the tokens are written to is replaced by a copy if it has other owners.
    bool reserve(int64_t n);
    /// Appends n tokens that were computed in the reserved pages.
    void advance(int64_t n);
    /// Releases the pages of windowed groups that no later token attends to.
    void evict_out_of_window();
    /// Removes all tokens at positions n and above and releases their pages; removes all tokens if the window
    /// before n has been evicted.
    void truncate(int64_t n);

  private:
    int64_t n_blocks() const { return static_cast<int64_t>(tables_.front().size()); }
    int64_t n_shared_pages() const;

    PagePool* pool_;
    PageTables tables_;
    int64_t n_tok_ = 0;
    int64_t first_held_ = 0;  // first block with pages in windowed groups
};

}  // namespace tessera::kv
