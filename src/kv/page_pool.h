#pragma once
// Memory of the KV cache: pages of kKvPage positions. The pool owns all pages; sequences and the prefix cache
// hold references to them.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/arena.h"
#include "common/expected.h"
#include "ggml-like/backend.h"

namespace tessera::kv {

/// Layout of a page: kKvPage positions of one layer group. Layers with a sliding window and layers with full
/// attention are in different groups, all groups have the same number of layers, and without windows one
/// group has all layers. So all pages have one size, while groups of windowed layers keep the window only.
struct Layout {
    std::vector<KvLayer> layers;          // [n_layer], offsets in a page of the layer's group
    std::vector<int32_t> group_of_layer;  // [n_layer]
    int32_t n_layer_groups = 1;           // groups with full attention come first
    int32_t n_full_groups = 1;            // number of groups with full attention
    int64_t window = 0;                   // most keys that a query attends to in the other groups
    int64_t window_blocks = 0;            // most pages of each windowed group that a sequence holds
    size_t page_bytes = 0;

    /// Full attention in every layer, so one layer group. Types of kKvTypes.
    static Layout create(int64_t n_layer, int64_t n_head_kv, int64_t head_dim, Type k_type, Type v_type);
    /// Layer i attends to windows[i] keys (0: all), in passes of at most max_pass tokens.
    static Layout create(std::span<const int64_t> windows, int64_t max_pass, int64_t n_head_kv,
                         int64_t head_dim, Type k_type, Type v_type);

    int32_t n_window_groups() const { return n_layer_groups - n_full_groups; }
    /// First block (of kKvPage positions) that a windowed group needs for tokens at positions n and above.
    int64_t first_block(int64_t n) const { return std::max<int64_t>(0, n - window + 1) / kKvPage; }
    /// The most pages that one sequence of n_tok tokens holds.
    int64_t pages_of(int64_t n_tok) const;
};

/// Number of blocks of kKvPage positions that hold n tokens.
constexpr int64_t blocks_of(int64_t n) { return (n + kKvPage - 1) / kKvPage; }

/// [n_layer_groups][n_blocks] page of each block from position 0. In windowed groups, null before the window.
using PageTables = std::vector<std::vector<std::byte*>>;

class PagePool {
  public:
    /// n_pages zero-filled pages; address space is reserved at once, memory is touched on use. Errors: out of
    /// memory.
    static Result<PagePool> create(Layout layout, int64_t n_pages);

    const Layout& layout() const { return layout_; }
    int64_t n_pages() const { return n_pages_; }
    int64_t n_free() const { return static_cast<int64_t>(free_.size()); }

    /// Allocates a page with one owner; null if none is free. Its content is finite floats (zeros or those of
    /// an earlier owner).
    std::byte* take();
    /// Adds or removes an owner; a page without owners is free. Owners must not write to a shared page.
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
