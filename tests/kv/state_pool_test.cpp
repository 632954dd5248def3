// The pool of recurrent state: the place of each layer, and slots that are neither lost nor freed twice.
#include "src/kv/state_pool.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::kv {
namespace {

TEST(StateLayout, parts_begin_at_cache_lines) {
    const StateLayout layout = StateLayout::create(std::vector<int64_t>{0, 3, 0, 17, 16});
    ASSERT_EQ(layout.layers.size(), 5u);
    const int64_t sizes[] = {0, 3, 0, 17, 16};
    const size_t offsets[] = {0, 0, 16, 16, 48};
    for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(layout.layers[i].n, sizes[i]);
        EXPECT_EQ(layout.layers[i].offset, offsets[i]) << i;
    }
    EXPECT_EQ(layout.slot_bytes, 64u * 4);
}

TEST(StatePool, takes_nothing_without_recurrent_layers) {
    const StateLayout none = StateLayout::create(std::vector<int64_t>(7));
    EXPECT_EQ(none.slot_bytes, 0u);
    EXPECT_EQ(StatePool::bytes(none, 100), 0u);
    auto pool = StatePool::create(none, 100);
    ASSERT_TRUE(pool);
    EXPECT_EQ(pool->n_slots(), 0);
    EXPECT_EQ(pool->take(), nullptr);
}

TEST(StatePool, counts_owners) {
    auto made = StatePool::create(StateLayout::create(std::vector<int64_t>{5}), 3);
    ASSERT_TRUE(made);
    StatePool pool = std::move(*made);
    float* const a = pool.take();
    float* const b = pool.take();
    float* const c = pool.take();
    EXPECT_EQ(pool.n_free(), 0);
    EXPECT_EQ(pool.take(), nullptr);
    for (float* const slot : {a, b, c}) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(slot) % 64, 0u);
        std::fill_n(slot, 5, 7.0f);
    }
    pool.share(b);
    pool.release(b);
    EXPECT_EQ(pool.n_owners(b), 1);
    EXPECT_EQ(pool.n_free(), 0);
    pool.release(b);
    EXPECT_EQ(pool.n_free(), 1);
    EXPECT_EQ(pool.take(), b);

    // The initial state survives all owners, and no slot overlaps it.
    float* const initial = pool.initial();
    pool.share(initial);
    pool.release(initial);
    EXPECT_EQ(pool.n_owners(initial), 1);
    EXPECT_EQ(pool.n_free(), 0);
    EXPECT_TRUE(std::all_of(initial, initial + 5, [](float x) { return x == 0; }));
}

TEST(StatePool, memory_that_does_not_exist_is_refused_by_name) {
    const StateLayout layout = StateLayout::create(std::vector<int64_t>{int64_t{1} << 40});
    const auto pool = StatePool::create(layout, int64_t{1} << 18);
    ASSERT_FALSE(pool);
    EXPECT_NE(pool.error().message.find("the state of recurrent layers"), std::string::npos)
        << pool.error().message;
}

}  // namespace
}  // namespace tessera::kv
