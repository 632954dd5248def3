// The prefix tree against a list of all texts ever inserted: a cached prefix holds the right tokens, no page
// is lost or freed twice, and pages in use are kept.
#include "src/kv/prefix_tree.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "src/kv/sequence.h"
#include "tests/kv/support.h"

namespace tessera::kv {
namespace {

/// One layer of one head of 16 floats. The test stores the tokens themselves in its pages.
PagePool pool_of(int64_t n_pages) {
    return std::move(
        *PagePool::create(Layout::create(layers_of(std::array{int64_t{0}}), Type::F32, Type::F32), n_pages));
}

/// Two layers with full attention and four with a window of 150 keys: three layer groups, one of them without
/// a window.
constexpr int64_t kWindows[] = {150, 0, 150, 150, 0, 150};
constexpr int64_t kPass = 70;  // tokens
Layout windowed_layout() {
    return Layout::create_windowed(layers_of(kWindows), 1 << 20, kPass, Type::F32, Type::F32);
}
PagePool windowed_pool_of(int64_t n_pages) {
    return std::move(*PagePool::create(windowed_layout(), n_pages));
}

/// Writes "keys" for the tokens from the end of the sequence on, in every layer group.
bool extend(Sequence& sequence, std::span<const int32_t> text, int32_t n_layer_groups = 1) {
    const int64_t start = sequence.n_tok();
    const auto n = static_cast<int64_t>(text.size()) - start;
    if (!sequence.reserve(n)) return false;
    for (int32_t group = 0; group < n_layer_groups; ++group)
        for (int64_t at = start; at < start + n; ++at)
            std::memcpy(sequence.pages(group)[at / kKvPage] + at % kKvPage * 4,
                        &text[static_cast<size_t>(at)], 4);
    sequence.advance(n);
    return true;
}

/// Whether the keys from `first` on are those of the text.
bool holds(const Sequence& sequence, std::span<const int32_t> text, int32_t group = 0, int64_t first = 0) {
    for (int64_t at = first; at < sequence.n_tok(); ++at)
        if (std::memcmp(sequence.pages(group)[at / kKvPage] + at % kKvPage * 4,
                        &text[static_cast<size_t>(at)], 4))
            return false;
    return true;
}

TEST(PrefixTree, finds_the_longest_prefix) {
    PagePool pool = pool_of(16);
    PrefixTree tree(pool);
    const std::vector<int32_t> text = text_of(1, 200);
    {
        Sequence sequence(pool);
        ASSERT_TRUE(extend(sequence, text));
        tree.insert(text, sequence.page_tables());
    }
    EXPECT_EQ(tree.n_pages(), 4);
    EXPECT_EQ(pool.n_free(), 12);
    for (const size_t n : {1u, 63u, 64u, 65u, 128u, 199u, 200u}) {
        std::vector<int32_t> other(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
        other.push_back(99);
        const auto match = tree.match(other);
        EXPECT_EQ(match.n_tok, static_cast<int64_t>(n));
        EXPECT_EQ(match.pages[0].size(), (n + 63) / 64);
    }
    EXPECT_EQ(tree.match(std::vector<int32_t>{99}).n_tok, 0);
    tree.clear();
    EXPECT_EQ(pool.n_free(), 16);
}

TEST(PrefixTree, a_longer_tail_replaces_a_shorter_one) {
    PagePool pool = pool_of(8);
    PrefixTree tree(pool);
    const std::vector<int32_t> text = text_of(2, 100);
    Sequence sequence(pool);
    for (const size_t n : {70u, 80u, 75u, 100u}) {
        const std::span part = std::span(text).first(n);
        if (static_cast<int64_t>(n) > sequence.n_tok()) {
            ASSERT_TRUE(extend(sequence, part));
        }
        tree.insert(part, sequence.page_tables());
        EXPECT_EQ(tree.n_pages(), 2) << n;
    }
    EXPECT_EQ(tree.match(text).n_tok, 100);
}

TEST(PrefixTree, equal_pages_are_kept_once) {
    PagePool pool = pool_of(8);
    PrefixTree tree(pool);
    const std::vector<int32_t> text = text_of(3, 128);
    Sequence one(pool), two(pool);
    ASSERT_TRUE(extend(one, text));
    ASSERT_TRUE(extend(two, text));
    EXPECT_EQ(pool.n_free(), 4);
    tree.insert(text, one.page_tables());
    tree.insert(text, two.page_tables());
    EXPECT_EQ(pool.n_free(), 6);
    EXPECT_EQ(one.pages()[1], two.pages()[1]);
}

TEST(PrefixTree, writing_into_a_shared_page_copies_it) {
    PagePool pool = pool_of(8);
    PrefixTree tree(pool);
    const std::vector<int32_t> first = text_of(4, 100), second = [&] {
        auto text = first;
        text.resize(90);
        text.resize(120, 77);
        return text;
    }();
    Sequence one(pool);
    ASSERT_TRUE(extend(one, first));
    tree.insert(first, one.page_tables());
    Sequence two(pool);
    const auto match = tree.match(second);
    two.share_prefix(match.pages, match.n_tok);
    EXPECT_EQ(two.n_tok(), 90);
    EXPECT_EQ(two.pages_for(30), 1);
    ASSERT_TRUE(extend(two, second));
    EXPECT_TRUE(holds(one, first));
    EXPECT_TRUE(holds(two, second));
}

TEST(PrefixTree, pages_in_use_are_not_evicted) {
    PagePool pool = pool_of(4);
    PrefixTree tree(pool);
    const std::vector<int32_t> text = text_of(5, 128), other = text_of(6, 128);
    Sequence used(pool);
    ASSERT_TRUE(extend(used, text));
    tree.insert(text, used.page_tables());
    {
        Sequence gone(pool);
        ASSERT_TRUE(extend(gone, other));
        tree.insert(other, gone.page_tables());
    }
    EXPECT_EQ(pool.n_free(), 0);
    EXPECT_TRUE(tree.evict(2));
    EXPECT_EQ(tree.match(other).n_tok, 0);
    EXPECT_EQ(tree.match(text).n_tok, 128);
    EXPECT_FALSE(tree.evict(3));
    EXPECT_TRUE(holds(used, text));
}

TEST(PrefixTree, the_least_recently_used_is_evicted_first) {
    PagePool pool = pool_of(3);
    PrefixTree tree(pool);
    for (const uint64_t seed : {10u, 11u, 12u}) {
        Sequence sequence(pool);
        const auto text = text_of(seed, 64);
        ASSERT_TRUE(extend(sequence, text));
        tree.insert(text, sequence.page_tables());
    }
    tree.match(text_of(10, 64));
    EXPECT_TRUE(tree.evict(1));
    EXPECT_EQ(tree.match(text_of(11, 64)).n_tok < 64, true);
    EXPECT_EQ(tree.match(text_of(10, 64)).n_tok, 64);
    EXPECT_EQ(tree.match(text_of(12, 64)).n_tok, 64);
}

TEST(PrefixTree, random_operations) {
    PagePool pool = pool_of(40);
    PrefixTree tree(pool);
    Rng rng(7);
    std::vector<std::unique_ptr<Sequence>> live;
    std::vector<std::vector<int32_t>> texts;
    for (int round = 0; round < 4000; ++round) {
        const uint64_t choice = rng.next_u64() % 4;
        if (choice < 2 && live.size() < 6) {
            // Few seeds and many lengths, so that prefixes are often shared.
            std::vector<int32_t> text = text_of(rng.next_u64() % 4, 1 + rng.next_u64() % 300);
            text.resize(text.size() + rng.next_u64() % 40, static_cast<int32_t>(rng.next_u64() % 9));
            auto sequence = std::make_unique<Sequence>(pool);
            const auto match = tree.match(text);
            sequence->share_prefix(match.pages, match.n_tok);
            ASSERT_TRUE(holds(*sequence, text));
            const auto n_left = static_cast<int64_t>(text.size()) - sequence->n_tok();
            if (!tree.evict(sequence->pages_for(n_left))) continue;
            ASSERT_TRUE(extend(*sequence, text));
            live.push_back(std::move(sequence));
            texts.push_back(std::move(text));
        } else if (!live.empty()) {
            const size_t i = rng.next_u64() % live.size();
            if (choice == 2) tree.insert(texts[i], live[i]->page_tables());
            ASSERT_TRUE(holds(*live[i], texts[i]));
            if (choice == 2) continue;
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
            texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    live.clear();
    EXPECT_EQ(pool.n_free() + tree.n_pages(), 40);
    EXPECT_TRUE(tree.evict(40));
    EXPECT_EQ(tree.n_pages(), 0);
}

TEST(Windows, layers_are_grouped_into_planes_of_one_size) {
    const Layout plain = Layout::create(layers_of(kWindows), Type::F32, Type::F32);
    EXPECT_EQ(plain.n_layer_groups, 1);
    EXPECT_EQ(plain.pages_of(1000), 16);
    const Layout layout = windowed_layout();
    EXPECT_EQ(layout.n_layer_groups, 3);
    EXPECT_EQ(layout.n_full_groups, 1);
    EXPECT_EQ(layout.page_bytes * 3, plain.page_bytes);
    EXPECT_EQ(layout.group_of_layer, (std::vector<int32_t>{1, 0, 1, 2, 0, 2}));
    EXPECT_EQ(layout.layers[3].k_offset, 0u);
    EXPECT_EQ(layout.layers[5].k_offset, layout.page_bytes / 2);
    // 150 + 70 keys lie in 4 blocks, or 5 if they begin within one; one more is kept for a sequence that is
    // truncated.
    EXPECT_EQ(layout.pages_of(6400), 100 + 2 * 6);
    EXPECT_EQ(layout.pages_of(128), 3 * 2);
    const int64_t all[] = {9, 9};
    EXPECT_EQ(Layout::create_windowed(layers_of(all), 10, 1, Type::F32, Type::F32).n_layer_groups, 1);
    // A window that no context of this size leaves is none.
    EXPECT_EQ(Layout::create_windowed(layers_of(kWindows), 150, kPass, Type::F32, Type::F32).n_layer_groups,
              1);
}

/// Bytes of a layer of n heads of 16 floats in a page.
size_t bytes_of(int64_t n_head_kv) { return static_cast<size_t>(2 * n_head_kv * 16 * kKvPage * 4); }

/// Layers of different sizes: keys and values of a group do not overlap, and pages have few unused bytes.
TEST(Layouts, LayersOfDifferentSizes) {
    // Without windows one group has all layers, whatever their sizes.
    std::vector<LayerSpec> layers = layers_of(std::array<int64_t, 4>{});
    layers[1] = {.n_head = 2, .n_head_kv = 2, .k_dim = 48, .v_dim = 32};
    layers[2].n_head_kv = 3;
    const Layout one = Layout::create(layers, Type::F16, Type::F32);
    EXPECT_EQ(one.n_layer_groups, 1);
    size_t end = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
        EXPECT_EQ(one.layers[i].k_offset, end);
        end += static_cast<size_t>(layers[i].n_k() * kKvPage * 2);
        EXPECT_EQ(one.layers[i].v_offset, end);
        end += static_cast<size_t>(layers[i].n_v() * kKvPage * 4);
        EXPECT_EQ(one.layers[i].k_dim, layers[i].k_dim);
        EXPECT_EQ(one.layers[i].v_dim, layers[i].v_dim);
    }
    EXPECT_EQ(one.page_bytes, end);

    // Five windowed layers of two heads for each full one of one head: full layers share pages in pairs.
    layers = layers_of(std::array<int64_t, 12>{9, 9, 9, 9, 9, 0, 9, 9, 9, 9, 9, 0});
    for (LayerSpec& layer : layers)
        if (layer.window > 0) layer.n_head_kv = 2;
    const Layout two = Layout::create_windowed(layers, 100, 1, Type::F32, Type::F32);
    EXPECT_EQ(two.page_bytes, bytes_of(2));
    EXPECT_EQ(two.n_full_groups, 1);
    EXPECT_EQ(two.n_layer_groups, 11);
    EXPECT_EQ(two.group_of_layer[5], 0);
    EXPECT_EQ(two.group_of_layer[11], 0);
    EXPECT_EQ(two.layers[11].k_offset, bytes_of(1));

    // Sizes without a common multiple: some bytes remain unused, and every layer fits its page.
    for (LayerSpec& layer : layers) layer.n_head_kv = layer.window > 0 ? 5 : 3;
    const Layout uneven = Layout::create_windowed(layers, 100, 1, Type::F32, Type::F32);
    std::vector<size_t> used(static_cast<size_t>(uneven.n_layer_groups));
    for (size_t i = 0; i < layers.size(); ++i) {
        size_t& at = used[static_cast<size_t>(uneven.group_of_layer[i])];
        EXPECT_EQ(uneven.layers[i].k_offset, at);
        at += bytes_of(layers[i].n_head_kv);
    }
    size_t total = 0;
    for (const size_t n : used) {
        EXPECT_LE(n, uneven.page_bytes);
        total += n;
    }
    EXPECT_LT(static_cast<double>(used.size() * uneven.page_bytes), 1.1 * static_cast<double>(total));
}

/// Computes the text in passes, as the scheduler does. False if pages ran out.
bool read(PrefixTree& tree, Sequence& sequence, std::span<const int32_t> text) {
    while (sequence.n_tok() < static_cast<int64_t>(text.size())) {
        const auto n = std::min<int64_t>(kPass, static_cast<int64_t>(text.size()) - sequence.n_tok());
        const auto so_far = text.first(static_cast<size_t>(sequence.n_tok() + n));
        if (!tree.evict(sequence.pages_for(n)) || !extend(sequence, so_far, 3)) return false;
        const bool all = so_far.size() == text.size();
        tree.insert(so_far.first(all ? text.size() : so_far.size() / kKvPage * kKvPage),
                    sequence.page_tables());
        sequence.evict_out_of_window();
    }
    return true;
}

/// All keys in the layer group without a window; in the others those that a token after the last one attends
/// to.
bool holds_all(const Sequence& sequence, std::span<const int32_t> text) {
    const int64_t seen = std::max<int64_t>(0, sequence.n_tok() - 149);
    return holds(sequence, text) && holds(sequence, text, 1, seen) && holds(sequence, text, 2, seen);
}

TEST(Windows, a_sequence_keeps_its_window) {
    const std::vector<int32_t> text = text_of(1, 6400);
    PagePool pool = windowed_pool_of(112);  // pages_of(6400)
    PrefixTree tree(pool);
    Sequence sequence(pool);
    ASSERT_TRUE(read(tree, sequence, text));
    EXPECT_TRUE(holds_all(sequence, text));
    tree.clear();
    EXPECT_EQ(pool.n_free(), 112 - 100 - 2 * 4);
    sequence.rewind(6390);  // the window before is still there
    EXPECT_EQ(sequence.n_tok(), 6390);
    sequence.rewind(6000);
    EXPECT_EQ(sequence.n_tok(), 0);
    EXPECT_EQ(pool.n_free(), 112);
}

TEST(Windows, texts_continue_from_any_place_until_memory_is_short) {
    const std::vector<int32_t> text = text_of(1, 1280);
    PagePool pool = windowed_pool_of(80);
    PrefixTree tree(pool);
    {
        Sequence sequence(pool);
        ASSERT_TRUE(read(tree, sequence, text));
    }
    EXPECT_EQ(tree.n_pages(), 3 * 20);
    const auto known = [&](size_t n) { return tree.match(std::span(text).first(n)).n_tok; };
    for (const size_t n : {1u, 500u, 1279u, 1280u}) EXPECT_EQ(known(n), static_cast<int64_t>(n));
    // When memory is short, the text keeps the window before its end.
    ASSERT_TRUE(tree.evict(44));
    EXPECT_EQ(known(1280), 1280);
    EXPECT_EQ(known(1279), 1279);
    EXPECT_EQ(known(640), 256);
    Sequence again(pool);
    const auto match = tree.match(text);
    again.share_prefix(match.pages, match.n_tok);
    EXPECT_TRUE(holds_all(again, text));
}

TEST(Windows, a_text_can_continue_where_two_diverge) {
    const std::vector<int32_t> text = text_of(1, 1280);
    std::vector<int32_t> other(text.begin(), text.begin() + 640);
    other.resize(1280, 77);
    PagePool pool = windowed_pool_of(140);
    PrefixTree tree(pool);
    for (const auto& one : {text, other}) {
        Sequence sequence(pool);
        const auto match = tree.match(one);
        sequence.share_prefix(match.pages, match.n_tok);
        ASSERT_TRUE(read(tree, sequence, one));
    }
    EXPECT_EQ(tree.n_pages(), 3 * 30);
    ASSERT_TRUE(tree.evict(50 + 2 * 12));
    EXPECT_EQ(tree.match(text).n_tok, 1280);
    EXPECT_EQ(tree.match(other).n_tok, 1280);
    std::vector<int32_t> third(text.begin(), text.begin() + 640);
    third.push_back(99);
    EXPECT_EQ(tree.match(third).n_tok, 640);
}

TEST(Windows, random_operations) {
    PagePool pool = windowed_pool_of(90);
    PrefixTree tree(pool);
    Rng rng(7);
    std::vector<std::unique_ptr<Sequence>> live;
    std::vector<std::vector<int32_t>> texts;
    for (int round = 0; round < 3000; ++round) {
        const uint64_t choice = rng.next_u64() % 8;
        if (choice < 3 && live.size() < 4) {
            std::vector<int32_t> text = text_of(rng.next_u64() % 4, 1 + rng.next_u64() % 900);
            text.resize(text.size() + rng.next_u64() % 40, static_cast<int32_t>(rng.next_u64() % 9));
            auto sequence = std::make_unique<Sequence>(pool);
            const auto match = tree.match(text);
            sequence->share_prefix(match.pages, match.n_tok);
            ASSERT_TRUE(holds_all(*sequence, text));
            if (!read(tree, *sequence, text)) continue;
            live.push_back(std::move(sequence));
            texts.push_back(std::move(text));
        } else if (choice == 7) {
            if (rng.next_u64() % 20 == 0) tree.clear();
        } else if (!live.empty()) {
            const size_t i = rng.next_u64() % live.size();
            if (choice == 3) {
                live[i]->rewind(
                    std::max<int64_t>(0, live[i]->n_tok() - static_cast<int64_t>(rng.next_u64() % 90)));
                texts[i].resize(static_cast<size_t>(live[i]->n_tok()));
            } else if (choice < 6) {
                texts[i].resize(texts[i].size() + rng.next_u64() % 90, 3);
                if (!read(tree, *live[i], texts[i])) texts[i].resize(static_cast<size_t>(live[i]->n_tok()));
            }
            ASSERT_TRUE(holds_all(*live[i], texts[i]));
            if (choice < 6) continue;
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
            texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    live.clear();
    EXPECT_EQ(pool.n_free() + tree.n_pages(), 90);
    EXPECT_TRUE(tree.evict(90));
    EXPECT_EQ(tree.n_pages(), 0);
}

}  // namespace
}  // namespace tessera::kv
