// Products by OpenBLAS against sums in double precision, for weights of each type that has an encoder, in
// rows and packed. Skips where the library is not installed. The models' logits: tests/model/blas_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "ggml-like/blas/products.h"
#include "quants/dispatch.h"

namespace tessera::test {

namespace {

/// More rows and columns than are decoded at once, a remainder of each, and a packed group that is not full.
constexpr int64_t kOut = 133, kIn = 1280, kTokens = 33;

std::vector<float> random_floats(int64_t n, uint32_t seed) {
    std::mt19937 rng(seed);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = static_cast<float>(static_cast<int>(rng() % 2001) - 1000) * 1e-3f;
    return x;
}

/// A matrix of random weights, and their exact values.
struct Matrix {
    std::vector<std::byte> data;
    std::vector<float> values;
    Weight w;

    Matrix(Type type, Layout layout) {
        const TypeInfo& info = type_info(type);
        const auto row_bytes = static_cast<size_t>(info.row_bytes(kIn));
        const std::vector<float> x = random_floats(kOut * kIn, 1);
        std::vector<std::byte> rows(row_bytes * kOut);
        info.quantize(x.data(), nullptr, rows.data(), kOut * kIn);
        values.resize(x.size());
        info.dequantize(rows.data(), values.data(), kOut * kIn);
        data = rows;
        data.resize(row_bytes * kernels::kGroupRows *
                    ((kOut + kernels::kGroupRows - 1) / kernels::kGroupRows));
        if (layout == Layout::Packed)
            for (int64_t r = 0; r < kOut; r += kernels::kGroupRows) {
                const size_t at = static_cast<size_t>(r) * row_bytes;
                const auto& packed = kernels::all_isas().back().table->packed[static_cast<uint32_t>(type)];
                packed.pack(rows.data() + at, row_bytes,
                            static_cast<int>(std::min<int64_t>(kernels::kGroupRows, kOut - r)), kIn,
                            data.data() + at);
            }
        w = {.type = type,
             .layout = layout,
             .n_out = kOut,
             .n_in = kIn,
             .data = data.data(),
             .row_bytes = row_bytes};
    }
};

/// A float sum of n products in any order is off by at most n * 2^-24 of the sum of their magnitudes, to
/// first order.
void expect_rounded_sums(const Matrix& m, const std::vector<float>& x, const std::vector<float>& y) {
    for (int64_t t = 0; t < kTokens; ++t)
        for (int64_t r = 0; r < kOut; ++r) {
            double sum = 0, magnitude = 0;
            for (int64_t k = 0; k < kIn; ++k) {
                const double product = static_cast<double>(m.values[static_cast<size_t>(r * kIn + k)]) *
                                       static_cast<double>(x[static_cast<size_t>(t * kIn + k)]);
                sum += product;
                magnitude += std::abs(product);
            }
            const double found = static_cast<double>(y[static_cast<size_t>(t * kOut + r)]);
            ASSERT_NEAR(found, sum, static_cast<double>(kIn) * 0x1p-24 * magnitude)
                << type_info(m.w.type).name << " row " << r << " token " << t;
        }
}

TEST(FloatProducts, AreSumsWithinRounding) {
    const auto products = blas::float_products();
    if (!products) GTEST_SKIP() << products.error().message;
    const cpu::VecTable& vec = *cpu::vec_table(kernels::all_isas().back().table->name);
    const std::vector<float> x = random_floats(kTokens * kIn, 2);
    std::vector<float> scratch(kernels::kPackedScratchBytes / sizeof(float));
    for (const TypeInfo& info : all_types()) {
        if (info.role != TypeRole::Weight || !info.quantize) continue;
        for (const Layout layout : {Layout::Rows, Layout::Packed}) {
            if (layout == Layout::Packed && info.block > 1) continue;  // takes the integer path
            const Matrix m(info.type, layout);
            std::vector<float> y(static_cast<size_t>(kTokens * kOut), NAN);
            products->multiply(m.w,
                               {.w = m.w.data,
                                .w_stride = m.w.row_bytes,
                                .n_rows = kOut,
                                .n_k = kIn,
                                .x = x.data(),
                                .x_stride = kIn,
                                .n_tok = kTokens,
                                .y = y.data(),
                                .y_stride = kOut,
                                .scratch = scratch.data()},
                               vec);
            expect_rounded_sums(m, x, y);
        }
    }
}

}  // namespace

}  // namespace tessera::test
