// Quantized weights: signal-to-noise ratios against the design's figures, and the range of codes.
#include "src/npu/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/npu/support.h"

namespace tessera::npu {
namespace {

using Kind = WeightRecipe::Kind;
using test::Draw;

double decibel(const WeightRecipe& recipe, const std::vector<float>& w, int64_t n_in) {
    const auto q = quantize_weights(recipe, w.data(), static_cast<int64_t>(w.size()) / n_in, n_in);
    return q ? q->sqnr_db(w.data()) : 0;
}

TEST(Weights, SignalToNoiseOfLpbq) {
    constexpr int64_t n_in = 2048, n_out = 128;
    Draw draw(1);
    std::vector<float> gauss = draw.gauss(n_in * n_out), laplace(gauss.size());
    for (float& v : laplace) v = draw.laplace();
    // At least the ratio of plain rounding; float scales for each block would give 21.40, 20.33, 19.27.
    EXPECT_GT(decibel({Kind::Lpbq, 16}, gauss, n_in), 21.24);
    EXPECT_GT(decibel({Kind::Lpbq, 32}, gauss, n_in), 20.27);
    EXPECT_GT(decibel({Kind::Lpbq, 64}, gauss, n_in), 19.25);
    EXPECT_GT(decibel({Kind::Lpbq, 16}, laplace, n_in), 19.64);
    EXPECT_GT(decibel({Kind::Lpbq, 64}, laplace, n_in), 16.94);
    // 8 bits: a step is 2 largest / 254.
    EXPECT_GT(decibel({Kind::Int8, 0}, gauss, n_in), 40);
}

/// Weights as Q4_0 has them: in each block of 32 the one of the largest magnitude is -8 steps.
TEST(Weights, SignedMultipliersKeepMoreOfQ4_0) {
    constexpr int64_t n_in = 2048, n_out = 64;
    Draw draw(2);
    const std::vector<float> source = draw.gauss(n_in * n_out);
    std::vector<float> w(source.size());
    for (size_t b = 0; b < source.size(); b += 32) {
        float top = 0;
        for (size_t i = b; i < b + 32; ++i)
            if (std::fabs(source[i]) > std::fabs(top)) top = source[i];
        const float d = top / -8;
        for (size_t i = b; i < b + 32; ++i)
            w[i] = d * std::min(std::max(std::rint(source[i] / d), -8.0f), 7.0f);
    }
    const auto folded = quantize_weights({Kind::Lpbq, 32}, w.data(), n_out, n_in);
    const auto with_sign = quantize_weights({Kind::SignedLpbq, 32}, w.data(), n_out, n_in);
    ASSERT_TRUE(folded && with_sign);
    // Against the original weights of the file as a whole: Q4_0 has 21.3.
    EXPECT_GT(folded->sqnr_db(source.data()), 19.5);
    EXPECT_GT(with_sign->sqnr_db(source.data()), folded->sqnr_db(source.data()) + 0.3);
}

TEST(Weights, CodesStayInTheirRanges) {
    Draw draw(3);
    for (const WeightRecipe& recipe : weight_recipes())
        for (const int64_t n_in : {1, 15, 16, 33, 64, 100}) {
            std::vector<float> w(static_cast<size_t>(4 * n_in));
            for (float& v : w) v = draw.gauss() * std::exp(3 * draw.gauss());
            const auto q = quantize_weights(recipe, w.data(), 4, n_in);
            ASSERT_TRUE(q);
            EXPECT_EQ(static_cast<int64_t>(q->block_mult.size()), 4 * recipe.n_blocks(n_in));
            for (int64_t o = 0; o < 4; ++o)
                for (int64_t i = 0; i < n_in; ++i)
                    EXPECT_LE(std::abs(q->w8(o, i)), recipe.has_blocks() ? 120 : 127);
            for (const int8_t m : q->block_mult) {
                EXPECT_NE(m, 0);
                EXPECT_TRUE(recipe.kind == Kind::SignedLpbq || (m >= 1 && m <= 16));
            }
        }
}

TEST(Weights, EdgesOfFloats) {
    const float huge = 1e38f, tiny = std::numeric_limits<float>::denorm_min();
    for (const WeightRecipe& recipe : weight_recipes()) {
        const std::vector<float> w = {0, 0, 0, 0, huge, -huge, 1, tiny, tiny, 0, -tiny, 0};
        const auto q = quantize_weights(recipe, w.data(), 3, 4);
        ASSERT_TRUE(q) << recipe.name();
        EXPECT_EQ(q->scale[0], 0);
        EXPECT_EQ(q->value(0, 3), 0);
        EXPECT_NEAR(q->value(1, 0) / huge, 1, 0.13);
        EXPECT_NEAR(q->value(1, 1) / huge, -1, 0.13);
        const float nan = std::numeric_limits<float>::quiet_NaN();
        const float bad[] = {1, 2, nan, 4};
        const auto refused = quantize_weights(recipe, bad, 2, 2);
        ASSERT_FALSE(refused);
        EXPECT_NE(refused.error().message.find("output 1, input 0"), std::string::npos);
    }
    const std::vector<float> zeros(8);
    EXPECT_TRUE(std::isinf(decibel({Kind::Lpbq, 16}, zeros, 8)));
}

TEST(Weights, NamesOfRecipes) {
    for (const WeightRecipe& recipe : weight_recipes()) {
        const auto again = parse_weight_recipe(recipe.name());
        ASSERT_TRUE(again);
        EXPECT_EQ(again->name(), recipe.name());
    }
    EXPECT_NE(parse_weight_recipe("lpbq8").error().message.find("lpbq16, lpbq32"), std::string::npos);
}

}  // namespace
}  // namespace tessera::npu
