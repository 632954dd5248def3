// The page pool. The free page with the lowest address is allocated first, so that a short session touches
// little memory.
#include "src/kv/page_pool.h"

#include <numeric>
#include <utility>

namespace tessera::kv {

Layout Layout::create(int64_t n_layer, int64_t n_head_kv, int64_t head_dim, Type k_type, Type v_type) {
    const std::vector<int64_t> windows(static_cast<size_t>(n_layer));
    return create(windows, 1, n_head_kv, head_dim, k_type, v_type);
}

Layout Layout::create(std::span<const int64_t> windows, int64_t max_pass, int64_t n_head_kv, int64_t head_dim,
                      Type k_type, Type v_type) {
    const auto bytes = [&](Type type) {
        return Arena::padded(static_cast<size_t>(n_head_kv * kKvPage * type_info(type).row_bytes(head_dim)));
    };
    const auto n_layer = static_cast<int64_t>(windows.size());
    const int64_t n_whole = std::count(windows.begin(), windows.end(), 0);
    const int64_t layers_per_group = std::gcd(n_whole, n_layer - n_whole);
    Layout layout;
    layout.n_layer_groups = static_cast<int32_t>(n_layer / layers_per_group);
    layout.n_full_groups = static_cast<int32_t>(n_whole / layers_per_group);
    int64_t next[] = {0, n_whole};  // index of the next layer without and with a window
    for (const int64_t window : windows) {
        const int64_t at = next[window > 0]++;
        const auto slot = static_cast<size_t>(at % layers_per_group);
        KvLayer layer{k_type, v_type, slot * (bytes(k_type) + bytes(v_type)), 0, n_head_kv, head_dim};
        layer.v_offset = layer.k_offset + bytes(k_type);
        layout.layers.push_back(layer);
        layout.group_of_layer.push_back(static_cast<int32_t>(at / layers_per_group));
        layout.window = std::max(layout.window, window);
    }
    layout.page_bytes = static_cast<size_t>(layers_per_group) * (bytes(k_type) + bytes(v_type));
    // The window and the tokens of a pass may begin anywhere in a block; one more block is slack for short
    // rollbacks.
    if (layout.window > 0) layout.window_blocks = blocks_of(layout.window + max_pass) + 2;
    return layout;
}

int64_t Layout::pages_of(int64_t n_tok) const {
    const int64_t n_blocks = blocks_of(n_tok);
    return n_full_groups * n_blocks + n_window_groups() * std::min(n_blocks, window_blocks);
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

void PagePool::release(std::byte* page) {
    int32_t& owners = owners_[index(page)];
    TSR_CHECK(owners > 0);
    if (--owners == 0) free_.push_back(page);
}

}  // namespace tessera::kv
