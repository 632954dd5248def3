// Scores, probabilities and weighted values against real numbers.
#include "src/npu/attention.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/npu/support.h"

namespace tessera::npu {
namespace {

using test::Draw;
using test::real;
using test::steps_off;

TEST(DynamicProduct, IsTheNearestCode) {
    Draw draw(1);
    const Encoding kv = *kv_encoding(3.0f);
    for (const int64_t n_k : {1, 64, 128, 1000}) {
        const Encoding x = draw.encoding(16);
        const float widest = 3 * x.scale * 65535 * std::sqrt(static_cast<float>(n_k));
        const Encoding y = *encoding_of_range(-widest, widest, 16);
        const double factor = 1 / std::sqrt(static_cast<double>(n_k));
        const auto op = DynamicProduct::create(x, kv, y, factor, n_k);
        ASSERT_TRUE(op) << op.error().message;
        for (const int64_t stride : {int64_t{1}, n_k}) {
            const auto q = draw.codes(x, n_k);
            std::vector<uint8_t> w(static_cast<size_t>(n_k * stride));
            for (uint8_t& v : w) v = static_cast<uint8_t>(draw.integer(0, 255));
            double sum = 0;
            for (int64_t k = 0; k < n_k; ++k)
                sum += real(x, q[static_cast<size_t>(k)]) * real(kv, w[static_cast<size_t>(k * stride)]);
            EXPECT_LE(steps_off(y, op->apply(q.data(), w.data(), stride, n_k), factor * sum), 0.51);
        }
    }
    const Encoding x = *encoding_of_range(0, 1, 16);
    EXPECT_FALSE(DynamicProduct::create(x, x, x, 1, 4));
    EXPECT_FALSE(DynamicProduct::create(x, kv, x, 1, 65537));
    // The longest sum of the largest products.
    const auto longest = DynamicProduct::create(x, kv, *encoding_of_range(-1e6f, 1e6f, 16), 1, 65536);
    ASSERT_TRUE(longest);
    const std::vector<uint16_t> ones(65536, 65535);
    const std::vector<uint8_t> low(65536, 0);
    EXPECT_NEAR(static_cast<double>(longest->apply(ones.data(), low.data(), 1, 65536)),
                (1 - 65536 * 3.0 * 128 / 127 / 1e6) * 32767.5, 2);
}

TEST(MaskedSoftmax, WithinAStepAndExactlyZeroWhereMasked) {
    Draw draw(2);
    for (int i = 0; i < 100; ++i) {
        const Encoding scores = draw.encoding(16);
        const MaskedSoftmax softmax(scores);
        const int64_t n = draw.integer(1, 600), first = draw.integer(0, n - 1),
                      last = draw.integer(first + 1, n);
        const auto x = draw.codes(scores, n);
        std::vector<uint16_t> p(x.size(), 7);
        softmax.apply(x.data(), n, first, last, p.data());
        double largest = -1e9, sum = 0;
        for (int64_t j = first; j < last; ++j)
            largest = std::max(largest, real(scores, x[static_cast<size_t>(j)]));
        for (int64_t j = first; j < last; ++j)
            sum += std::exp(real(scores, x[static_cast<size_t>(j)]) - largest);
        for (int64_t j = 0; j < n; ++j) {
            const bool allowed = j >= first && j < last;
            const double exact =
                allowed ? std::exp(real(scores, x[static_cast<size_t>(j)]) - largest) / sum : 0;
            ASSERT_TRUE(allowed || p[static_cast<size_t>(j)] == 0);
            ASSERT_LE(steps_off(MaskedSoftmax::output(), p[static_cast<size_t>(j)], exact), 0.51);
        }
        // Masked scores make no difference, and neither does overwriting the scores in place.
        auto other = x;
        for (int64_t j = 0; j < n; ++j)
            if (j < first || j >= last) other[static_cast<size_t>(j)] = 65535;
        softmax.apply(other.data(), n, first, last, other.data());
        ASSERT_EQ(other, p);
    }
}

TEST(MaskedSoftmax, Edges) {
    const MaskedSoftmax softmax(*encoding_of_range(-20, 20, 16));
    const std::vector<uint16_t> same(65536, 1234);
    std::vector<uint16_t> p(same.size());
    softmax.apply(same.data(), 65536, 0, 65536, p.data());
    EXPECT_EQ(p[0], 1);  // 65535 / 65536, rounded
    softmax.apply(same.data(), 65536, 9, 10, p.data());
    EXPECT_EQ(p[9], 65535);
    EXPECT_EQ(p[10], 0);
    softmax.apply(same.data(), 10, 5, 5, p.data());
    EXPECT_EQ(p[9], 0);
    // Scores so far apart that exp is 0.
    const MaskedSoftmax steep(*encoding_of_range(-1e6f, 1e6f, 16));
    const uint16_t two[] = {0, 65535};
    steep.apply(two, 2, 0, 2, p.data());
    EXPECT_EQ(p[0], 0);
    EXPECT_EQ(p[1], 65535);
}

}  // namespace
}  // namespace tessera::npu
