#include "common/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

// Known-answer vectors that the authors of Philox publish for philox4x32, ten rounds.
TEST(Philox, MatchesThePublishedVectors) {
    using Words = std::array<uint32_t, 4>;
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    constexpr uint32_t kOnes = 0xffffffff;
    EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, DrawDependsOnSeedStreamAndPositionAlone) {
    Rng a(42, 7);
    std::array<uint64_t, 5> draws{};
    for (uint64_t& draw : draws) draw = a.next_u64();
    EXPECT_EQ(a.position(), 5u);
    Rng b(42, 7);
    for (const size_t i : {4u, 0u, 2u}) {
        b.seek(i);
        EXPECT_EQ(b.next_u64(), draws[i]);
        EXPECT_EQ(b.position(), i + 1);
    }
    EXPECT_NE(Rng(42, 8).next_u64(), draws[0]);
    EXPECT_NE(Rng(43, 7).next_u64(), draws[0]);
    EXPECT_EQ(Rng(0).next_u64(), 0xe169c58d6627e8d5u);
}

TEST(Rng, AllBitsOfSeedStreamAndPositionCount) {
    std::set<uint64_t> draws;
    for (int bit = 0; bit < 64; bit++) {
        const uint64_t word = uint64_t{1} << bit;
        draws.insert(Rng(word, 0).next_u64());
        draws.insert(Rng(0, word).next_u64());
        Rng positioned(0, 0);
        positioned.seek(word);
        draws.insert(positioned.next_u64());
    }
    EXPECT_EQ(draws.size(), 192u);
}

TEST(Rng, DoublesAreUniformInTheUnitInterval) {
    Rng rng(1);
    double sum = 0;
    std::array<int, 10> bins{};
    for (int i = 0; i < 100000; i++) {
        const double x = rng.next_double();
        ASSERT_GE(x, 0.0);
        ASSERT_LT(x, 1.0);
        sum += x;
        bins[static_cast<size_t>(x * 10)]++;
    }
    EXPECT_NEAR(sum / 100000, 0.5, 0.005);
    for (const int count : bins) EXPECT_NEAR(count, 10000, 500);
}

TEST(Rng, SystemSeedsDiffer) { EXPECT_NE(random_seed(), random_seed()); }

}  // namespace
}  // namespace tessera
