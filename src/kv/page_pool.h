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
#include "src/model/layer_spec.h"

namespace tessera::kv {

/// Layout of a page: kKvPage positions of one layer group. All pages have one size, that of the group with
/// the most bytes. Layers with a sliding window and layers with full attention are in different groups, so
/// that groups of windowed layers keep the window only; without windows one group has all layers. Groups are
/// made such that pages have the fewest unused bytes: none if all layers have the same heads.
struct Layout {
    std::vector<KvLayer> layers;          // [n_layer], offsets in a page of the layer's group
    std::vector<int32_t> group_of_layer;  // [n_layer]
    int32_t n_layer_groups = 1;           // groups with full attention come first
    int32_t n_full_groups = 1;            // number of groups with full attention
    int64_t window = 0;                   // most keys that a query attends to in the other groups
    int64_t window_blocks = 0;            // most pages of each windowed group that a sequence holds
    size_t page_bytes = 0;

    /// Keeps all positions of every layer, in one group. Types of kKvTypes.
    static Layout create(std::span<const LayerSpec> layers, Type k_type, Type v_type);
    /// Keeps the window of layers with a window below n_ctx, for passes of at most max_pass tokens.
    static Layout create_windowed(std::span<const LayerSpec> layers, int64_t n_ctx, int64_t max_pass,
                                  Type k_type, Type v_type);

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
