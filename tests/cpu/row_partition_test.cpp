// Rows in units: each row is in one, and results do not depend on threads or on the processor's tuning.
#include "ggml-like/cpu/row_partition.h"

#include <gtest/gtest.h>

#include <random>

#include "ggml-like/cpu/backend.h"
#include "tests/cpu/own_act.h"
#include "tests/cpu/packed_rows.h"

namespace tessera {
namespace {

using cpu::RowPartition;
using cpu::RowRange;

TEST(RowPartition, EachRowIsInOneUnit) {
    const std::vector<int64_t> sizes[] = {{1}, {64}, {100}, {1031}, {64, 1, 200}, {7, 64, 64, 512}};
    for (const std::vector<int64_t>& n_rows : sizes) {
        for (const int64_t unit_rows : {8, 64}) {
            const RowPartition partition(std::ssize(n_rows), unit_rows, [&](int64_t i) {
                return RowRange{i, 0, n_rows[static_cast<size_t>(i)]};
            });
            for (const int64_t n_taken : {1, 3, 1000}) {
                for (const int64_t max_rows : {int64_t{64}, int64_t{256}}) {
                    std::vector<std::vector<int>> counts;
                    for (const int64_t n : n_rows) counts.emplace_back(static_cast<size_t>(n));
                    const int64_t n_units = partition.n_units();
                    for (int64_t first = 0; first < n_units; first += n_taken) {
                        RowRange expected;
                        partition.each_range(first, std::min(first + n_taken, n_units), max_rows,
                                             [&](const RowRange& rows, const RowRange& next) {
                                                 if (expected.n > 0) {
                                                     EXPECT_EQ(expected.matrix, rows.matrix);
                                                     EXPECT_EQ(expected.row, rows.row);
                                                     EXPECT_EQ(expected.n, rows.n);
                                                 }
                                                 expected = next;
                                                 EXPECT_LE(rows.n, max_rows);
                                                 EXPECT_EQ(rows.row % unit_rows, 0);
                                                 auto& of = counts[static_cast<size_t>(rows.matrix)];
                                                 for (int64_t r = rows.row; r < rows.row + rows.n; r++)
                                                     of.at(static_cast<size_t>(r))++;
                                             });
                        EXPECT_EQ(expected.n, 0);
                    }
                    for (const std::vector<int>& of : counts)
                        EXPECT_EQ(std::count(of.begin(), of.end(), 1), std::ssize(of));
                }
            }
        }
    }
}

class Tuned : public testing::Test {
  protected:
    static constexpr int64_t kIn = 256, kOut = 1024 + 40, kTok = 3;

    /// run(backend) gives the same with one stream of weights and with four.
    template <class Run>
    void expect_same(const Run& run) {
        for (const kernels::IsaInfo& isa : kernels::all_isas()) {
            if (!isa.usable) continue;
            for (const int64_t n_tok : {int64_t{1}, int64_t{2}, kTok}) {
                std::vector<float> want;
                for (const int n_threads : {1, 2, 3}) {
                    ThreadPool pool(n_threads);
                    for (const kernels::CpuTuning* tuning :
                         {&kernels::kDefaultTuning, &kernels::kZen5Tuning}) {
                        auto backend = CpuBackend::create(pool, *isa.table,
                                                          {.max_tok = kTok, .max_rows = kTok}, *tuning);
                        ASSERT_TRUE(backend) << backend.error().message;
                        const std::vector<float> got = run(**backend, n_tok);
                        if (want.empty()) want = got;
                        ASSERT_TRUE(same(want.data(), got.data(), std::ssize(want)))
                            << isa.name << " tokens " << n_tok << " threads " << n_threads;
                    }
                }
            }
        }
    }
    static void fill(OwnAct& x, int64_t n_tok, uint32_t seed) {
        std::mt19937 rng(seed);
        for (int64_t i = 0; i < n_tok * x.dim; i++)
            x.f32[i] = std::normal_distribution<float>(0.0f, 0.3f)(rng);
    }
};

TEST_F(Tuned, LinearHasTheSameBits) {
    const PackedRows rows(kernels::kScalarTable, Type::Q4_0, kOut, kIn, 3);
    std::vector<float> bias(kOut);
    for (size_t i = 0; i < bias.size(); i++) bias[i] = static_cast<float>(i % 7) - 3;
    for (const bool add : {false, true}) {
        expect_same([&](CpuBackend& backend, int64_t n_tok) {
            OwnAct raw(kIn, kTok, true, false), x(kIn, kTok, true, true), y(kOut, kTok, true, false);
            fill(raw, kTok, 4);
            fill(y, kTok, 5);
            backend.copy({.x = &raw, .n_tok = n_tok, .y = &x});
            backend.linear({.x = &x,
                            .n_tok = n_tok,
                            .product = {.w = rows.weight,
                                        .bias = {bias.data(), kOut},
                                        .scale = 0.5f,
                                        .softcap = add ? 0.0f : 20.0f,
                                        .add = add},
                            .y = &y});
            return std::vector<float>(y.f32, y.f32 + kTok * kOut);
        });
    }
}

/// Gate and up of n_out rows.
struct GateAndUp {
    PackedRows gate_rows, up_rows;
    std::vector<float> bias;
    FfnGateUpOp<Direct> op;  // without activations

    GateAndUp(int64_t n_out, int64_t n_in, Type up_type)
        : gate_rows(kernels::kScalarTable, Type::Q4_K, n_out, n_in, 6),
          up_rows(kernels::kScalarTable, up_type, n_out, n_in, 7) {
        for (int64_t i = 0; i < 2 * n_out; i++) bias.push_back(static_cast<float>(i % 5) / 8);
        op.gate = {.w = gate_rows.weight, .bias = {bias.data(), n_out}, .activation = Activation::Silu};
        op.up = {.w = up_rows.weight, .bias = {bias.data() + n_out, n_out}};
    }
};

/// Floats and image of y = ffn_gate_up(x) for n_tok tokens of any x.
std::vector<float> ffn_gate_up(CpuBackend& backend, FfnGateUpOp<Direct> op, ActBuffer& raw, int64_t n_tok) {
    const int64_t n_out = op.gate.w.n_out, n = n_tok * n_out;
    OwnAct x(raw.dim, n_tok, true, true), y(n_out, n_tok, true, true);
    std::fill_n(y.f32, n, 0.0f);
    backend.copy({.x = &raw, .n_tok = n_tok, .y = &x});
    op.x = &x;
    op.n_tok = n_tok;
    op.y = &y;
    backend.ffn_gate_up(op);
    std::vector<float> all(y.f32, y.f32 + n);
    all.insert(all.end(), y.q, y.q + n);
    all.insert(all.end(), y.d, y.d + n / 32);
    all.insert(all.end(), y.s, y.s + n / 32);
    all.insert(all.end(), y.sum16, y.sum16 + n / 16);
    return all;
}

TEST_F(Tuned, GateAndUpHaveTheSameBits) {
    // 1152 rows have a number of units that two threads cannot halve, 1056 and 1064 rows no whole number.
    for (const int64_t n_out : {int64_t{1024}, int64_t{1152}, int64_t{1056}, kOut}) {
        for (const Type up_type : {Type::Q4_K, Type::Q6_K}) {
            const GateAndUp weights(n_out, kIn, up_type);
            OwnAct raw(kIn, kTok, true, false);
            fill(raw, kTok, 8);
            expect_same([&](CpuBackend& backend, int64_t n_tok) {
                return ffn_gate_up(backend, weights.op, raw, n_tok);
            });
        }
    }
}

}  // namespace
}  // namespace tessera
