// The page pool. Pages are handed out lowest address first, so that a short session touches little memory.
#include "src/kv/page_pool.h"

#include <utility>

namespace tessera::kv {

Layout Layout::create(int64_t n_layer, int64_t n_head_kv, int64_t head_dim, Type k_type, Type v_type) {
    Layout layout;
    const auto bytes = [&](Type type) {
        return Arena::padded(static_cast<size_t>(n_head_kv * kKvPage * type_info(type).row_bytes(head_dim)));
    };
    for (int64_t i = 0; i < n_layer; ++i) {
        KvLayer layer{k_type, v_type, layout.page_bytes, 0, n_head_kv, head_dim};
        layer.v_offset = layer.k_offset + bytes(k_type);
        layout.page_bytes = layer.v_offset + bytes(v_type);
        layout.layers.push_back(layer);
    }
    return layout;
}

Result<PagePool> PagePool::create(Layout layout, int64_t n_pages) {
    PagePool pool;
    TSR_TRY(pool.memory_, Buffer::create(static_cast<size_t>(n_pages) * layout.page_bytes, "the KV cache"));
    pool.layout_ = std::move(layout);
    pool.n_pages_ = n_pages;
    pool.free_.reserve(static_cast<size_t>(n_pages));
    pool.owners_.resize(static_cast<size_t>(n_pages));
    for (int64_t i = n_pages; i-- > 0;)
        pool.free_.push_back(pool.memory_.data() + static_cast<size_t>(i) * pool.layout_.page_bytes);
    return pool;
}

std::byte* PagePool::take() {
    if (free_.empty()) return nullptr;
    std::byte* page = free_.back();
    free_.pop_back();
    owners_[index(page)] = 1;
    return page;
}

void PagePool::give_back(std::byte* page) {
    int32_t& owners = owners_[index(page)];
    TSR_CHECK(owners > 0);
    if (--owners == 0) free_.push_back(page);
}

}  // namespace tessera::kv
