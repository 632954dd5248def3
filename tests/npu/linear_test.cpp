// The integer Linear against real numbers, and its refusals.
#include "src/npu/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/npu/support.h"

namespace tessera::npu {
namespace {

using Kind = WeightRecipe::Kind;
using test::Draw;

TEST(Encoding, RangesHoldZeroAndRoundTrip) {
    Draw draw(1);
    for (const int bits : {8, 16})
        for (const auto& [low, high] : {std::pair{-1.0f, 3.0f}, {0.5f, 2.0f}, {-7.0f, -2.0f}, {0.0f, 0.0f}}) {
            const auto encoding = encoding_of_range(low, high, bits);
            ASSERT_TRUE(encoding);
            EXPECT_EQ(test::real(*encoding, encoding->zero), 0);
            EXPECT_GE(encoding->zero, 0);
            EXPECT_LE(encoding->zero, encoding->max());
            for (int i = 0; i < 100; ++i) {
                const float x = low + (high - low) * static_cast<float>(draw.uniform());
                uint16_t q = 0;
                float back = 0;
                EXPECT_EQ(quantize(*encoding, &x, 1, &q), 0);
                dequantize(*encoding, &q, 1, &back);
                EXPECT_NEAR(back, x, 1.01 * static_cast<double>(encoding->scale));
            }
        }
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(encoding_of_range(0, inf, 16));
    EXPECT_FALSE(encoding_of_range(nan, 1, 16));
    EXPECT_FALSE(encoding_of_range(2, 1, 16));
    EXPECT_FALSE(kv_encoding(-1));
    EXPECT_FALSE(kv_encoding(nan));
    const Encoding kv = *kv_encoding(2.54f);
    const float x[] = {2.54f, -2.54f, 100, -100, 0, inf, -inf, nan};
    uint16_t q[8];
    EXPECT_EQ(quantize(kv, x, 8, q), 1);
    const uint16_t expected[] = {255, 1, 255, 0, 128, 255, 0, 128};
    for (int i = 0; i < 8; ++i) EXPECT_EQ(q[i], expected[i]) << i;
}

TEST(Requant, RoundsHalvesUpAndNeverOverflows) {
    EXPECT_EQ(round_shift(3, 1), 2);
    EXPECT_EQ(round_shift(-3, 1), -1);
    EXPECT_EQ(round_shift(-4, 2), -1);
    EXPECT_EQ(round_shift(int64_t{1} << 61, 62), 1);
    Draw draw(2);
    for (int i = 0; i < 2000; ++i) {
        const double real = std::exp(60 * draw.uniform() - 40);
        const int64_t bound = int64_t{1} << draw.integer(0, 60);
        const auto m = make_multiplier(real, bound);
        if (!m) {
            EXPECT_GT(real * static_cast<double>(bound), 0x1p60);
            continue;
        }
        ASSERT_GE(m->shift, 1);
        ASSERT_LE(m->shift, 62);
        __extension__ using Wide = __int128;
        const Wide largest = Wide{bound} * m->mult + (int64_t{1} << (m->shift - 1));
        ASSERT_LE(largest, Wide{std::numeric_limits<int64_t>::max()});
        const double exact = real * static_cast<double>(bound);
        const double allowed = 1 + std::ldexp(exact, m->lost_bits - 24);
        ASSERT_NEAR(static_cast<double>(m->apply(bound)), exact, allowed) << real << " * " << bound;
        ASSERT_NEAR(static_cast<double>(m->apply(-bound)), -exact, allowed);
    }
    EXPECT_EQ(make_multiplier(0, 1 << 20)->apply(12345), 0);
    EXPECT_EQ(make_multiplier(1e-300, 1 << 20)->apply(1 << 20), 0);
    EXPECT_FALSE(make_multiplier(0x1p30, 1));
    EXPECT_FALSE(make_multiplier(-1, 1));
    EXPECT_FALSE(make_multiplier(std::nan(""), 1));
}

struct PlainLinearCase {
    QuantizedWeights weights;
    Linear op;
    std::vector<float> bias;
    std::vector<uint16_t> x, y;
};

/// Outputs of a width that the sums fill: about four standard deviations each way.
Encoding output_encoding(const QuantizedWeights& w, const Encoding& in, int bits) {
    double spread = 0;
    for (int64_t o = 0; o < w.n_out; ++o)
        for (int64_t i = 0; i < w.n_in; ++i) spread += std::pow(static_cast<double>(w.value(o, i)), 2);
    spread = std::sqrt(spread / static_cast<double>(w.n_out)) * static_cast<double>(in.scale) * in.max();
    return *encoding_of_range(static_cast<float>(-spread), static_cast<float>(1.1 * spread), bits);
}

TEST(Linear, WithinHalfAStepOfTheRealSum) {
    Draw draw(3);
    for (const WeightRecipe& recipe : weight_recipes())
        for (const int bits_in : {8, 16})
            for (const int bits_out : {8, 16}) {
                const int64_t n_in = draw.integer(1, 300), n_out = draw.integer(1, 20), rows = 5;
                const auto w = draw.gauss(n_in * n_out);
                const auto bias = draw.gauss(n_out);
                const auto weights = quantize_weights(recipe, w.data(), n_out, n_in);
                const Encoding in = draw.encoding(bits_in), out = output_encoding(*weights, in, bits_out);
                const auto op = make_linear(*weights, bias.data(), in, out);
                ASSERT_TRUE(op) << op.error().message;
                EXPECT_EQ(op->n_reduced, 0);
                const auto x = draw.codes(in, rows * n_in);
                std::vector<uint16_t> y(static_cast<size_t>(rows * n_out));
                linear_reference(*op, x.data(), rows, y.data());
                for (int64_t m = 0; m < rows; ++m)
                    for (int64_t n = 0; n < n_out; ++n) {
                        double sum = static_cast<double>(bias[static_cast<size_t>(n)]);
                        for (int64_t k = 0; k < n_in; ++k)
                            sum += test::real(in, x[static_cast<size_t>(m * n_in + k)]) *
                                   (weights->w8(n, k) *
                                    static_cast<double>(weights->scale[static_cast<size_t>(n)]));
                        // Half a step by rounding and half a unit of the sum by the bias's; the factor's 24
                        // bits add little.
                        const double unit = static_cast<double>(in.scale) *
                                            static_cast<double>(weights->scale[static_cast<size_t>(n)]);
                        const double allowed = 0.51 + 0.5 * unit / static_cast<double>(out.scale);
                        EXPECT_LE(test::steps_off(out, y[static_cast<size_t>(m * n_out + n)], sum), allowed);
                    }
            }
}

/// The error of the matrix unit's rounding against the exact result: the 12 bits of its factor, and at most
/// two units of the sums.
TEST(Linear, HmxIsNearTheExactOutput) {
    Draw draw(4);
    int64_t most = 0, n_equal = 0, n_all = 0;
    for (int i = 0; i < 200; ++i) {
        const auto recipes = weight_recipes();
        const WeightRecipe& recipe = recipes[static_cast<size_t>(i) % recipes.size()];
        const int bits_in = i % 4 ? 16 : 8;
        const int64_t n_in = draw.integer(1, 2000), n_out = 8, rows = 4;
        const auto w = draw.gauss(n_in * n_out);
        const auto bias = draw.gauss(n_out);
        const auto weights = quantize_weights(recipe, w.data(), n_out, n_in);
        const Encoding in = draw.encoding(bits_in), out = output_encoding(*weights, in, 16);
        const auto exact = make_linear(*weights, bias.data(), in, out);
        const auto hmx = make_linear(*weights, bias.data(), in, out, OutputMode::Hmx);
        ASSERT_TRUE(exact && hmx);
        const auto x = draw.codes(in, rows * n_in);
        std::vector<uint16_t> y(static_cast<size_t>(rows * n_out)), near(y.size());
        linear_reference(*exact, x.data(), rows, y.data());
        linear_reference(*hmx, x.data(), rows, near.data());
        for (size_t j = 0; j < y.size(); ++j) {
            const Requant& r = hmx->requant[j % static_cast<size_t>(n_out)];
            ASSERT_LE(r.mult, 4096);
            const int64_t off = std::abs(int64_t{y[j]} - near[j]);
            const double lost = bits_in == 16 ? 2 * std::ldexp(r.mult, -r.shift) : 0;
            ASSERT_LE(static_cast<double>(off), std::abs(y[j] - out.zero) * 0x1p-12 + lost + 1) << i;
            most = std::max(most, off);
            n_equal += off == 0;
            ++n_all;
        }
    }
    RecordProperty("most_steps_of_16_bits", std::to_string(most));
    RecordProperty("percent_equal", std::to_string(100 * n_equal / n_all));
    EXPECT_GT(most, 0);
    EXPECT_LE(most, 8);
}

TEST(Linear, OutputsWithoutWeightsAreTheBias) {
    const std::vector<float> w(8), bias = {0.5f, -3.0f};
    const auto weights = quantize_weights({Kind::Lpbq, 32}, w.data(), 2, 4);
    const Encoding in = *encoding_of_range(-1, 1, 16), out = *encoding_of_range(-4, 4, 16);
    const auto op = make_linear(*weights, bias.data(), in, out);
    ASSERT_TRUE(op);
    const uint16_t x[] = {0, 65535, 1, 2};
    uint16_t y[2];
    linear_reference(*op, x, 1, y);
    EXPECT_NEAR(test::real(out, y[0]), 0.5, 1e-4);
    EXPECT_NEAR(test::real(out, y[1]), -3.0, 1e-4);
}

TEST(Linear, RefusesWhatMightOverflow) {
    // 66 312 inputs of 127 times 255 exceed 31 bits, one fewer does not.
    for (const int64_t n_in : {66312, 66311}) {
        const std::vector<float> w(static_cast<size_t>(n_in), 1.0f);
        const auto weights = quantize_weights({Kind::Int8, 0}, w.data(), 1, n_in);
        const Encoding in = *encoding_of_range(0, 1, 16), out = *encoding_of_range(0, 1e5f, 16);
        const auto op = make_linear(*weights, nullptr, in, out);
        EXPECT_EQ(op.has_value(), n_in == 66311);
        if (!op) {
            EXPECT_NE(op.error().message.find("output 0: a sum of up to"), std::string::npos);
            continue;
        }
        const std::vector<uint16_t> x(static_cast<size_t>(n_in), 65535);
        uint16_t y = 0;
        linear_reference(*op, x.data(), 1, &y);
        EXPECT_NEAR(test::real(out, y), 66311, 2);
    }
    const float one = 1;
    const auto weights = quantize_weights({Kind::Int8, 0}, &one, 1, 1);
    const Encoding in = *encoding_of_range(0, 1, 16), out = *encoding_of_range(0, 1, 16);
    const float infinite = std::numeric_limits<float>::infinity(), large = 1e30f;
    EXPECT_NE(make_linear(*weights, &infinite, in, out).error().message.find("output 0: the bias inf"),
              std::string::npos);
    EXPECT_FALSE(make_linear(*weights, &large, in, out));
    // A bias that leaves less than 24 bits for the factor; clamping is still correct.
    const float much = 1e7f;
    const auto reduced = make_linear(*weights, &much, in, out);
    ASSERT_TRUE(reduced) << reduced.error().message;
    EXPECT_EQ(reduced->n_reduced, 1);
    const uint16_t x = 5;
    uint16_t y = 0;
    linear_reference(*reduced, &x, 1, &y);
    EXPECT_EQ(y, 65535);
}

}  // namespace
}  // namespace tessera::npu
