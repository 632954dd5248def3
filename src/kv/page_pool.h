#pragma once
// Memory of the KV cache: pages of kKvPage positions. The pool owns all pages; a Sequence borrows them and
// gives them back.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/arena.h"
#include "common/expected.h"
#include "ggml-like/backend.h"

namespace tessera::kv {

/// What a page stores. A page is kKvPage positions of one layer group, and a layer group is some of the
/// layers: all of them, or where some see a window of the keys alone, equally many of either kind. So all
/// pages have one size while the layer groups of windowed layers keep no more than the window.
struct Layout {
    std::vector<KvLayer> layers;          // [n_layer], offsets in a page of its layer group
    std::vector<int32_t> group_of_layer;  // [n_layer]
    int32_t n_layer_groups = 1;           // those that keep everything come first
    int32_t n_full_groups = 1;            // so many of them
    int64_t window = 0;                   // keys that a query sees at most in the other layer groups
    int64_t window_blocks = 0;            // pages of each of those layer groups that a sequence holds at most
    size_t page_bytes = 0;

    /// The same heads in every layer, and one layer group. Types as KvLayer has them.
    static Layout create(int64_t n_layer, int64_t n_head_kv, int64_t head_dim, Type k_type, Type v_type);
    /// The same where layer i sees windows[i] keys (0: all), for passes of at most max_pass tokens.
    static Layout create(std::span<const int64_t> windows, int64_t max_pass, int64_t n_head_kv,
                         int64_t head_dim, Type k_type, Type v_type);

    int32_t n_window_groups() const { return n_layer_groups - n_full_groups; }
    /// First block (of kKvPage positions) that a windowed layer group needs for tokens from position n on.
    int64_t first_block(int64_t n) const { return std::max<int64_t>(0, n - window + 1) / kKvPage; }
    /// Pages that one sequence of n_tok tokens takes at most.
    int64_t pages_of(int64_t n_tok) const;
};

/// Blocks of kKvPage positions that n tokens lie in.
constexpr int64_t blocks_of(int64_t n) { return (n + kKvPage - 1) / kKvPage; }

/// Of each layer group the page of each block, from position 0 on. Windowed layer groups have null behind
/// their window.
using PageTables = std::vector<std::vector<std::byte*>>;

class PagePool {
  public:
    /// n_pages zero-filled pages, reserved at once and touched only as they are used.
    static Result<PagePool> create(Layout layout, int64_t n_pages);

    const Layout& layout() const { return layout_; }
    int64_t n_pages() const { return n_pages_; }
    int64_t n_free() const { return static_cast<int64_t>(free_.size()); }

    /// A free page with one owner, or null when all are taken. Its content is finite floats (zeros or an
    /// earlier owner's).
    std::byte* take();
    /// One owner more, or one less; without owners a page is free. Owners of a shared page only read it.
    void share(std::byte* page) { ++owners_[index(page)]; }
    void release(std::byte* page);
    int32_t n_owners(const std::byte* page) const { return owners_[index(page)]; }

  private:
    size_t index(const std::byte* page) const {
        return static_cast<size_t>(page - memory_.data()) / layout_.page_bytes;
    }

    Layout layout_;
    Buffer memory_;
    int64_t n_pages_ = 0;
    std::vector<std::byte*> free_;
    std::vector<int32_t> owners_;  // [n_pages]
};

}  // namespace tessera::kv
