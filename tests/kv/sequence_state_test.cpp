// Recurrent state of sequences and of the prefix tree: a position where a text continues has the state of
// exactly its tokens, however the slots are shared, dropped and evicted, and no slot is lost.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/kv/prefix_tree.h"
#include "src/kv/sequence.h"
#include "tests/kv/support.h"

namespace tessera::kv {
namespace {

/// One layer of one head of 16 floats, with and without a window; and one recurrent layer.
PagePool pages_of(int64_t n_pages, int64_t window = 0) {
    const int64_t windows[] = {window, 0};
    return std::move(*PagePool::create(
        Layout::create_windowed(layers_of(windows), 1 << 20, 512, Type::F32, Type::F32), n_pages));
}
StatePool states_of(int64_t n_slots) {
    return std::move(*StatePool::create(StateLayout::create(std::vector<int64_t>{0, 2}), n_slots));
}

/// The state after some tokens: a hash of all of them, and their number.
void pass(const float* in, std::span<const int32_t> tokens, float* out) {
    auto hash = static_cast<uint32_t>(in[0]);
    for (const int32_t id : tokens) hash = (hash * 31 + static_cast<uint32_t>(id) + 1) % 65521;
    out[0] = static_cast<float>(hash);
    out[1] = in[1] + static_cast<float>(tokens.size());
}

bool holds_state(const float* state, std::span<const int32_t> tokens) {
    const float none[2] = {};
    float expected[2];
    pass(none, tokens, expected);
    return state[0] == expected[0] && state[1] == expected[1];
}

/// Whether the current state and all checkpoints are those of the text.
bool holds_states(const Sequence& sequence, std::span<const int32_t> text) {
    const auto at = [&text](int64_t n) { return text.first(static_cast<size_t>(n)); };
    return holds_state(sequence.state_in(), at(sequence.n_tok())) &&
           std::ranges::all_of(sequence.checkpoints(), [&at](const Checkpoint& one) {
               return holds_state(one.state, at(one.n_tok));
           });
}

/// Computes the rest of the text in passes of at most `most` tokens, of which each is aborted once.
bool compute_rest(Sequence& sequence, std::span<const int32_t> text, int64_t most = 100) {
    while (sequence.n_tok() < std::ssize(text)) {
        const auto left = text.subspan(static_cast<size_t>(sequence.n_tok()));
        const int64_t n = std::min(most, sequence.pass_tokens(std::ssize(left)));
        if (!sequence.reserve(n)) return false;
        pass(sequence.state_in(), left.first(static_cast<size_t>(n) / 2), sequence.state_out());
        if (!sequence.reserve(n)) return false;
        pass(sequence.state_in(), left.first(static_cast<size_t>(n)), sequence.state_out());
        sequence.advance(n, std::ssize(left) - n);
    }
    return true;
}

std::vector<int64_t> positions(const Sequence& sequence) {
    std::vector<int64_t> out;
    for (const Checkpoint& one : sequence.checkpoints()) out.push_back(one.n_tok);
    return out;
}

TEST(SequenceState, a_rewind_goes_to_the_last_checkpoint_before) {
    PagePool pages = pages_of(64);
    StatePool states = states_of(16);
    const std::vector<int32_t> text = text_of(1, 2200);
    Sequence sequence(pages, &states);
    ASSERT_TRUE(compute_rest(sequence, text));
    EXPECT_TRUE(holds_states(sequence, text));
    EXPECT_EQ(positions(sequence), (std::vector<int64_t>{1024, 2048, 2176, 2200}));
    EXPECT_EQ(sequence.rewind(3000), 2200);
    EXPECT_EQ(sequence.rewind(2200), 2200);
    EXPECT_EQ(sequence.rewind(2199), 2176);
    EXPECT_TRUE(holds_states(sequence, text));
    ASSERT_TRUE(compute_rest(sequence, text));
    EXPECT_TRUE(holds_states(sequence, text));
    EXPECT_EQ(sequence.rewind(2000), 1024);
    EXPECT_TRUE(holds_states(sequence, text));
    // Another text from there on.
    std::vector<int32_t> other(text.begin(), text.begin() + 1024);
    other.resize(1500, 3);
    ASSERT_TRUE(compute_rest(sequence, other, 7));
    EXPECT_TRUE(holds_states(sequence, other));
    EXPECT_EQ(sequence.rewind(1023), 0);
    EXPECT_TRUE(holds_states(sequence, {}));
    EXPECT_EQ(states.n_free(), 15);  // the slot of the next pass is kept
    EXPECT_EQ(sequence.rewind(0), 0);
    EXPECT_EQ(states.n_free(), 16);
    EXPECT_EQ(pages.n_free(), 64);
}

TEST(SequenceState, single_tokens_alternate_between_two_slots) {
    PagePool pages = pages_of(64);
    StatePool states = states_of(3);
    const std::vector<int32_t> text = text_of(2, 1500);
    Sequence sequence(pages, &states);
    for (size_t n = 1; n <= text.size(); ++n) {
        ASSERT_TRUE(compute_rest(sequence, std::span(text).first(n)));
        ASSERT_TRUE(holds_states(sequence, text));
        ASSERT_GE(states.n_free(), n < 1024 ? 1 : 0);
    }
    EXPECT_EQ(positions(sequence), std::vector<int64_t>{1024});
}

TEST(SequenceState, checkpoints_give_way_to_the_pass) {
    PagePool pages = pages_of(80);
    StatePool states = states_of(5);
    const std::vector<int32_t> text = text_of(3, 5000);
    Sequence sequence(pages, &states);
    for (const size_t n : {100u, 110u, 700u, 4000u, 5000u}) {
        ASSERT_TRUE(compute_rest(sequence, std::span(text).first(n)));
        EXPECT_TRUE(holds_states(sequence, text));
        EXPECT_EQ(positions(sequence).back(), static_cast<int64_t>(n));
    }
    // All slots, until the next pass takes one. Checkpoints close to the one before went first.
    EXPECT_EQ(positions(sequence).size(), 5u);
    EXPECT_EQ(states.n_free(), 0);
    EXPECT_GE(positions(sequence)[1] - positions(sequence)[0], 1000);
    while (sequence.drop_checkpoint()) continue;
    EXPECT_EQ(positions(sequence), std::vector<int64_t>{5000});
    EXPECT_EQ(sequence.rewind(4999), 0);
}

TEST(SequenceState, without_a_slot_nothing_is_reserved) {
    PagePool pages = pages_of(8);
    StatePool states = states_of(3);
    const std::vector<int32_t> text = text_of(4, 100);
    Sequence one(pages, &states), two(pages, &states);
    ASSERT_TRUE(compute_rest(one, std::span(text).first(1)));
    ASSERT_TRUE(compute_rest(one, std::span(text).first(2)));
    EXPECT_EQ(one.slots_for(1), 0);
    ASSERT_TRUE(compute_rest(two, std::span(text).first(1)));
    EXPECT_EQ(two.slots_for(1), 1);
    EXPECT_FALSE(two.reserve(10));
    EXPECT_EQ(two.n_tok(), 1);
    one.rewind(0);
    EXPECT_TRUE(compute_rest(two, text));
    EXPECT_TRUE(holds_states(two, text));
}

TEST(SequenceState, the_window_before_a_checkpoint_must_be_there_too) {
    PagePool pages = pages_of(300, 200);
    StatePool states = states_of(16);
    const std::vector<int32_t> text = text_of(5, 4000);
    Sequence sequence(pages, &states);
    ASSERT_TRUE(compute_rest(sequence, text));
    sequence.evict_out_of_window();
    EXPECT_EQ(sequence.rewind(3990), 3968);
    EXPECT_EQ(sequence.rewind(3900), 0);
    EXPECT_TRUE(holds_states(sequence, {}));
    EXPECT_EQ(states.n_free(), 16);
    EXPECT_EQ(pages.n_free(), 300);
}

/// A sequence that continues from the longest cached prefix.
int64_t share(PrefixTree& tree, Sequence& sequence, std::span<const int32_t> text) {
    const PrefixTree::Match match = tree.match(text);
    sequence.share_prefix(match.pages, match.n_tok, match.state);
    return match.n_tok;
}

TEST(PrefixTreeState, texts_continue_where_a_state_is) {
    PagePool pages = pages_of(64);
    StatePool states = states_of(16);
    PrefixTree tree(pages, &states);
    const std::vector<int32_t> text = text_of(6, 1300);
    {
        Sequence sequence(pages, &states);
        ASSERT_TRUE(compute_rest(sequence, text));
        tree.insert(text, sequence.page_tables(), true, sequence.checkpoints());
    }
    EXPECT_EQ(tree.n_states(), 3);
    EXPECT_EQ(states.n_free(), 13);
    const std::pair<size_t, int64_t> cases[] = {{500, 0},     {1024, 1024}, {1025, 1024},
                                                {1280, 1280}, {1299, 1280}, {1300, 1300}};
    for (const auto& [n, expected] : cases) {
        std::vector<int32_t> other(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
        other.push_back(99);
        Sequence sequence(pages, &states);
        EXPECT_EQ(share(tree, sequence, other), expected) << n;
        EXPECT_TRUE(holds_states(sequence, other));
        ASSERT_TRUE(compute_rest(sequence, other));
        EXPECT_TRUE(holds_states(sequence, other));
    }
    // The end of a shorter text stays a place to continue from when a longer one takes its block.
    std::vector<int32_t> longer = text;
    longer.resize(1340, 4);
    {
        Sequence sequence(pages, &states);
        EXPECT_EQ(share(tree, sequence, longer), 1300);
        ASSERT_TRUE(compute_rest(sequence, longer));
        tree.insert(longer, sequence.page_tables(), true, sequence.checkpoints());
    }
    for (const auto& [n, expected] : {std::pair<size_t, int64_t>(1310, 1300), {1339, 1300}, {1340, 1340}}) {
        Sequence sequence(pages, &states);
        EXPECT_EQ(share(tree, sequence, std::span(longer).first(n)), expected) << n;
        EXPECT_TRUE(holds_states(sequence, longer));
    }
    tree.clear();
    EXPECT_EQ(states.n_free(), 16);
    EXPECT_EQ(tree.n_states(), 0);
}

TEST(PrefixTreeState, equal_states_are_kept_once) {
    PagePool pages = pages_of(16);
    StatePool states = states_of(8);
    PrefixTree tree(pages, &states);
    const std::vector<int32_t> text = text_of(7, 130);
    Sequence one(pages, &states), two(pages, &states);
    ASSERT_TRUE(compute_rest(one, text));
    ASSERT_TRUE(compute_rest(two, text));
    tree.insert(text, one.page_tables(), true, one.checkpoints());
    tree.insert(text, two.page_tables(), true, two.checkpoints());
    EXPECT_EQ(tree.n_states(), 2);
    EXPECT_EQ(one.checkpoints().front().state, two.checkpoints().front().state);
    EXPECT_TRUE(holds_states(two, text));
}

TEST(PrefixTreeState, the_middle_of_a_text_is_evicted_first) {
    PagePool pages = pages_of(200);
    StatePool states = states_of(12);
    PrefixTree tree(pages, &states);
    const std::vector<int32_t> old = text_of(8, 3000), recent = text_of(9, 3000);
    for (const auto& text : {old, recent}) {
        Sequence sequence(pages, &states);
        ASSERT_TRUE(compute_rest(sequence, text));
        tree.insert(text, sequence.page_tables(), false, sequence.checkpoints());
    }
    EXPECT_EQ(tree.n_states(), 8);
    ASSERT_TRUE(tree.evict(0, 7));  // three more
    EXPECT_EQ(tree.match(old).n_tok, 3000);
    EXPECT_EQ(tree.match(std::span(old).first(2900)).n_tok, 0);
    EXPECT_EQ(tree.match(std::span(recent).first(2000)).n_tok, 1024);
    EXPECT_EQ(tree.n_pages(), 94);
    ASSERT_TRUE(tree.evict(0, 12));
    EXPECT_EQ(tree.n_states(), 0);
}

/// Many texts with few slots and pages: each continues with the right state, and nothing is lost.
TEST(PrefixTreeState, random_operations) {
    for (const int64_t window : {int64_t{0}, int64_t{150}}) {
        PagePool pages = pages_of(120, window);
        StatePool states = states_of(14);
        PrefixTree tree(pages, &states);
        Rng rng(11);
        std::vector<std::unique_ptr<Sequence>> live;
        std::vector<std::vector<int32_t>> texts;
        const auto compute = [&](size_t i) {
            Sequence& one = *live[i];
            const auto n = std::ssize(texts[i]) - one.n_tok();
            if (!tree.evict(one.pages_for(n), one.slots_for(n)) || !compute_rest(one, texts[i])) {
                // As the scheduler does: what does not fit is computed again later.
                texts[i].resize(static_cast<size_t>(one.rewind(0)));
                return;
            }
            one.checkpoint();
            tree.insert(texts[i], one.page_tables(), rng.next_u64() % 2 == 0, one.checkpoints());
            one.evict_out_of_window();
        };
        int64_t n_shared = 0;
        for (int round = 0; round < 3000; ++round) {
            const uint64_t choice = rng.next_u64() % 8;
            if (choice < 3 && live.size() < 4) {
                std::vector<int32_t> text = text_of(rng.next_u64() % 3, 1 + rng.next_u64() % 1900);
                text.resize(text.size() + rng.next_u64() % 40, static_cast<int32_t>(rng.next_u64() % 9));
                live.push_back(std::make_unique<Sequence>(pages, &states));
                n_shared += share(tree, *live.back(), text);
                texts.push_back(std::move(text));
                ASSERT_TRUE(holds_states(*live.back(), texts.back()));
                compute(live.size() - 1);
            } else if (choice == 7) {
                if (rng.next_u64() % 20 == 0) tree.clear();
            } else if (!live.empty()) {
                const size_t i = rng.next_u64() % live.size();
                if (choice == 3) {
                    const int64_t n = static_cast<int64_t>(rng.next_u64() % (texts[i].size() + 1));
                    ASSERT_LE(live[i]->rewind(n), n);
                } else if (choice < 6) {
                    texts[i].resize(texts[i].size() + rng.next_u64() % 90, 3);
                    compute(i);
                }
                ASSERT_TRUE(holds_states(*live[i], texts[i])) << round;
                if (choice < 6) continue;
                live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
                texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(i));
            }
        }
        EXPECT_GT(n_shared, 10000);
        live.clear();
        EXPECT_EQ(states.n_free() + tree.n_states(), 14);
        EXPECT_EQ(pages.n_free() + tree.n_pages(), 120);
        EXPECT_TRUE(tree.evict(120, 14));
        EXPECT_EQ(tree.n_states(), 0);
    }
}

}  // namespace
}  // namespace tessera::kv
