// The passes over a row of logits: every kernel table gives the bits of the plain definitions.
#include "src/sample/passes.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/cpu.h"
#include "tests/sample/logits.h"

namespace tessera::sample {
namespace {

constexpr size_t kBlocks = 33;

std::vector<const RowPasses*> tables() {
    std::vector<const RowPasses*> out = {&kPassesBaseline, &row_passes()};
    if (out[0] == out[1]) out.pop_back();
    return out;
}

std::vector<std::vector<float>> rows() {
    std::mt19937 bits(7);
    std::vector<std::vector<float>> out;
    for (const float width : {0.0f, 0.5f, 3.0f, 40.0f, 1e30f}) {
        std::normal_distribution<float> logits(-2, 1);
        std::vector<float> row(kBlocks * kRowBlock);
        for (float& x : row) x = logits(bits) * width;
        for (size_t i = 0; i < row.size(); i += 1 + bits() % 90) row[i] = -kInf;
        for (size_t i = 1; i < row.size(); i += 1 + bits() % 90) row[i] = i % 2 ? 0.0f : -0.0f;
        std::fill_n(row.begin() + 5 * kRowBlock, kRowBlock, -kInf);
        out.push_back(std::move(row));
    }
    return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Outcome {
    std::vector<float> x, best, p, tempered_x;
    std::vector<uint64_t> masses;
    int64_t n_nan = 0;
    uint64_t sum = 0;
    Mass mass;
};

Outcome outcome(const RowPasses& passes, const std::vector<float>& from) {
    Outcome out;
    out.x.resize(from.size());
    out.best.resize(kBlocks);
    out.p.resize(from.size());
    out.masses.resize(kBlocks);
    out.n_nan = passes.copy(from.data(), out.x.data(), out.best.data(), kBlocks);
    const float max = *std::max_element(out.best.begin(), out.best.end());
    out.sum = passes.weigh(out.x.data(), out.best.data(), kBlocks, max, out.masses.data());
    out.mass = passes.mass(out.x.data(), out.best.data(), kBlocks, max);
    out.tempered_x = out.x;
    passes.temper(out.tempered_x.data(), out.tempered_x.size() - 3, max, 1 / 0.7f);
    EXPECT_EQ(passes.weights(out.x.data(), kBlocks, max, out.p.data()), out.sum);
    const Preference preference = {0.2f, 1 / 0.3f, 5, 10};
    passes.prefer(out.x.data(), out.p.data(), out.best.data(), kBlocks, 1 / static_cast<float>(out.sum),
                  &preference);
    return out;
}

TEST(Passes, EveryTableGivesTheSameBits) {
    if (tables().size() < 2) GTEST_SKIP() << "one table on this machine";
    for (std::vector<float>& row : rows()) {
        row[100] = row[777] = std::numeric_limits<float>::quiet_NaN();
        const Outcome a = outcome(*tables()[0], row), b = outcome(*tables()[1], row);
        EXPECT_EQ(a.n_nan, 2);
        EXPECT_EQ(b.n_nan, 2);
        EXPECT_EQ(a.sum, b.sum);
        EXPECT_EQ(a.masses, b.masses);
        EXPECT_EQ(a.mass.weight, b.mass.weight);
        EXPECT_EQ(a.mass.moment, b.mass.moment);
        EXPECT_TRUE(same_bits(a.x, b.x));
        EXPECT_TRUE(same_bits(a.best, b.best));
        EXPECT_TRUE(same_bits(a.p, b.p));
        EXPECT_TRUE(same_bits(a.tempered_x, b.tempered_x));
    }
}

TEST(Passes, FollowTheDefinitions) {
    for (const RowPasses* passes : tables()) {
        SCOPED_TRACE(passes->name);
        for (const std::vector<float>& row : rows()) {
            const Outcome out = outcome(*passes, row);
            const float max = *std::max_element(row.begin(), row.end());
            uint64_t weight = 0, moment = 0;
            for (size_t i = 0; i < row.size(); i++) {
                weight += fixed_weight(row[i], max);
                if (fixed_weight(row[i], max)) moment += whole_part(scaled_moment(row[i], max));
                if (row[i] == -kInf) {
                    ASSERT_EQ(out.x[i], -kInf);
                }
            }
            EXPECT_EQ(out.sum, weight);
            EXPECT_EQ(out.mass.weight, weight);
            // A block of weight zero is left out of the moment, too.
            EXPECT_NEAR(static_cast<double>(out.mass.moment), static_cast<double>(moment),
                        15.0 * static_cast<double>(row.size()));
            for (size_t b = 0; b < kBlocks; b++) {
                const auto from = out.x.begin() + static_cast<ptrdiff_t>(b * kRowBlock);
                EXPECT_EQ(out.best[b], *std::max_element(from, from + kRowBlock));
            }
        }
    }
}

}  // namespace
}  // namespace tessera::sample
