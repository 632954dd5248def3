// The page pool. The free page with the lowest address is allocated first, so that a short session touches
// little memory.
#include "src/kv/page_pool.h"

#include <utility>

namespace tessera::kv {

namespace {

/// Bytes of a layer's keys or values in a page.
size_t plane_bytes(int64_t n_head_kv, int64_t dim, Type type) {
    return Arena::padded(static_cast<size_t>(n_head_kv * kKvPage * type_info(type).row_bytes(dim)));
}

/// Layers of one kind that are to be grouped: all with a window, or all without.
struct LayerClass {
    std::vector<size_t> bytes = {};  // [n_layer] of each layer in a page

    /// Calls fn(layer, group, offset) for the layers in order, each in the first group if it fits there
    /// behind the layer before it, else in the next one. Returns the number of groups.
    template <class Fn>
    int32_t each_place(size_t page_bytes, Fn&& fn) const {
        int32_t n_groups = 0;
        size_t used = page_bytes;
        for (size_t i = 0; i < bytes.size(); ++i) {
            if (n_groups == 0 || used + bytes[i] > page_bytes) {
                ++n_groups;
                used = 0;
            }
            fn(i, n_groups - 1, used);
            used += bytes[i];
        }
        return n_groups;
    }
    int32_t n_groups(size_t page_bytes) const {
        return each_place(page_bytes, [](size_t, int32_t, size_t) {});
    }
};

/// The size of a page with the fewest unused bytes, and of several the largest, which has the fewest groups.
/// Candidates are the sums of a class's first layers that are no smaller than any layer.
size_t choose_page_bytes(const LayerClass& full, const LayerClass& windowed) {
    size_t largest = 0, best = 0, least = SIZE_MAX;
    for (const LayerClass* layers : {&full, &windowed})
        for (const size_t n : layers->bytes) largest = std::max(largest, n);
    for (const LayerClass* layers : {&full, &windowed}) {
        size_t page = 0;
        for (const size_t n : layers->bytes) {
            page += n;
            if (page < largest) continue;
            const auto n_groups = static_cast<size_t>(full.n_groups(page) + windowed.n_groups(page));
            if (n_groups * page < least || (n_groups * page == least && page > best)) {
                least = n_groups * page;
                best = page;
            }
        }
    }
    return best;
}

}  // namespace

Layout Layout::create(std::span<const LayerSpec> layers, Type k_type, Type v_type) {
    return create_windowed(layers, 1, 1, k_type, v_type);
}

Layout Layout::create_windowed(std::span<const LayerSpec> layers, int64_t n_ctx, int64_t max_pass,
                               Type k_type, Type v_type) {
    Layout layout;
    LayerClass classes[2];             // without and with a window
    std::vector<size_t> layers_of[2];  // of the model
    for (size_t i = 0; i < layers.size(); ++i) {
        const LayerSpec& layer = layers[i];
        const bool has_window = layer.window > 0 && layer.window < n_ctx;
        const size_t k_bytes = plane_bytes(layer.n_head_kv, layer.k_dim, k_type);
        classes[has_window].bytes.push_back(k_bytes + plane_bytes(layer.n_head_kv, layer.v_dim, v_type));
        layers_of[has_window].push_back(i);
        layout.layers.push_back({k_type, v_type, 0, k_bytes, layer.n_head_kv, layer.k_dim, layer.v_dim});
        if (has_window) layout.window = std::max(layout.window, layer.window);
    }
    layout.page_bytes = choose_page_bytes(classes[0], classes[1]);
    layout.group_of_layer.resize(layers.size());
    layout.n_layer_groups = 0;
    for (const size_t c : {0, 1}) {
        layout.n_layer_groups += classes[c].each_place(
            layout.page_bytes, [&, first = layout.n_layer_groups](size_t at, int32_t group, size_t offset) {
                const size_t layer = layers_of[c][at];
                layout.group_of_layer[layer] = first + group;
                layout.layers[layer].k_offset += offset;
                layout.layers[layer].v_offset += offset;
            });
        if (c == 0) layout.n_full_groups = layout.n_layer_groups;
    }
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
