// The normalization of a row of logits against a plain softmax.
#include "src/sample/row_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/rng.h"

namespace tessera::sample {
namespace {

std::vector<float> random_row(size_t n, uint64_t seed, float sigma) {
    std::vector<float> row(n);
    Rng rng(seed);
    for (float& x : row) x = sigma * static_cast<float>(2 * rng.next_double() - 1);
    return row;
}

TEST(RowNorm, LogSumIsThatOfAPlainSoftmax) {
    const std::vector<float> row = random_row(999, 7, 8);
    const auto norm = row_norm(row);
    ASSERT_TRUE(norm.has_value());
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x));
    EXPECT_NEAR(norm->log_sum, std::log(sum), 1e-6);
    EXPECT_EQ(norm->max, row[static_cast<size_t>(norm->argmax)]);
}

TEST(RowNorm, LogitsThatAreNotFiniteAreErrors) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
        std::vector<float> row = random_row(9, 1, 1);
        row[4] = bad;
        const auto norm = row_norm(row);
        ASSERT_FALSE(norm.has_value());
        EXPECT_NE(norm.error().message.find("token 4"), std::string::npos);
    }
}

}  // namespace
}  // namespace tessera::sample
