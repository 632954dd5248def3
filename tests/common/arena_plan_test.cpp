#include "common/arena_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "common/rng.h"

namespace tessera {
namespace {

/// Whether two buffers whose lifetimes overlap share a byte, found by trying all pairs.
bool overlaps(const std::vector<Lifetime>& buffers, const ArenaPlan& plan) {
    for (size_t i = 0; i < buffers.size(); ++i)
        for (size_t j = 0; j < i; ++j) {
            const bool at_once = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
            const bool share_bytes = plan.offsets[i] < plan.offsets[j] + buffers[j].n_bytes &&
                                     plan.offsets[j] < plan.offsets[i] + buffers[i].n_bytes;
            if (at_once && share_bytes) return true;
        }
    return false;
}

/// The largest number of bytes alive at one step, counted step by step.
size_t most_at_once(const std::vector<Lifetime>& buffers, int32_t n_steps, size_t alignment) {
    size_t most = 0;
    for (int32_t step = 0; step < n_steps; ++step) {
        size_t sum = 0;
        for (const Lifetime& b : buffers)
            if (b.first <= step && step <= b.last) sum += (b.n_bytes + alignment - 1) / alignment * alignment;
        most = std::max(most, sum);
    }
    return most;
}

TEST(ArenaPlan, AChainTakesTheMemoryOfTwoNeighbours) {
    const std::vector<Lifetime> chain = {{128, 0, 1}, {64, 1, 2}, {128, 2, 3}, {64, 3, 4}};
    const ArenaPlan plan = plan_arena(chain);
    EXPECT_FALSE(overlaps(chain, plan));
    EXPECT_EQ(plan.n_bytes, 192u);
    EXPECT_EQ(plan.least, 192u);
}

TEST(ArenaPlan, TakesTheSmallestGapThatFits) {
    // At step 2 gaps of 448 and 320 bytes are left.
    const std::vector<Lifetime> buffers = {{512, 0, 2}, {448, 0, 1}, {384, 0, 2},
                                           {320, 0, 1}, {256, 0, 2}, {200, 2, 2}};
    const ArenaPlan plan = plan_arena(buffers);
    EXPECT_FALSE(overlaps(buffers, plan));
    EXPECT_EQ(plan.offsets[5], plan.offsets[3]);
    EXPECT_EQ(plan.n_bytes, plan.least);
}

TEST(ArenaPlan, NothingAndNoBytes) {
    EXPECT_EQ(plan_arena(std::span<const Lifetime>()).n_bytes, 0u);
    const std::vector<Lifetime> empty = {{0, 0, 3}, {0, 1, 1}};
    EXPECT_EQ(plan_arena(empty).n_bytes, 0u);
}

TEST(ArenaPlan, RandomLifetimesNeverOverlap) {
    Rng rng(11);
    const auto below = [&rng](uint64_t n) { return rng.next_u64() % n; };
    size_t planned = 0, least = 0;
    for (int round = 0; round < 300; ++round) {
        const auto n_steps = static_cast<int32_t>(1 + below(40));
        const size_t alignment = size_t{1} << below(8);
        std::vector<Lifetime> buffers(below(60));
        for (Lifetime& b : buffers) {
            b.n_bytes = below(5) == 0 ? below(3) : below(5000);
            b.first = static_cast<int32_t>(below(static_cast<uint64_t>(n_steps)));
            b.last = b.first + static_cast<int32_t>(below(static_cast<uint64_t>(n_steps - b.first)));
        }
        const ArenaPlan plan = plan_arena(buffers, alignment);
        ASSERT_FALSE(overlaps(buffers, plan)) << round;
        EXPECT_EQ(plan.least, most_at_once(buffers, n_steps, alignment)) << round;
        EXPECT_GE(plan.n_bytes, plan.least) << round;
        for (size_t i = 0; i < buffers.size(); ++i) {
            EXPECT_EQ(plan.offsets[i] % alignment, 0u) << round;
            EXPECT_LE(plan.offsets[i] + buffers[i].n_bytes, plan.n_bytes) << round;
        }
        EXPECT_EQ(plan.offsets, plan_arena(buffers, alignment).offsets) << round;
        planned += plan.n_bytes;
        least += plan.least;
    }
    std::printf("random lifetimes: %.1f %% above the least\n",
                100 * (static_cast<double>(planned) / static_cast<double>(least) - 1));
    EXPECT_LT(planned, least * 5 / 4);
}

TEST(ArenaPlan, SpansOfOneBufferShareAPlaceThatOthersUseInBetween) {
    // b lives between the spans of a; c lives with the second span of a.
    const SpanLifetimes buffers[] = {
        {100, {{0, 0, 1}, {0, 4, 5}}}, {90, {{0, 2, 3}}}, {80, {{0, 5, 6}}}, {70, {}}};
    const ArenaPlan plan = plan_arena(std::span<const SpanLifetimes>(buffers), 1);
    EXPECT_EQ(plan.offsets[0], 0u);
    EXPECT_EQ(plan.offsets[1], 0u);
    EXPECT_EQ(plan.offsets[2], 100u);
    EXPECT_EQ(plan.n_bytes, 180u);
    EXPECT_EQ(plan.least, 180u);
}

}  // namespace
}  // namespace tessera
