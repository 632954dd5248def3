// Quantized activations: the definition, its edges, and bit equality of the tables.
#include <algorithm>
#include <cmath>
#include <limits>

#include "quants/act_layout.h"
#include "tests/quants/packed_types.h"

namespace tessera::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

Tokens quantize(const KernelTable& table, const std::vector<float>& x) {
    Tokens tokens(1, static_cast<int64_t>(x.size()));
    table.quantize_act(x.data(), tokens.n_k, tokens.row(0));
    return tokens;
}

void expect_tables_agree(const std::vector<float>& x, const char* what) {
    const Tokens want = quantize(scalar(), x);
    for (const KernelTable* table : vector_tables()) {
        const Tokens got = quantize(*table, x);
        EXPECT_EQ(want.q, got.q) << table->name << ' ' << what;
        EXPECT_EQ(0, std::memcmp(want.d.data(), got.d.data(), 4 * want.d.size()))
            << table->name << ' ' << what;
        EXPECT_EQ(0, std::memcmp(want.s.data(), got.s.data(), 4 * want.s.size()))
            << table->name << ' ' << what;
        EXPECT_EQ(want.sum16, got.sum16) << table->name << ' ' << what;
        EXPECT_EQ(want.sum8, got.sum8) << table->name << ' ' << what;
    }
}

TEST(PackedActivations, FollowsTheDefinition) {
    std::mt19937 rng(1);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    std::vector<float> x(32 * 40);
    for (float& v : x) v = normal(rng);
    const Tokens t = quantize(scalar(), x);
    for (size_t b = 0; b < x.size() / 32; b++) {
        float amax = 0;
        for (size_t i = 0; i < 32; i++) amax = std::max(amax, std::fabs(x[32 * b + i]));
        EXPECT_EQ(amax / 127.0f, t.d[b]);
        int sums[4] = {0, 0, 0, 0};  // for each half, sums over k % 4 < 2 and over the others
        for (size_t i = 0; i < 32; i++) {
            EXPECT_EQ(std::nearbyint(x[32 * b + i] * (127.0f / amax)), t.q[32 * b + i]);
            sums[i / 16 * 2 + i % 4 / 2] += t.q[32 * b + i];
        }
        for (size_t i = 0; i < 4; i++) EXPECT_EQ(sums[i], t.sum8[4 * b + i]);
        for (size_t i = 0; i < 2; i++) EXPECT_EQ(sums[2 * i] + sums[2 * i + 1], t.sum16[2 * b + i]);
        EXPECT_EQ(t.d[b] * static_cast<float>(sums[0] + sums[1] + sums[2] + sums[3]), t.s[b]);
    }
    expect_tables_agree(x, "normal");
}

/// Quantizing a run of tokens puts each in its place, in rows or in tiles as products read them, whatever
/// precedes the run.
TEST(PackedActivations, TokensOfARunLieInRowsOrTiles) {
    constexpr int64_t kK = 32 * 3, kFirst = 5;
    std::mt19937 rng(5);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    for (const KernelTable* table : vector_tables()) {
        for (const int64_t n : {1, 7, 8, 9, 10, 11, 12, 33}) {
            Tokens rows(n, kK), got(kFirst + n, kK);
            std::vector<float> x(kK);
            for (int64_t t = 0; t < n; t++) {
                for (float& v : x) v = normal(rng);
                table->quantize_act(x.data(), kK, rows.row(t));
                const auto [block, step] = act_place(*table, {kFirst, n}, kFirst + t, kK);
                table->quantize_act(x.data(), kK, got.from(block, step));
            }
            const int64_t tile = act_tile(*table, n);
            EXPECT_EQ(n < kernels::kFewestTiled ? 1 : table->act_tile, tile);
            const Tokens want = in_tiles(rows, n, tile);
            const auto lies = [&](const auto& expected, const auto& all) {
                const auto first = all.end() - std::ssize(expected);
                return std::equal(expected.begin(), expected.end(), first);
            };
            EXPECT_TRUE(lies(want.q, got.q)) << table->name << ' ' << n;
            EXPECT_TRUE(lies(want.d, got.d) && lies(want.s, got.s)) << table->name << ' ' << n;
            EXPECT_TRUE(lies(want.sum16, got.sum16) && lies(want.sum8, got.sum8)) << table->name << ' ' << n;
        }
    }
}

TEST(PackedActivations, EdgesAreDefinedAndFinite) {
    std::vector<float> x(32 * 7, 0.0f);
    for (size_t i = 0; i < 32; i++) {
        x[32 + i] = i % 2 ? kNan : 1.0f;
        x[64 + i] = i == 3 ? kInf : i == 4 ? -kInf : 5.0f;
        x[96 + i] = kNan;
        x[128 + i] = kernels::kActSmallest / 2;
        x[160 + i] = i % 2 ? kernels::kActSmallest : -kernels::kActSmallest;
        x[192 + i] = i % 2 ? kMax : -kMax;
    }
    const Tokens t = quantize(scalar(), x);
    const auto code = [&](size_t at) { return int{t.q[at]}; };
    EXPECT_EQ(0.0f, t.d[0]);
    EXPECT_EQ(127, code(32));
    EXPECT_EQ(0, code(33));
    EXPECT_EQ(127, code(64 + 3));
    EXPECT_EQ(-127, code(64 + 4));
    EXPECT_EQ(0, code(64));
    EXPECT_EQ(kMax / 127.0f, t.d[2]);
    EXPECT_EQ(0.0f, t.d[3]);
    EXPECT_EQ(0.0f, t.d[4]);
    EXPECT_EQ(0, code(128));
    EXPECT_EQ(127, code(161));
    EXPECT_EQ(-127, code(160));
    EXPECT_EQ(-127, code(192));
    for (size_t b = 0; b < t.d.size(); b++) {
        EXPECT_TRUE(std::isfinite(t.d[b]) && std::isfinite(t.s[b])) << b;
    }
    expect_tables_agree(x, "edges");
}

TEST(PackedActivations, TablesAgreeOnHalvesAndOnAnyBits) {
    std::vector<float> x(32 * 64);
    for (size_t i = 0; i < x.size(); i++) x[i] = (static_cast<float>(i % 255) - 127.0f) / 2.0f;
    expect_tables_agree(x, "halves");
    std::mt19937 rng(2);
    for (int round = 0; round < 50; round++) {
        for (float& v : x) v = kernels::bits_to_float(bits(rng));
        expect_tables_agree(x, "bits");
    }
}

}  // namespace
}  // namespace tessera::test
