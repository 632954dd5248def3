#pragma once
// Memory of the KV cache: pages of kKvPage positions, each holding keys and values of every layer. The pool
// owns all pages; a Sequence borrows them and gives them back.
#include <cstdint>
#include <vector>

#include "common/arena.h"
#include "common/expected.h"
#include "ggml-like/backend.h"

namespace tessera::kv {

/// What one position stores, layer by layer.
struct Layout {
    std::vector<KvLayer> layers;
    size_t page_bytes = 0;

    /// The same heads in every layer. Types as KvLayer has them.
    static Layout create(int64_t n_layer, int64_t n_head_kv, int64_t head_dim, Type k_type, Type v_type);
};

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
    void give_back(std::byte* page);
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
