// The prefix tree against a list of all texts ever inserted: what it says is known holds the right tokens, no
// page is lost or freed twice, and what is in use stays.
#include "src/kv/prefix_tree.h"

#include <gtest/gtest.h>

#include <cstring>

#include "common/rng.h"
#include "src/kv/sequence.h"

namespace tessera::kv {
namespace {

/// One layer of one head of 16 floats: a page in which the test keeps the tokens themselves.
PagePool pool_of(int64_t n_pages) {
    return std::move(*PagePool::create(Layout::create(1, 1, 16, Type::F32, Type::F32), n_pages));
}

/// Computes "keys" for the tokens from the sequence's end on.
bool extend(Sequence& sequence, std::span<const int32_t> text) {
    const int64_t start = sequence.n_tok();
    const auto n = static_cast<int64_t>(text.size()) - start;
    if (!sequence.reserve(n)) return false;
    for (int64_t at = start; at < start + n; ++at)
        std::memcpy(sequence.pages()[at / kKvPage] + at % kKvPage * 4, &text[static_cast<size_t>(at)], 4);
    sequence.advance(n);
    return true;
}

bool holds(const Sequence& sequence, std::span<const int32_t> text) {
    for (int64_t at = 0; at < sequence.n_tok(); ++at)
        if (std::memcmp(sequence.pages()[at / kKvPage] + at % kKvPage * 4, &text[static_cast<size_t>(at)], 4))
            return false;
    return true;
}

std::vector<int32_t> text_of(uint64_t seed, size_t n) {
    Rng rng(seed);
    std::vector<int32_t> out(n);
    for (int32_t& id : out) id = static_cast<int32_t>(rng.next_u64() % 5);
    return out;
}

TEST(PrefixTree, tells_the_longest_beginning) {
    PagePool pool = pool_of(16);
    PrefixTree tree(pool);
    const std::vector<int32_t> text = text_of(1, 200);
    {
        Sequence sequence(pool);
        ASSERT_TRUE(extend(sequence, text));
        tree.insert(text, sequence.page_table());
    }
    EXPECT_EQ(tree.n_pages(), 4);
    EXPECT_EQ(pool.n_free(), 12);
    for (const size_t n : {1u, 63u, 64u, 65u, 128u, 199u, 200u}) {
        std::vector<int32_t> other(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
        other.push_back(99);
        const auto match = tree.match(other);
        EXPECT_EQ(match.n_tok, static_cast<int64_t>(n));
        EXPECT_EQ(match.pages.size(), (n + 63) / 64);
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
        tree.insert(part, sequence.page_table());
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
    tree.insert(text, one.page_table());
    tree.insert(text, two.page_table());
    EXPECT_EQ(pool.n_free(), 6);
    EXPECT_EQ(one.pages()[1], two.pages()[1]);
}

TEST(PrefixTree, who_writes_into_a_shared_page_gets_a_copy) {
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
    tree.insert(first, one.page_table());
    Sequence two(pool);
    const auto match = tree.match(second);
    two.adopt(match.pages, match.n_tok);
    EXPECT_EQ(two.n_tok(), 90);
    EXPECT_EQ(two.pages_for(30), 1);
    ASSERT_TRUE(extend(two, second));
    EXPECT_TRUE(holds(one, first));
    EXPECT_TRUE(holds(two, second));
}

TEST(PrefixTree, what_is_in_use_is_not_taken) {
    PagePool pool = pool_of(4);
    PrefixTree tree(pool);
    const std::vector<int32_t> text = text_of(5, 128), other = text_of(6, 128);
    Sequence used(pool);
    ASSERT_TRUE(extend(used, text));
    tree.insert(text, used.page_table());
    {
        Sequence gone(pool);
        ASSERT_TRUE(extend(gone, other));
        tree.insert(other, gone.page_table());
    }
    EXPECT_EQ(pool.n_free(), 0);
    EXPECT_TRUE(tree.make_room(2));
    EXPECT_EQ(tree.match(other).n_tok, 0);
    EXPECT_EQ(tree.match(text).n_tok, 128);
    EXPECT_FALSE(tree.make_room(3));
    EXPECT_TRUE(holds(used, text));
}

TEST(PrefixTree, the_longest_unused_goes_first) {
    PagePool pool = pool_of(3);
    PrefixTree tree(pool);
    for (const uint64_t seed : {10u, 11u, 12u}) {
        Sequence sequence(pool);
        const auto text = text_of(seed, 64);
        ASSERT_TRUE(extend(sequence, text));
        tree.insert(text, sequence.page_table());
    }
    tree.match(text_of(10, 64));
    EXPECT_TRUE(tree.make_room(1));
    EXPECT_EQ(tree.match(text_of(11, 64)).n_tok < 64, true);
    EXPECT_EQ(tree.match(text_of(10, 64)).n_tok, 64);
    EXPECT_EQ(tree.match(text_of(12, 64)).n_tok, 64);
}

TEST(PrefixTree, a_long_random_life) {
    PagePool pool = pool_of(40);
    PrefixTree tree(pool);
    Rng rng(7);
    std::vector<std::unique_ptr<Sequence>> live;
    std::vector<std::vector<int32_t>> texts;
    for (int round = 0; round < 4000; ++round) {
        const uint64_t choice = rng.next_u64() % 4;
        if (choice < 2 && live.size() < 6) {
            // Few seeds and many lengths: beginnings are often shared.
            std::vector<int32_t> text = text_of(rng.next_u64() % 4, 1 + rng.next_u64() % 300);
            text.resize(text.size() + rng.next_u64() % 40, static_cast<int32_t>(rng.next_u64() % 9));
            auto sequence = std::make_unique<Sequence>(pool);
            const auto match = tree.match(text);
            sequence->adopt(match.pages, match.n_tok);
            ASSERT_TRUE(holds(*sequence, text));
            const auto n_left = static_cast<int64_t>(text.size()) - sequence->n_tok();
            if (!tree.make_room(sequence->pages_for(n_left))) continue;
            ASSERT_TRUE(extend(*sequence, text));
            live.push_back(std::move(sequence));
            texts.push_back(std::move(text));
        } else if (!live.empty()) {
            const size_t i = rng.next_u64() % live.size();
            if (choice == 2) tree.insert(texts[i], live[i]->page_table());
            ASSERT_TRUE(holds(*live[i], texts[i]));
            if (choice == 2) continue;
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
            texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    live.clear();
    EXPECT_EQ(pool.n_free() + tree.n_pages(), 40);
    EXPECT_TRUE(tree.make_room(40));
    EXPECT_EQ(tree.n_pages(), 0);
}

}  // namespace
}  // namespace tessera::kv
