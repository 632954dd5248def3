// Every kernel table, every weight type: bit-equal to a plain loop over the reference decoder, for all shapes
// of tails, at any alignment, without touching a byte beyond the weights, the activations or the output.
// Floats as rows and as packed groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/f16.h"
#include "quants/dispatch.h"
#include "quants/types.h"
#include "tests/quants/tables.h"
#include "tests/support/guarded_buffer.h"

namespace tessera {
namespace {

/// One more than the largest block of panels, 4 x 16, and another panel.
constexpr int kMaxRows = 81;
/// Tokens at most: of types that have packed floats, and of the others.
constexpr int kMaxTok = 33, kMaxRowsTok = 25;
constexpr int kRowCounts[] = {1, 7, 8, 15, 17, 33, 64, 81};
constexpr int kTokCounts[] = {1, 2, 3, 5, 6, 7, 12, 17, 25};
constexpr int kPackedRowCounts[] = {1, 7, 8, 9, 15, 16, 17, 24, 25, 31, 33, 64, 81};
/// Up to more tokens than streams take with the largest tiles, 24.
constexpr int kPackedTokCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 24, 25, 33};

using Random = std::mt19937;

std::vector<const TypeInfo*> weight_types() {
    std::vector<const TypeInfo*> types;
    for (const TypeInfo& info : all_types()) {
        if (info.role == TypeRole::Weight) types.push_back(&info);
    }
    return types;
}

/// Row lengths from the shortest to several steps of a kernel, including ends within a step.
std::vector<int64_t> row_lengths(const TypeInfo& info) {
    if (info.block == 1) return {1, 3, 17, 256, 259, 1037};
    if (info.block < 256) return {info.block, 256, info.block * 11, 768, info.block * 33};
    return {info.block, 3 * info.block, 5 * info.block};
}

/// Random bits whose weights are finite and not so large that sums overflow. Scales, at either end of the
/// block, are extreme halves: zeros, subnormals, the largest, of both signs.
void random_block(const TypeInfo& info, Random& rng, std::byte* block) {
    constexpr uint16_t kExtreme[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x7bff, 0xfbff};
    std::vector<float> weights(static_cast<size_t>(info.block));
    const auto size = static_cast<size_t>(info.block_bytes);
    for (bool fit = false; !fit;) {
        for (size_t i = 0; i < size; i++) block[i] = static_cast<std::byte>(rng());
        for (const int at : {0, 2, info.block_bytes - 2, info.block_bytes - 4}) {
            if (rng() % 8 != 0 || at < 0 || at + 2 > info.block_bytes) continue;
            std::memcpy(block + at, &kExtreme[rng() % std::size(kExtreme)], 2);
        }
        info.dequantize(block, weights.data(), info.block);
        fit = true;
        for (const float w : weights) fit = fit && std::abs(w) < 1e9f;
    }
}

std::vector<float> random_floats(size_t n, Random& rng) {
    std::normal_distribution<float> normal;
    std::vector<float> x(n);
    for (float& v : x) {
        v = normal(rng);
        if (rng() % 16 == 0) v = rng() % 2 ? 0.0f : -0.0f;
        if (rng() % 64 == 0) v *= 1e-38f;
    }
    return x;
}

/// One weight matrix of a type with activations, and the product by definition.
struct Case {
    Case(const TypeInfo& type, int64_t k, Random& rng)
        : info(type), n_k(k), row_bytes(static_cast<size_t>(type.row_bytes(k))) {
        w.resize(kMaxRows * row_bytes);
        for (size_t at = 0; at < w.size(); at += static_cast<size_t>(info.block_bytes))
            random_block(info, rng, &w[at]);
        const int most_tok = info.block == 1 ? kMaxTok : kMaxRowsTok;
        x = random_floats(static_cast<size_t>(most_tok * k), rng);
        y.resize(static_cast<size_t>(most_tok * kMaxRows));
        std::vector<float> row(static_cast<size_t>(k));
        for (int r = 0; r < kMaxRows; r++) {
            info.dequantize(w.data() + static_cast<size_t>(r) * row_bytes, row.data(), k);
            for (int t = 0; t < most_tok; t++) {
                float acc = 0;
                for (int64_t i = 0; i < k; i++)
                    acc = std::fmaf(row[static_cast<size_t>(i)], x[static_cast<size_t>(t * k + i)], acc);
                y[static_cast<size_t>(t * kMaxRows + r)] = acc;
            }
        }
    }

    const TypeInfo& info;
    int64_t n_k;
    size_t row_bytes;
    std::vector<std::byte> w;
    std::vector<float> x;  // [kMaxTok or kMaxRowsTok, n_k]
    std::vector<float> y;  // [kMaxTok or kMaxRowsTok, kMaxRows]
};

class Scratch {
  public:
    float* get() const { return memory_.get(); }

  private:
    struct Free {
        void operator()(float* p) const { std::free(p); }
    };
    std::unique_ptr<float, Free> memory_{
        static_cast<float*>(std::aligned_alloc(64, kernels::kScratchFloats * sizeof(float)))};
};

/// Places the first rows and tokens of the case before guard pages. `gap` bytes between rows and after the
/// last row give every alignment; with gap 0 the last byte of the weights is the last readable one.
class Product {
  public:
    void run(const kernels::KernelTable& table, const Case& c, int n_rows, int n_tok, size_t gap) {
        const size_t stride = c.row_bytes + gap;
        std::byte* w = w_.last(static_cast<size_t>(n_rows - 1) * stride + c.row_bytes);
        for (int r = 0; r < n_rows; r++) {
            std::memcpy(w + static_cast<size_t>(r) * stride,
                        c.w.data() + static_cast<size_t>(r) * c.row_bytes, c.row_bytes);
        }
        multiply(table, table.matmul_f32[static_cast<uint32_t>(c.info.type)], w, stride, c, n_rows, n_tok,
                 gap);
    }

    /// The same with packed groups, which end at unreadable memory, and with both prefetch distances.
    void run_packed(const kernels::KernelTable& table, const Case& c, int n_rows, int n_tok) {
        const auto id = static_cast<uint32_t>(c.info.type);
        const size_t group_bytes = kernels::kGroupRows * c.row_bytes;
        const int n_groups = (n_rows + kernels::kGroupRows - 1) / kernels::kGroupRows;
        std::byte* w = w_.last(static_cast<size_t>(n_groups) * group_bytes);
        for (int g = 0; g < n_groups; g++) {
            const size_t at = static_cast<size_t>(g) * group_bytes;
            table.packed[id].pack(c.w.data() + at, c.row_bytes,
                                  std::min(kernels::kGroupRows, n_rows - g * kernels::kGroupRows), c.n_k,
                                  w + at);
        }
        for (const auto prefetch : {kernels::kFloatsTwoSteps, kernels::kFloatsOneStep}) {
            multiply(table, table.matmul_packed_f32[id], w, c.row_bytes, c, n_rows, n_tok,
                     static_cast<size_t>(n_tok % 4), prefetch);
        }
    }

  private:
    void multiply(const kernels::KernelTable& table, kernels::MatmulFn matmul, const std::byte* w,
                  size_t stride, const Case& c, int n_rows, int n_tok, size_t gap,
                  kernels::PrefetchDistance prefetch = kernels::kFloatsTwoSteps) {
        const auto x_stride = c.n_k + static_cast<int64_t>(gap);
        float* x = x_.last_of<float>(static_cast<size_t>((n_tok - 1) * x_stride + c.n_k));
        for (int t = 0; t < n_tok; t++) {
            std::memcpy(x + t * x_stride, &c.x[static_cast<size_t>(t * c.n_k)],
                        static_cast<size_t>(c.n_k) * sizeof(float));
        }
        const int64_t y_stride = n_rows + 2;  // the two columns between the rows must survive
        float* y = y_.last_of<float>(static_cast<size_t>((n_tok - 1) * y_stride + n_rows));
        const float mark = 12345.0f;
        for (int64_t i = 0; i < (n_tok - 1) * y_stride + n_rows; i++) y[i] = mark;

        matmul(
            {w, stride, n_rows, c.n_k, x, x_stride, n_tok, y, y_stride, scratch_.get(), nullptr, prefetch});

        for (int t = 0; t < n_tok; t++) {
            const float* got = y + t * y_stride;
            ASSERT_EQ(0, std::memcmp(got, &c.y[static_cast<size_t>(t * kMaxRows)],
                                     static_cast<size_t>(n_rows) * sizeof(float)))
                << table.name << " " << c.info.name << " k=" << c.n_k << " rows=" << n_rows
                << " tok=" << n_tok << " gap=" << gap << " token " << t;
            if (t + 1 < n_tok) {
                ASSERT_TRUE(got[n_rows] == mark && got[n_rows + 1] == mark);
            }
        }
    }

    test::GuardedBuffer w_{size_t{kMaxRows} * 1300 * 4}, x_{size_t{kMaxTok} * 1300 * 4},
        y_{size_t{kMaxTok} * (kMaxRows + 2) * 4};
    Scratch scratch_;
};

/// One table for each distinct float product of the type, each packed product, and each product of panels.
auto matmul_tables(const TypeInfo& info) {
    return test::tables_by(
        [&](const kernels::KernelTable& t) { return t.matmul_f32[static_cast<uint32_t>(info.type)]; });
}
auto packed_tables(const TypeInfo& info) {
    return test::tables_by(
        [&](const kernels::KernelTable& t) { return t.matmul_packed_f32[static_cast<uint32_t>(info.type)]; });
}
auto panel_tables() {
    return test::tables_by([](const kernels::KernelTable& t) { return t.gemm_panels; });
}

class KernelsMatmul : public testing::TestWithParam<const TypeInfo*> {};

TEST_P(KernelsMatmul, EqualsThePlainLoopBitForBit) {
    Random rng(static_cast<uint32_t>(GetParam()->type));
    Product product;
    for (const int64_t n_k : row_lengths(*GetParam())) {
        const Case c(*GetParam(), n_k, rng);
        for (const kernels::KernelTable* table : matmul_tables(*GetParam())) {
            const bool slow = table == &test::scalar();  // one path for all shapes
            for (const int n_rows : kRowCounts) {
                for (const int n_tok : kTokCounts) {
                    if (slow && n_tok != 2 && n_tok != 7) continue;
                    ASSERT_NO_FATAL_FAILURE(
                        product.run(*table, c, n_rows, n_tok, static_cast<size_t>(n_tok % 4)));
                }
                ASSERT_NO_FATAL_FAILURE(product.run(*table, c, n_rows, 1, 0));
                ASSERT_NO_FATAL_FAILURE(product.run(*table, c, n_rows, 5, 0));
            }
        }
    }
}

TEST_P(KernelsMatmul, PackedFloatsEqualThePlainLoopBitForBit) {
    const auto id = static_cast<uint32_t>(GetParam()->type);
    Random rng(id);
    Product product;
    // For every table, whether or not this processor can run it.
    std::vector<const kernels::KernelTable*> tables = test::all_tables();
    for (const kernels::IsaInfo& isa : kernels::all_isas()) tables.push_back(isa.table);
    for (const kernels::KernelTable* table : tables) {
        ASSERT_EQ(table->matmul_packed_f32[id] != nullptr, GetParam()->block == 1) << table->name;
        ASSERT_EQ(table->packed[id].matmul == nullptr, GetParam()->block == 1) << table->name;
        ASSERT_NE(table->packed[id].pack, nullptr) << table->name;
    }
    if (GetParam()->block > 1) return;  // the packed path of the others multiplies integers
    for (const int64_t n_k : row_lengths(*GetParam())) {
        const Case c(*GetParam(), n_k, rng);
        for (const kernels::KernelTable* table : packed_tables(*GetParam())) {
            for (const int n_rows : kPackedRowCounts) {
                for (const int n_tok : kPackedTokCounts) {
                    if (table == &test::scalar() && n_tok != 2 && n_tok != 7) continue;
                    ASSERT_NO_FATAL_FAILURE(product.run_packed(*table, c, n_rows, n_tok));
                }
            }
        }
    }
}

TEST_P(KernelsMatmul, TimesTheIdentityIsTheDecodedWeights) {
    Random rng(static_cast<uint32_t>(GetParam()->type));
    constexpr int64_t n_k = 256, n_rows = 16;
    const Case c(*GetParam(), n_k, rng);
    std::vector<float> identity(n_k * n_k), row(n_k), y(n_k * n_rows);
    for (size_t k = 0; k < n_k; k++) identity[k * n_k + k] = 1.0f;
    const Scratch scratch;
    for (const kernels::KernelTable* table : matmul_tables(*GetParam())) {
        table->matmul_f32[static_cast<uint32_t>(c.info.type)]({c.w.data(), c.row_bytes, n_rows, n_k,
                                                               identity.data(), n_k, n_k, y.data(), n_rows,
                                                               scratch.get()});
        for (size_t r = 0; r < n_rows; r++) {
            c.info.dequantize(c.w.data() + r * c.row_bytes, row.data(), n_k);
            for (size_t k = 0; k < n_k; k++) {
                ASSERT_EQ(row[k], y[k * n_rows + r]) << table->name << " row " << r << " k " << k;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, KernelsMatmul, testing::ValuesIn(weight_types()),
                         [](const auto& row) { return std::string(row.param->name); });

TEST(KernelsTable, HasAProductForEveryWeightTypeAndForNothingElse) {
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        EXPECT_EQ(isa.name, isa.table->name);
        EXPECT_NE(isa.table->gemm_panels, nullptr);
        size_t n_entries = 0;
        for (const auto entry : isa.table->matmul_f32) n_entries += entry != nullptr;
        EXPECT_EQ(n_entries, weight_types().size());
        for (const TypeInfo* info : weight_types()) {
            EXPECT_NE(isa.table->matmul_f32[static_cast<uint32_t>(info->type)], nullptr) << info->name;
        }
    }
}

/// The result of plain loops over the floats w in the panels of `a`, added to y.
std::vector<float> plain_panels(const kernels::PanelsArgs& a, const std::vector<float>& w,
                                std::vector<float> y) {
    for (int64_t t = 0; t < a.n_tok; t++) {
        for (int64_t row = 0; row < 16 * a.n_panels; row++) {
            float acc = a.accumulate ? y[static_cast<size_t>(t * a.y_stride + row)] : 0.0f;
            for (int64_t k = 0; k < a.n_k; k++) {
                const int64_t at = row / 16 * a.panel_size + k * a.panel_stride + row % 16;
                acc = std::fmaf(w[static_cast<size_t>(at)], a.x[t * a.x_stride + k], acc);
            }
            y[static_cast<size_t>(t * a.y_stride + row)] = acc;
        }
    }
    return y;
}

/// Any number of tokens and panels gives that part of `whole` and leaves the rest of `start` unchanged.
void expect_parts(const kernels::KernelTable& table, kernels::PanelsArgs a, const std::vector<float>& whole,
                  const std::vector<float>& start) {
    const kernels::PanelsArgs all = a;
    for (a.n_panels = 0; a.n_panels <= all.n_panels; a.n_panels++) {
        auto want = start;
        for (a.n_tok = 0; a.n_tok <= all.n_tok; a.n_tok++) {
            if (a.n_tok > 0)
                std::copy_n(whole.begin() + (a.n_tok - 1) * a.y_stride, 16 * a.n_panels,
                            want.begin() + (a.n_tok - 1) * a.y_stride);
            auto got = start;
            a.y = got.data();
            table.gemm_panels(a);
            ASSERT_EQ(0, std::memcmp(want.data(), got.data(), want.size() * sizeof(float)))
                << table.name << (a.half ? " f16" : " f32") << " panels=" << a.n_panels << " tok=" << a.n_tok
                << " k=" << a.n_k << " accumulate=" << a.accumulate;
        }
    }
}

TEST(KernelsGemmPanels, EqualThePlainLoopAndContinue) {
    Random rng(7);
    // Two of the largest tiles, and one more.
    constexpr int64_t kMaxK = 70, kMaxPanels = 7, kMostTok = 49;
    // Strides from one panel to the next and from one k to the next: separate panels, or panels side by side
    // in long rows.
    constexpr int64_t kPlaces[][2] = {{kMaxK * 16, 16}, {kMaxK * 20, 20}, {16, 16 * kMaxPanels}};
    const auto floats = random_floats(kMaxPanels * kMaxK * 16 * kMaxPanels, rng);
    std::vector<uint16_t> halves(floats.size());
    std::vector<float> halves_as_floats(floats.size());
    for (size_t i = 0; i < floats.size(); i++) {
        halves[i] = f32_to_f16(floats[i]);
        halves_as_floats[i] = f16_to_f32(halves[i]);
    }
    const auto x = random_floats(kMostTok * kMaxK, rng),
               start = random_floats(kMostTok * 16 * kMaxPanels, rng);
    for (const auto& [panel_size, panel_stride] : kPlaces)
        for (const int64_t n_k : {0, 1, 5, 16, 70})
            for (const bool half : {false, true})
                for (const bool accumulate : {false, true}) {
                    kernels::PanelsArgs a{};
                    a.w = half ? static_cast<const void*>(halves.data()) : floats.data();
                    a.half = half;
                    a.n_panels = kMaxPanels;
                    a.panel_size = panel_size;
                    a.panel_stride = panel_stride;
                    a.n_k = n_k;
                    a.x = x.data();
                    a.x_stride = kMaxK;
                    a.n_tok = kMostTok;
                    a.y_stride = 16 * kMaxPanels;
                    a.accumulate = accumulate;
                    a.beside = accumulate ? x.data() : nullptr;
                    const auto whole = plain_panels(a, half ? halves_as_floats : floats, start);
                    for (const kernels::KernelTable* table : panel_tables())
                        expect_parts(*table, a, whole, start);
                }
}

}  // namespace
}  // namespace tessera
