// Sums, products, tables, norms and rotations against real numbers: their errors in steps.
#include "src/npu/elementwise.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "src/npu/norm.h"
#include "src/npu/rope.h"
#include "tests/npu/support.h"

namespace tessera::npu {
namespace {

using test::Draw;
using test::real;
using test::steps_off;

TEST(Elementwise, AddAndMulAreTheNearestCode) {
    Draw draw(1);
    for (int i = 0; i < 200; ++i) {
        const int bits = draw.integer(0, 3) ? 16 : 8;
        const Encoding a = draw.encoding(bits), b = draw.encoding(bits);
        const float sum = (a.scale + b.scale) * static_cast<float>(a.max());
        const float product = a.scale * b.scale * static_cast<float>(a.max()) * static_cast<float>(b.max());
        const Encoding ys = *encoding_of_range(-sum, sum, bits),
                       yp = *encoding_of_range(-product, product, bits);
        const auto add = Add::create(a, b, ys);
        const auto mul = Mul::create(a, b, yp);
        ASSERT_TRUE(add && mul);
        const auto x = draw.codes(a, 64), z = draw.codes(b, 64);
        uint16_t y[64];
        add->apply(x.data(), z.data(), 64, y);
        for (size_t j = 0; j < 64; ++j) ASSERT_LE(steps_off(ys, y[j], real(a, x[j]) + real(b, z[j])), 0.51);
        mul->apply(x.data(), z.data(), 64, y);
        for (size_t j = 0; j < 64; ++j) ASSERT_LE(steps_off(yp, y[j], real(a, x[j]) * real(b, z[j])), 0.51);
    }
    // Sums beyond the range are clamped.
    const Encoding a = *encoding_of_range(-1, 1, 16);
    const auto add = Add::create(a, a, a);
    const uint16_t low = 0, high = 65535;
    uint16_t y = 1;
    add->apply(&high, &high, 1, &y);
    EXPECT_EQ(y, 65535);
    add->apply(&low, &low, 1, &y);
    EXPECT_EQ(y, 0);
}

TEST(Elementwise, TablesAreTheNearestCode) {
    const Encoding x = *encoding_of_range(-11, 9, 16), y = *encoding_of_range(-0.3f, 9, 16);
    const auto silu = function_table(Function::Silu, x, y), gelu = function_table(Function::Gelu, x, y);
    const auto sigmoid = function_table(Function::Sigmoid, x, sigmoid_encoding());
    ASSERT_EQ(silu.size(), 65536u);
    for (int32_t q = 0; q < 65536; ++q) {
        const double v = real(x, q);
        const auto at = static_cast<size_t>(q);
        ASSERT_LE(steps_off(y, silu[at], v / (1 + std::exp(-v))), 0.501) << v;
        const double z = std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v);
        ASSERT_LE(steps_off(y, gelu[at], 0.5 * v * (1 + std::tanh(z))), 0.501) << v;
        ASSERT_LE(steps_off(sigmoid_encoding(), sigmoid[at], 1 / (1 + std::exp(-v))), 0.501) << v;
    }
    EXPECT_EQ(function_table(Function::Silu, *encoding_of_range(-1, 1, 8), y).size(), 256u);
    // Far beyond what exp can express.
    const Encoding wide = *encoding_of_range(-1e6f, 1e6f, 16);
    const auto held = function_table(Function::Silu, wide, y);
    EXPECT_EQ(held.front(), y.zero);
    EXPECT_EQ(held.back(), 65535);
}

TEST(RmsNorm, WithinAStep) {
    Draw draw(2);
    for (const int64_t n : {1, 3, 64, 2048, 16384}) {
        auto gamma = draw.gauss(n);
        const Encoding x = draw.encoding(16);
        float widest = 0;
        for (const float g : gamma) widest = std::max(widest, std::fabs(g));
        const Encoding y = *encoding_of_range(-6 * widest, 6 * widest, 16);
        const auto norm = RmsNorm::create(gamma.data(), n, 1e-5f, x, y);
        ASSERT_TRUE(norm) << norm.error().message;
        const auto q = draw.codes(x, n);
        std::vector<uint16_t> out(q.size());
        norm->apply(q.data(), out.data());
        double squares = 0;
        for (const uint16_t v : q) squares += real(x, v) * real(x, v);
        const double r = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
        for (size_t i = 0; i < q.size(); ++i)
            // Half a step from rounding, the rest from gamma's 16 bits.
            ASSERT_LE(steps_off(y, out[i], real(x, q[i]) * r * static_cast<double>(gamma[i])), 1.0) << n;
    }
}

TEST(RmsNorm, Edges) {
    const std::vector<float> gamma(32, 1.0f);
    const Encoding x = *encoding_of_range(-1, 1, 16), y = *encoding_of_range(-8, 8, 16);
    const auto norm = RmsNorm::create(gamma.data(), 32, 0.0f, x, y);
    ASSERT_TRUE(norm);
    std::vector<uint16_t> q(32, static_cast<uint16_t>(x.zero)), out(32);
    norm->apply(q.data(), out.data());
    for (const uint16_t v : out) EXPECT_EQ(v, y.zero);
    // One step among zeros becomes sqrt(n).
    q[7] = static_cast<uint16_t>(x.zero + 1);
    norm->apply(q.data(), out.data());
    EXPECT_NEAR(real(y, out[7]), std::sqrt(32.0), 3e-4);
    EXPECT_EQ(out[8], y.zero);
    for (uint16_t& v : q) v = 65535;
    norm->apply(q.data(), out.data());
    EXPECT_NEAR(real(y, out[0]), 1, 3e-4);

    EXPECT_FALSE(RmsNorm::create(gamma.data(), 0, 0, x, y));
    EXPECT_FALSE(RmsNorm::create(gamma.data(), 32, -1, x, y));
    const float bad[] = {1, std::nanf(""), 2};
    EXPECT_FALSE(RmsNorm::create(bad, 3, 0, x, y));
}

TEST(Rope, WithinAStepForBothPairings) {
    Draw draw(3);
    for (const auto pairs : {RopePairs::Adjacent, RopePairs::Halves})
        for (const int64_t n_rot : {2, 32, 64}) {
            constexpr int64_t head_dim = 64, n_pos = 20;
            std::vector<double> angles;
            for (int64_t p = 0; p < n_pos; ++p)
                for (int64_t i = 0; i < n_rot / 2; ++i)
                    angles.push_back(static_cast<double>(p * 431) *
                                     std::pow(10000.0, -2.0 * static_cast<double>(i) / 64));
            const Encoding x = draw.encoding(16);
            const float widest = 1.5f * x.scale * 65535;
            const Encoding y = *encoding_of_range(-widest, widest, 16);
            const auto rope = Rope::create(angles, n_rot, head_dim, pairs, 1.0, x, y);
            ASSERT_TRUE(rope) << rope.error().message;
            EXPECT_EQ(rope->n_pos(), n_pos);
            for (int64_t p = 0; p < n_pos; ++p) {
                const auto q = draw.codes(x, head_dim);
                uint16_t out[head_dim];
                rope->apply(q.data(), p, out);
                for (int64_t i = 0; i < n_rot / 2; ++i) {
                    const auto a = static_cast<size_t>(pairs == RopePairs::Adjacent ? 2 * i : i);
                    const auto b =
                        static_cast<size_t>(pairs == RopePairs::Adjacent ? 2 * i + 1 : i + n_rot / 2);
                    const double t = angles[static_cast<size_t>(p * n_rot / 2 + i)];
                    const double ra = real(x, q[a]), rb = real(x, q[b]);
                    // Codes of 15 bits: up to half a unit in 32767 of each value, and half a step by
                    // rounding.
                    ASSERT_LE(steps_off(y, out[a], ra * std::cos(t) - rb * std::sin(t)), 1.0);
                    ASSERT_LE(steps_off(y, out[b], ra * std::sin(t) + rb * std::cos(t)), 1.0);
                }
                for (auto i = static_cast<size_t>(n_rot); i < head_dim; ++i)
                    ASSERT_LE(steps_off(y, out[i], real(x, q[i])), 0.51);
            }
        }
    const Encoding e = *encoding_of_range(-1, 1, 16);
    EXPECT_FALSE(Rope::create({0.0}, 3, 64, RopePairs::Halves, 1, e, e));
    EXPECT_FALSE(Rope::create({0.0}, 66, 64, RopePairs::Halves, 1, e, e));
    EXPECT_FALSE(Rope::create({1e9}, 2, 64, RopePairs::Halves, 1, e, e));
}

}  // namespace
}  // namespace tessera::npu
