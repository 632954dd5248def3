// Float vector operations: every table gives the bits of the scalar one at every length, and the scalar one
// agrees with double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/f16.h"
#include "ggml-like/cpu/vec.h"
#include "quants/dispatch.h"
#include "tests/support/guarded_buffer.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kMaxN = 70;
constexpr float kInf = std::numeric_limits<float>::infinity();
const VecTable& kScalar = kVecScalar;

/// The kernel tables that this machine can run.
std::vector<const VecTable*> tables() {
    std::vector<const VecTable*> usable;
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (isa.usable) usable.push_back(vec_table(std::string(isa.name).c_str()));
    }
    return usable;
}

std::vector<float> random_floats(int64_t n, uint32_t seed, float sigma = 1.0f) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(0.0f, sigma);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = rng() % 20 == 0 ? 0.0f : normal(rng);
    return x;
}

/// A copy of x that ends at a guard page.
class Guarded {
  public:
    explicit Guarded(const std::vector<float>& x) : memory_(x.size() * sizeof(float)), n_(x.size()) {
        std::memcpy(data(), x.data(), n_ * sizeof(float));
    }
    float* data() const { return memory_.last_of<float>(n_); }
    std::vector<float> values() const { return {data(), data() + n_}; }

  private:
    test::GuardedBuffer memory_;
    size_t n_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Runs an operation in place on x with operands a and b, all of which end at guard pages, on every table and
/// length, and compares with the scalar table.
void expect_same(
    const std::function<void(const VecTable&, float* x, const float* a, const float* b, int64_t n)>& verb,
    int64_t step = 1, float sigma = 1.0f) {
    for (int64_t n = step; n <= kMaxN; n += step) {
        const auto x = random_floats(n, 1, sigma);
        const Guarded a(random_floats(n, 2, sigma)), b(random_floats(n, 3, sigma));
        const Guarded want(x);
        verb(kScalar, want.data(), a.data(), b.data(), n);
        for (const VecTable* table : tables()) {
            const Guarded got(x);
            verb(*table, got.data(), a.data(), b.data(), n);
            ASSERT_TRUE(same_bits(want.values(), got.values())) << table->name << " n=" << n;
        }
    }
}

TEST(Vec, EveryKernelTableHasItsFunctions) {
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        const VecTable* table = vec_table(isa.table->name);
        ASSERT_NE(table, nullptr);
        EXPECT_EQ(isa.name, table->name);
    }
    EXPECT_EQ(vec_table("abacus"), nullptr);
}

TEST(Vec, TablesAgreeOnElementwiseFunctions) {
    expect_same(
        [](auto& t, float* x, const float* a, const float*, int64_t n) { t.add_scaled(x, a, 0.3f, n); });
    expect_same([](auto& t, float* x, const float*, const float*, int64_t n) { t.scale(x, 1.7f, n); });
    expect_same([](auto& t, float* x, const float* a, const float*, int64_t n) { t.add(x, a, n); });
    expect_same([](auto& t, float* x, const float* a, const float* b, int64_t n) { t.silu_mul(a, b, x, n); },
                1, 30.0f);
    expect_same([](auto& t, float* x, const float* a, const float*, int64_t n) { t.silu_mul(x, a, x, n); });
    expect_same([](auto& t, float* x, const float* a, const float*, int64_t n) { t.silu_mul(a, x, x, n); });
    expect_same([](auto& t, float* x, const float* a, const float*, int64_t n) { t.exp(a, x, n); }, 1, 40.0f);
    expect_same([](auto& t, float* x, const float* a, const float* b, int64_t n) { t.gelu_mul(a, b, x, n); },
                1, 30.0f);
    expect_same(
        [](auto& t, float* x, const float* a, const float* b, int64_t n) { t.clamped_silu_mul(a, b, x, n); },
        1, 10.0f);
    expect_same([](auto& t, float* x, const float*, const float*, int64_t n) { t.softcap(x, 3.0f, n); }, 1,
                10.0f);
}

TEST(Vec, TablesAgreeOnReductions) {
    expect_same(
        [](auto& t, float* x, const float* a, const float* b, int64_t n) { t.rms_norm(a, b, n, 1e-5f, x); });
    expect_same([](auto& t, float* x, const float*, const float*, int64_t n) {
        t.rms_norm(x, nullptr, n, 1e-6f, x);
    });
}

TEST(Vec, TablesAgreeOnRope) {
    expect_same([](auto& t, float* x, const float* a, const float*, int64_t n) { t.rope_norm(x, a, n); }, 2);
    expect_same([](auto& t, float* x, const float* a, const float*, int64_t n) { t.rope_neox(x, a, n); }, 2);
}

TEST(Vec, TablesAgreeOnSoftmax) {
    for (const float cap : {0.0f, 5.0f}) {
        for (int64_t n = 16; n <= 64; n += 16) {
            for (int64_t lo = 0; lo < n; lo += 3) {
                for (int64_t hi = lo + 1; hi <= n; hi += 5) {
                    const auto x = random_floats(n, static_cast<uint32_t>(lo + n), 20.0f);
                    float want_max, want_sum, max, sum;
                    const Guarded want(x);
                    kScalar.softmax_chunk(want.data(), lo, hi, n, 0.25f, cap, &want_max, &want_sum);
                    for (const VecTable* table : tables()) {
                        const Guarded got(x);
                        table->softmax_chunk(got.data(), lo, hi, n, 0.25f, cap, &max, &sum);
                        ASSERT_TRUE(same_bits(want.values(), got.values()))
                            << table->name << " n=" << n << " lo=" << lo;
                        ASSERT_TRUE(same_bits({want_max, want_sum}, {max, sum})) << table->name << " n=" << n;
                    }
                }
            }
        }
    }
    expect_same([](auto& t, float* x, const float* a, const float*, int64_t n) {
        float max = 1.5f, sum = 3.25f;
        t.softmax_merge(&max, &sum, x, a[0] * 4, 2.5f, a, n);
        x[0] += max + sum;
    });
}

/// Every 8191st float of both signs, all special values, and floats near both ends of exp's range.
std::vector<float> sampled_floats() {
    std::vector<float> x;
    for (uint64_t u = 0; u < uint64_t{1} << 32; u += 8191)
        x.push_back(std::bit_cast<float>(static_cast<uint32_t>(u)));
    for (const float v : {0.0f, -0.0f, kInf, -kInf, 1e-45f, -1e-45f}) x.push_back(v);
    for (const float end : {-87.336544f, 88.722839f, 65504.0f, 65520.0f, 0x1p-14f, 0x1p-24f, 0x1p-25f}) {
        const auto bits = static_cast<int64_t>(std::bit_cast<uint32_t>(end));
        for (int64_t i = -40; i <= 40; i++)
            x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits + i)));
    }
    return x;
}

TEST(Vec, ExpAgreesEverywhereAndIsAccurate) {
    const auto x = sampled_floats();
    std::vector<float> want(x.size()), got(x.size());
    kScalar.exp(x.data(), want.data(), static_cast<int64_t>(x.size()));
    for (const VecTable* table : tables()) {
        table->exp(x.data(), got.data(), static_cast<int64_t>(x.size()));
        ASSERT_TRUE(same_bits(want, got)) << table->name;
    }
    double worst = 0;
    for (size_t i = 0; i < x.size(); i++) {
        const long double exact = std::exp(static_cast<long double>(x[i]));
        if (std::isnan(x[i])) {
            ASSERT_TRUE(std::isnan(want[i]));
        } else if (exact >= 0x1p128L) {
            ASSERT_EQ(want[i], kInf) << x[i];
        } else if (exact < 0x1p-126L) {
            ASSERT_EQ(want[i], 0.0f) << x[i];
        } else {
            int exponent;
            std::frexp(static_cast<float>(exact), &exponent);
            const double ulp = std::ldexp(1.0, exponent - 24);
            worst = std::max(worst,
                             static_cast<double>(std::abs(exact - static_cast<long double>(want[i]))) / ulp);
        }
    }
    EXPECT_LE(worst, 1.0);
    RecordProperty("worst_ulp", std::to_string(worst));
    const float zero = 0.0f;
    float one;
    kScalar.exp(&zero, &one, 1);
    EXPECT_EQ(one, 1.0f);
}

TEST(Vec, HalfConversionsEqualTheReferenceOnes) {
    std::vector<uint16_t> halves(1 << 16);
    for (size_t i = 0; i < halves.size(); i++) halves[i] = static_cast<uint16_t>(i);
    std::vector<float> floats(halves.size());
    auto x = sampled_floats();
    // The ties between neighbouring halves, and the floats next to them.
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const float a = f16_to_f32(static_cast<uint16_t>(h)), b = f16_to_f32(static_cast<uint16_t>(h + 1));
        const float tie = std::isinf(b) ? 65520.0f : a + (b - a) / 2;
        for (const float v : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, kInf)}) {
            x.push_back(v);
            x.push_back(-v);
        }
    }
    std::vector<uint16_t> rounded(x.size());
    for (const VecTable* table : tables()) {
        table->f16_to_f32(halves.data(), floats.data(), static_cast<int64_t>(halves.size()));
        for (size_t i = 0; i < halves.size(); i++) {
            ASSERT_EQ(std::bit_cast<uint32_t>(f16_to_f32(halves[i])), std::bit_cast<uint32_t>(floats[i]))
                << table->name << " " << i;
        }
        table->f32_to_f16(x.data(), rounded.data(), static_cast<int64_t>(x.size()));
        for (size_t i = 0; i < x.size(); i++) {
            ASSERT_EQ(f32_to_f16(x[i]), rounded[i])
                << table->name << " " << x[i] << " " << std::bit_cast<uint32_t>(x[i]);
        }
        for (int64_t n = 1; n <= kMaxN; n++) {  // lengths: nothing beyond n is written
            std::vector<uint16_t> h(kMaxN + 1, 0xabcd);
            table->f32_to_f16(x.data() + 5000, h.data(), n);
            for (int64_t i = 0; i <= kMaxN; i++) {
                const auto at = static_cast<size_t>(i);
                ASSERT_EQ(h[at], i < n ? f32_to_f16(x[5000 + at]) : 0xabcd);
            }
            const Guarded f(std::vector<float>(static_cast<size_t>(n)));
            table->f16_to_f32(h.data(), f.data(), n);
            for (int64_t i = 0; i < n; i++) {
                ASSERT_EQ(std::bit_cast<uint32_t>(f.data()[i]),
                          std::bit_cast<uint32_t>(f16_to_f32(h[static_cast<size_t>(i)])));
            }
        }
    }
}

TEST(Vec, RmsNormIsTheFormula) {
    const int64_t n = 67;
    const auto x = random_floats(n, 4), w = random_floats(n, 5);
    std::vector<float> y(n);
    kScalar.rms_norm(x.data(), w.data(), n, 1e-5f, y.data());
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    const double s = 1 / std::sqrt(squares / n + 1e-5);
    for (size_t i = 0; i < n; i++) EXPECT_NEAR(y[i], x[i] * s * w[i], 1e-6);

    // The documented order of sums: 16 lanes in rising i, then a tree.
    float lanes[16] = {};
    for (size_t i = 0; i < n; i++) lanes[i % 16] = std::fmaf(x[i], x[i], lanes[i % 16]);
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    }
    const float exact = 1.0f / std::sqrt(lanes[0] / static_cast<float>(n) + 1e-5f);
    for (size_t i = 0; i < n; i++) EXPECT_EQ(y[i], x[i] * exact * w[i]);
}

TEST(Vec, SiluIsTheFormula) {
    const auto gate = random_floats(kMaxN, 6, 4.0f), up = random_floats(kMaxN, 7);
    std::vector<float> out(kMaxN);
    kScalar.silu_mul(gate.data(), up.data(), out.data(), kMaxN);
    for (size_t i = 0; i < kMaxN; i++) {
        const double want = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
        EXPECT_NEAR(out[i], want, 1e-6 * (1 + std::abs(want)));
    }
    const float extreme[] = {-1000.0f, 1000.0f}, ones[] = {1.0f, 1.0f};
    float y[2];
    kScalar.silu_mul(extreme, ones, y, 2);
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[1], 1000.0f);
}

TEST(Vec, GeluClampedSiluAndSoftcapAreTheFormulas) {
    const auto gate = random_floats(kMaxN, 6, 6.0f), up = random_floats(kMaxN, 7, 6.0f);
    std::vector<float> gelu(kMaxN), clamped(kMaxN), capped = gate;
    kScalar.gelu_mul(gate.data(), up.data(), gelu.data(), kMaxN);
    kScalar.clamped_silu_mul(gate.data(), up.data(), clamped.data(), kMaxN);
    kScalar.softcap(capped.data(), 3.0f, kMaxN);
    for (size_t i = 0; i < kMaxN; i++) {
        const double g = gate[i], u = up[i];
        const double z = std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g);
        EXPECT_NEAR(gelu[i], 0.5 * g * (1 + std::tanh(z)) * u, 2e-6 * (1 + std::abs(g * u)));
        const double held = std::min(g, 7.0);
        const double want = held / (1 + std::exp(-1.702 * held)) * (std::clamp(u, -7.0, 7.0) + 1);
        EXPECT_NEAR(clamped[i], want, 2e-6 * (1 + std::abs(want)));
        EXPECT_NEAR(capped[i], 3 * std::tanh(g / 3), 1e-6);
    }
    const float extreme[] = {-1000.0f, 1000.0f}, ones[] = {1.0f, 1.0f};
    float y[2];
    kScalar.gelu_mul(extreme, ones, y, 2);
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[1], 1000.0f);
    // Clamping does not hide a NaN.
    const float broken[] = {std::numeric_limits<float>::quiet_NaN(), 1.0f}, turned[] = {1.0f, broken[0]};
    kScalar.clamped_silu_mul(broken, turned, y, 2);
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
}

TEST(Vec, RopeRotatesBothPairings) {
    const int64_t n = 44;
    const auto x = random_floats(n, 8);
    std::vector<float> cs(n);
    for (size_t i = 0; i < n / 2; i++) {
        cs[2 * i] = std::cos(0.3f * static_cast<float>(i));
        cs[2 * i + 1] = std::sin(0.3f * static_cast<float>(i));
    }
    auto adjacent = x, split = x;
    kScalar.rope_norm(adjacent.data(), cs.data(), n);
    kScalar.rope_neox(split.data(), cs.data(), n);
    const auto expect_pair = [&](const std::vector<float>& y, size_t i, size_t a, size_t b) {
        const float c = cs[2 * i], s = cs[2 * i + 1];
        EXPECT_EQ(y[a], std::fmaf(x[a], c, -(x[b] * s)));
        EXPECT_EQ(y[b], std::fmaf(x[a], s, x[b] * c));
    };
    for (size_t i = 0; i < n / 2; i++) {
        expect_pair(adjacent, i, 2 * i, 2 * i + 1);
        expect_pair(split, i, i, i + n / 2);
    }
}

TEST(Vec, SoftmaxChunkIsTheFormula) {
    const int64_t n = 48, lo = 5, hi = 39;
    const auto x = random_floats(n, 9, 30.0f);
    for (const float cap : {0.0f, 10.0f}) {
        auto s = x;
        float max, sum;
        kScalar.softmax_chunk(s.data(), lo, hi, n, 0.5f, cap, &max, &sum);
        std::vector<double> z(n, -INFINITY);
        double top = -INFINITY, total = 0;
        for (size_t i = lo; i < hi; i++) {
            z[i] = x[i] * 0.5;
            if (cap > 0) z[i] = cap * std::tanh(z[i] / cap);
            top = std::max(top, z[i]);
        }
        EXPECT_NEAR(max, top, 1e-5);
        for (size_t i = 0; i < n; i++) {
            total += std::exp(z[i] - top);
            EXPECT_NEAR(s[i], std::exp(z[i] - top), 4e-6);
            if (i < lo || i >= hi) {
                EXPECT_EQ(std::bit_cast<uint32_t>(s[i]), 0u);
            }
        }
        EXPECT_NEAR(sum, total, 1e-5 * total);
    }
}

TEST(Vec, WeightsBecomeInt16) {
    for (int64_t n = 16; n <= 96; n += 16) {
        auto a = random_floats(n, 12), b = random_floats(n, 13);
        for (float& v : a) v = std::abs(v);
        float top = 0;
        for (size_t i = 0; i < a.size(); i++) top = std::max(top, a[i] * std::abs(b[i]));
        std::vector<float> magnitudes(b);
        for (float& v : magnitudes) v = std::abs(v);
        std::vector<int16_t> want(a.size()), q(a.size());
        for (size_t i = 0; i < a.size(); i++)
            want[i] = static_cast<int16_t>(std::nearbyint(a[i] * b[i] * (32767.0f / top)));
        const Guarded factors(a), others(b);
        for (const VecTable* table : tables()) {
            EXPECT_EQ(table->largest_product(a.data(), magnitudes.data(), n), top) << table->name;
            table->products_to_int16(factors.data(), others.data(), n, top, q.data());
            EXPECT_EQ(q, want) << table->name << " n=" << n;
            table->products_to_int16(factors.data(), others.data(), n, 0x1p-101f, q.data());
            EXPECT_EQ(q, std::vector<int16_t>(a.size())) << table->name;
        }
    }
}

TEST(Vec, NibblePairsBecomeInt8) {
    std::vector<uint8_t> nibbles(256);
    for (size_t i = 0; i < nibbles.size(); i++) nibbles[i] = static_cast<uint8_t>(i);
    for (const VecTable* table : tables()) {
        std::vector<int8_t> codes(2 * nibbles.size());
        table->nibble_pairs_to_int8(nibbles.data(), codes.data(), 256);
        for (int i = 0; i < 256; i++) {
            EXPECT_EQ(codes[static_cast<size_t>(2 * i)], i % 16 - 8) << table->name;
            EXPECT_EQ(codes[static_cast<size_t>(2 * i + 1)], i / 16 - 8) << table->name;
        }
    }
}

/// In two parts, with every number of rows that a tile may have, and at the largest sums that fit an int32.
/// The address of the next rows is only prefetched, so that any address will do.
TEST(Vec, ValuesAreWeighedExactly) {
    constexpr int64_t kDim = 64, kParts[] = {24, 232}, kPositions = kAttnValuesPositions;
    std::mt19937 rng(14);
    std::vector<int8_t> codes(64 + kPositions * kDim);
    std::vector<int16_t> q(static_cast<size_t>(14 * kPositions));
    for (const bool extreme : {false, true}) {
        for (int8_t& v : codes) v = extreme ? int8_t{-128} : static_cast<int8_t>(rng());
        for (int16_t& v : q) v = extreme ? int16_t{32767} : static_cast<int16_t>(rng() % 65535 - 32767);
        for (int64_t n_rows = 1; n_rows <= 14; n_rows++) {
            const auto top = random_floats(n_rows, 15);
            const int8_t* parts[] = {codes.data() + 64, codes.data() + 64 + 2 * kDim * kParts[0]};
            const void* next[] = {reinterpret_cast<const void*>(uintptr_t{4096}), nullptr};
            const auto weigh = [&](const VecTable& table, const void* const* after) {
                std::vector<float> out(static_cast<size_t>(n_rows * kDim), -1.0f);
                table.attn_values_block(
                    {q.data(), top.data(), parts, kParts, 2, kDim, n_rows, out.data(), after, 4352});
                return out;
            };
            const auto want = weigh(kScalar, nullptr);
            for (int64_t r = 0; r < n_rows; r++)
                for (int64_t e = 0; e < 32; e++) {
                    int64_t sum = 0;
                    for (int64_t i = 0; i < kPositions; i++)
                        sum += q[static_cast<size_t>(r * kPositions + i)] *
                               codes[static_cast<size_t>(64 + (i / 2 * kDim + e) * 2 + i % 2)];
                    EXPECT_EQ(want[static_cast<size_t>(r * kDim + e)],
                              static_cast<float>(sum) * (top[static_cast<size_t>(r)] * (1.0f / 32767)));
                    EXPECT_EQ(want[static_cast<size_t>(r * kDim + 32 + e)], -1.0f);
                }
            for (const VecTable* table : tables()) {
                EXPECT_TRUE(same_bits(want, weigh(*table, nullptr))) << table->name << " rows " << n_rows;
                EXPECT_TRUE(same_bits(want, weigh(*table, next))) << table->name << " rows " << n_rows;
            }
        }
    }
}

TEST(Vec, TablesAgreeOnHadamard) {
    for (int64_t n = 16; n <= 256; n *= 2) {
        const auto x = random_floats(n, 16);
        const Guarded want(x);
        kScalar.hadamard(want.data(), n, 0.25f);
        for (const VecTable* table : tables()) {
            const Guarded got(x);
            table->hadamard(got.data(), n, 0.25f);
            EXPECT_TRUE(same_bits(want.values(), got.values())) << table->name << " n=" << n;
        }
    }
}

TEST(Vec, MergedChunksAreOneSoftmax) {
    // Two chunks of 32 scores, each weighting rows of 5 values, against all 64 at once.
    const auto x = random_floats(64, 10, 6.0f), values = random_floats(64 * 5, 11);
    float max[2], sum[2], out[2][5] = {};
    for (size_t c = 0; c < 2; c++) {
        std::vector<float> s(x.begin() + static_cast<long>(32 * c),
                             x.begin() + static_cast<long>(32 * c + 32));
        kScalar.softmax_chunk(s.data(), 0, 32, 32, 1.0f, 0.0f, &max[c], &sum[c]);
        for (size_t i = 0; i < 32; i++) {
            for (size_t d = 0; d < 5; d++) out[c][d] += s[i] * values[(32 * c + i) * 5 + d];
        }
    }
    kScalar.softmax_merge(&max[0], &sum[0], out[0], max[1], sum[1], out[1], 5);
    double total = 0, want[5] = {};
    for (size_t i = 0; i < 64; i++) {
        const double e = std::exp(static_cast<double>(x[i]));
        total += e;
        for (size_t d = 0; d < 5; d++) want[d] += e * values[i * 5 + d];
    }
    for (size_t d = 0; d < 5; d++) EXPECT_NEAR(out[0][d] / sum[0], want[d] / total, 1e-5);
    EXPECT_EQ(max[0], *std::max_element(x.begin(), x.end()));
}

}  // namespace
}  // namespace tessera::cpu
