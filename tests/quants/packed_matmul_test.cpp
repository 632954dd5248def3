// The packed product: the scalar table against the formula, every other table against the scalar one, bit for
// bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <string>

#include "tests/quants/packed_types.h"
#include "tests/support/guarded_buffer.h"

namespace tessera::test {
namespace {

constexpr int64_t kTokenCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 32, 33};
constexpr int64_t kPackedRowCounts[] = {5, 8, 13, 16, 24, 32, 40, 44, 56};
constexpr int64_t kMaxTokens = 33, kMaxRows = 56;

/// The result is as close to the exact dot product as its few float additions allow.
TEST(PackedMatmul, ScalarIsTheDotOfDequantizedNumbers) {
    for (const PackedType& t : packed_types()) {
        const int64_t n_k = 1024, n_rows = 19, n_tok = 3;
        const std::vector<uint8_t> rows = make_rows(t, n_rows, n_k, Fill::Random, 7);
        const std::vector<uint8_t> packed = pack_rows(t, scalar(), rows, n_k);
        const Tokens x = make_tokens(n_tok, n_k, Fill::Random, 8);
        const std::vector<float> y = multiply(t, scalar(), packed, x, n_rows, n_tok, n_rows);
        std::vector<float> w(static_cast<size_t>(n_k));
        for (int64_t r = 0; r < n_rows; r++) {
            t.info().dequantize(rows.data() + static_cast<size_t>(r) * t.row_bytes(n_k), w.data(), n_k);
            for (int64_t token = 0; token < n_tok; token++) {
                double dot = 0, size = 0;
                for (int64_t k = 0; k < n_k; k++) {
                    const size_t at = static_cast<size_t>(token * n_k + k);
                    const double product = double{w[static_cast<size_t>(k)]} * x.d[at / 32] * x.q[at];
                    dot += product;
                    size += std::fabs(product);
                }
                EXPECT_NEAR(dot, y[static_cast<size_t>(token * n_rows + r)], 1e-5 * size)
                    << t.name << " row " << r << " token " << token;
            }
        }
    }
}

void expect_equal_parts(const PackedType& t, const KernelTable& table, const std::vector<uint8_t>& packed,
                        const Tokens& x, const std::vector<float>& want, int64_t n_rows, int64_t n_tok) {
    const int64_t stride = n_rows + 3;
    const std::vector<float> got = multiply(t, table, packed, x, n_rows, n_tok, stride);
    for (int64_t token = 0; token < n_tok; token++) {
        const float* row = got.data() + token * stride;
        ASSERT_EQ(
            0, std::memcmp(want.data() + token * kMaxRows, row, sizeof(float) * static_cast<size_t>(n_rows)))
            << table.name << ' ' << t.name << " k " << x.n_k << " rows " << n_rows << " tokens " << n_tok
            << " token " << token;
        for (int64_t r = n_rows; r < stride; r++)
            ASSERT_EQ(kUntouched, row[r]) << table.name << ' ' << t.name;
    }
}

/// Any number of tokens and rows: the same bits as the scalar table gives for all of them at once.
TEST(PackedMatmul, TablesAgreeBitForBitInEveryShape) {
    for (const PackedType& t : packed_types()) {
        for (const int64_t n_k : {256, 512, 2048, 32 * 11}) {
            if (n_k % t.info().block != 0) continue;
            const std::vector<uint8_t> rows = make_rows(t, kMaxRows, n_k, Fill::Random, 11);
            const std::vector<uint8_t> packed = pack_rows(t, scalar(), rows, n_k);
            const Tokens x = make_tokens(kMaxTokens, n_k, Fill::Random, 12);
            const std::vector<float> want = multiply(t, scalar(), packed, x, kMaxRows, kMaxTokens, kMaxRows);
            expect_equal_parts(t, scalar(), packed, x, want, 13, 2);
            for (const KernelTable* table : vector_tables()) {
                for (const int64_t n_rows : kPackedRowCounts) {
                    for (const int64_t n_tok : kTokenCounts) {
                        expect_equal_parts(t, *table, packed, x, want, n_rows, n_tok);
                    }
                }
            }
        }
    }
}

/// The first n_tok tokens of x give the first rows of `want`, whichever kernel multiplies that many tokens.
void expect_first_tokens(const PackedType& t, const std::vector<uint8_t>& packed, const Tokens& x,
                         const std::vector<float>& want, int64_t n_rows,
                         std::initializer_list<int64_t> n_toks) {
    for (const KernelTable* table : vector_tables()) {
        for (const int64_t n_tok : n_toks) {
            const std::vector<float> got = multiply(t, *table, packed, x, n_rows, n_tok, n_rows);
            ASSERT_EQ(0, std::memcmp(want.data(), got.data(), sizeof(float) * got.size()))
                << table->name << ' ' << t.name << " tokens " << n_tok;
        }
    }
}

/// Prefetch changes nothing, and its addresses are never read: any will do.
TEST(PackedMatmul, PrefetchChangesNoBit) {
    const auto* nowhere = reinterpret_cast<const void*>(uintptr_t{4096});
    const void* none = nullptr;
    for (const PackedType& t : packed_types()) {
        // Enough groups for four and for two streams that are far apart, with one group left over and one
        // partial group.
        const int64_t n_k = 512, n_rows = 139;
        const std::vector<uint8_t> packed =
            pack_rows(t, scalar(), make_rows(t, n_rows, n_k, Fill::Random, 61), n_k);
        const Tokens x = make_tokens(8, n_k, Fill::Random, 62);
        const std::vector<float> want = multiply(t, scalar(), packed, x, n_rows, 8, n_rows);
        for (const KernelTable* table : vector_tables()) {
            for (const int64_t n_tok : {1, 2, 3, 4, 5, 8}) {
                for (const void* address : {nowhere, static_cast<const void*>(packed.data()), none}) {
                    for (const Prefetched& how :
                         {Prefetched{{}, address}, Prefetched{kernels::kFourStreams, address},
                          Prefetched{kernels::kCachedWeights, address},
                          Prefetched{kernels::kCachedWeights, nullptr, address, false},
                          Prefetched{kernels::kCachedWeights, nullptr, address, true}}) {
                        const std::vector<float> got =
                            multiply(t, *table, packed, x, n_rows, n_tok, n_rows, how);
                        ASSERT_EQ(0, std::memcmp(want.data(), got.data(), sizeof(float) * got.size()))
                            << table->name << ' ' << t.name << " tokens " << n_tok;
                    }
                }
            }
        }
    }
}

/// Four and two streams that would lie 33 * 2^15 bytes apart, or a part of that, are a group shorter each,
/// and what that leaves comes after them.
TEST(PackedMatmul, StreamsThatWouldAliasInL1AgreeBitForBit) {
    const int64_t n_k = 2048, n_rows = 1024 + 7;
    for (const PackedType& t : packed_types()) {
        if (t.type != Type::Q5_K && t.type != Type::Q5_0) continue;
        ASSERT_EQ(t.info().row_bytes(n_k) * 1024 * 3 / 4, size_t{33} << 15);
        const std::vector<uint8_t> packed =
            pack_rows(t, scalar(), make_rows(t, n_rows, n_k, Fill::Random, 63), n_k);
        const Tokens x = make_tokens(8, n_k, Fill::Random, 64);
        const std::vector<float> want = multiply(t, scalar(), packed, x, n_rows, 8, n_rows);
        for (const KernelTable* table : vector_tables()) {
            for (const int64_t n_tok : {1, 2, 3, 8}) {
                const std::vector<float> got =
                    multiply(t, *table, packed, x, n_rows, n_tok, n_rows, {kernels::kFourStreams});
                ASSERT_EQ(0, std::memcmp(want.data(), got.data(), sizeof(float) * got.size()))
                    << table->name << ' ' << t.name << " tokens " << n_tok;
            }
        }
    }
}

/// Rows longer than a panel continue in the next one, except with a pair of tiles (6, 8 tokens). Of rows this
/// long the packed activations of 27 tokens exceed the scratch, and one token's weights are prefetched.
TEST(PackedMatmul, LongRowsAgreeBitForBit) {
    for (const PackedType& t : packed_types()) {
        const int64_t n_k = 4 * 4096 + 512, n_rows = 16, n_tok = 34;
        const std::vector<uint8_t> packed =
            pack_rows(t, scalar(), make_rows(t, n_rows, n_k, Fill::Random, 21), n_k);
        const Tokens x = make_tokens(n_tok, n_k, Fill::Random, 22);
        expect_first_tokens(t, packed, x, multiply(t, scalar(), packed, x, n_rows, n_tok, n_rows), n_rows,
                            {1, 6, 8, 11, 27, n_tok});
    }
}

/// Rows enough to repay gathering tokens that share groups, tokens for streams and for panels, and a last row
/// that is on its own; k of a part of what starts are written down for, and of several short panels.
TEST(PackedMatmul, FewTokensOfManyRowsAgreeBitForBit) {
    for (const PackedType& t : packed_types()) {
        for (const int64_t n_k : {32 * 11, 2048 + 512}) {
            if (n_k % t.info().block != 0) continue;
            const int64_t n_rows = 137, n_tok = 33;
            const std::vector<uint8_t> packed =
                pack_rows(t, scalar(), make_rows(t, n_rows, n_k, Fill::Random, 71), n_k);
            const Tokens x = make_tokens(n_tok, n_k, Fill::Random, 72);
            expect_first_tokens(t, packed, x, multiply(t, scalar(), packed, x, n_rows, n_tok, n_rows), n_rows,
                                {2, 3, 4, 5, 6, 7, 8, 11, 32, n_tok});
        }
    }
}

/// Short rows, such as the keys of a head: every number of blocks below the number whose starts are stored at
/// once; their sums are the last readable ones.
TEST(PackedMatmul, RowsOfFewBlocksAgreeBitForBitAndReadNoFurther) {
    constexpr int64_t kRows = 137, kTokens = 33;
    const GuardedBuffer ends16(sizeof(int16_t) * 2 * kTokens * 7), ends8(sizeof(int16_t) * 4 * kTokens * 7);
    for (const PackedType& t : packed_types()) {
        if (t.info().block > 32) continue;
        for (int64_t n_k = 32; n_k < 256; n_k += 32) {
            const std::vector<uint8_t> packed =
                pack_rows(t, scalar(), make_rows(t, kRows, n_k, Fill::Random, 73), n_k);
            const Tokens x = make_tokens(kTokens, n_k, Fill::Random, 74);
            const std::vector<float> want = multiply(t, scalar(), packed, x, kRows, kTokens, kRows);
            for (const int64_t n_tok : {3, 6, 8, 33}) {
                expect_first_tokens(t, packed, x, want, kRows, {n_tok});
                const size_t n_blocks = static_cast<size_t>(n_tok * n_k / 32);
                ActView view = x.view();
                auto* sum16 = ends16.last_of<int16_t>(2 * n_blocks);
                auto* sum8 = ends8.last_of<int16_t>(4 * n_blocks);
                std::copy_n(view.sum16, 2 * n_blocks, sum16);
                std::copy_n(view.sum8, 4 * n_blocks, sum8);
                view.sum16 = sum16;
                view.sum8 = sum8;
                for (const KernelTable* table : vector_tables()) {
                    const std::vector<float> got =
                        multiply_view(t, *table, packed, view, n_k, kRows, n_tok, kRows);
                    ASSERT_EQ(0, std::memcmp(want.data(), got.data(), sizeof(float) * got.size()))
                        << table->name << ' ' << t.name << " k " << n_k << " tokens " << n_tok;
                }
            }
        }
    }
}

/// As many rows, and more tokens than the scratch has room for: of a panel, of two groups, and of a single
/// tile, which is padded for a codebook.
TEST(PackedMatmul, TokensThatCannotBePackedAgreeBitForBit) {
    const int64_t n_rows = 136,
                  shapes[][2] = {{4 * 4096 + 512, 27}, {24 * 4096, 3}, {24 * 4096, 5}, {24 * 4096, 8}};
    for (const PackedType& t : packed_types()) {
        if (t.type != Type::Q4_0 && t.type != Type::IQ2_XS) continue;
        for (const auto& [n_k, n_tok] : shapes) {
            const std::vector<uint8_t> packed =
                pack_rows(t, scalar(), make_rows(t, n_rows, n_k, Fill::Random, 81), n_k);
            const Tokens x = make_tokens(n_tok, n_k, Fill::Random, 82);
            expect_first_tokens(t, packed, x, multiply(t, scalar(), packed, x, n_rows, n_tok, n_rows), n_rows,
                                {n_tok});
        }
    }
}

/// More tokens than all panels of a call take at a time, and than the scratch buffer holds in tiles.
TEST(PackedMatmul, ManyTokensAgreeBitForBit) {
    const int64_t n_tok = 259, shapes[][2] = {{4096 + 512, 16}, {256, 137}};
    for (const PackedType& t : packed_types()) {
        for (const auto& [n_k, n_rows] : shapes) {
            const std::vector<uint8_t> packed =
                pack_rows(t, scalar(), make_rows(t, n_rows, n_k, Fill::Random, 51), n_k);
            const Tokens x = make_tokens(n_tok, n_k, Fill::Random, 52);
            expect_first_tokens(t, packed, x, multiply(t, scalar(), packed, x, n_rows, n_tok, n_rows), n_rows,
                                {n_tok});
        }
    }
}

/// The ends of the ranges of all numbers, where 16-bit sums come closest to saturation and 32-bit sums to
/// 2^24.
TEST(PackedMatmul, ExtremesAgreeBitForBit) {
    const int64_t n_k = 512, n_rows = 40;
    for (const PackedType& t : packed_types()) {
        for (const Fill weights : kFills) {
            const std::vector<uint8_t> packed =
                pack_rows(t, scalar(), make_rows(t, n_rows, n_k, weights, 31), n_k);
            for (const Fill acts : {Fill::Random, Fill::Largest, Fill::Smallest, Fill::Extremes}) {
                const Tokens x = make_tokens(11, n_k, acts, 32);
                SCOPED_TRACE("fills " + std::to_string(static_cast<int>(weights)) + " and " +
                             std::to_string(static_cast<int>(acts)));
                expect_first_tokens(t, packed, x, multiply(t, scalar(), packed, x, n_rows, 11, n_rows),
                                    n_rows, {1, 2, 3, 7, 11});
            }
        }
    }
}

/// With every number at the end of its range the integer sum has a closed form, which also checks the scalar
/// table.
TEST(PackedMatmul, LargestNumbersGiveTheExactSum) {
    for (const PackedType& t : packed_types()) {
        const int64_t n_k = t.info().block, n_rows = 8;
        const std::vector<uint8_t> rows = make_rows(t, n_rows, n_k, Fill::Largest, 41);
        const std::vector<uint8_t> packed = pack_rows(t, scalar(), rows, n_k);
        const Tokens x = make_tokens(1, n_k, Fill::Largest, 42);
        std::vector<float> w(static_cast<size_t>(n_k));
        const std::vector<float> y = multiply(t, scalar(), packed, x, n_rows, 1, n_rows);
        for (int64_t r = 0; r < n_rows; r++) {
            t.info().dequantize(rows.data() + static_cast<size_t>(r) * t.row_bytes(n_k), w.data(), n_k);
            const double want = std::accumulate(w.begin(), w.end(), 0.0) * 127 * double{x.d[0]};
            EXPECT_NEAR(want, y[static_cast<size_t>(r)], 2e-6 * std::fabs(want)) << t.name;
        }
    }
}

/// The bound that makes the conversion of a block's sum to float exact.
TEST(PackedMatmul, EveryBlockSumIsBelowTwoToThe24) {
    for (const PackedType& t : packed_types()) EXPECT_LT(t.largest_block_sum, 1 << 24) << t.name;
}

TEST(PackedMatmul, ATypeWithoutAPackedPathHasNoFunctions) {
    EXPECT_EQ(nullptr, scalar().packed[static_cast<uint32_t>(Type::F32)].matmul);
    EXPECT_EQ(nullptr, scalar().packed[static_cast<uint32_t>(Type::I8)].pack);
    for (const PackedType& t : packed_types()) EXPECT_NE(nullptr, t.in(scalar()).unpack) << t.name;
}

}  // namespace
}  // namespace tessera::test
