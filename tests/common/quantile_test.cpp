#include "common/quantile.h"

#include <gtest/gtest.h>

#include "common/clock.h"

namespace tessera {
namespace {

TEST(Quantile, LiesBetweenTheNeighbours) {
    const std::vector<double> four = {1, 2, 4, 8};
    EXPECT_EQ(quantile(four, 0), 1);
    EXPECT_EQ(quantile(four, 0.5), 3);
    EXPECT_EQ(quantile(four, 1), 8);
    EXPECT_DOUBLE_EQ(quantile(four, 0.9), 0.3 * 4 + 0.7 * 8);
    EXPECT_EQ(quantile(std::vector<float>{5}, 0.99), 5);
    EXPECT_EQ(quantile(std::vector<float>{}, 0.5), 0);
}

TEST(Clock, NeverGoesBack) {
    double last = now_seconds();
    for (int i = 0; i < 1000; ++i) {
        const double now = now_seconds();
        EXPECT_GE(now, last);
        last = now;
    }
}

}  // namespace
}  // namespace tessera
