// Rows in units, in a row and in pieces: each row is in one, and what is read in pieces has the bits of what
// is read in a row.
#include "ggml-like/cpu/regions.h"

#include <gtest/gtest.h>

#include <random>

#include "ggml-like/cpu/backend.h"
#include "tests/cpu/own_act.h"
#include "tests/cpu/packed_rows.h"

namespace tessera {
namespace {

using cpu::Stretch;

/// Counts what ranges of n_taken units have of each row.
template <class Regions>
void expect_each_row_once(const Regions& regions, int64_t n_rows, int64_t n_taken, int64_t row_bytes) {
    std::vector<int> counts(static_cast<size_t>(n_rows));
    const int64_t n_units = regions.n_units();
    for (int64_t first = 0; first < n_units; first += n_taken) {
        Stretch expected;
        regions.each_stretch(first, std::min(first + n_taken, n_units),
                             [&](const Stretch& rows, const Stretch& next) {
                                 if (expected.n > 0) {
                                     EXPECT_EQ(expected.row, rows.row);
                                     EXPECT_EQ(expected.n_rows(), rows.n_rows());
                                 }
                                 expected = next;
                                 EXPECT_EQ(rows.row % kernels::kGroupRows, 0);
                                 EXPECT_EQ(rows.apart % kernels::kGroupRows, 0);
                                 for (int i = 1; i < kernels::kPieces && rows.apart > regions.unit.rows; i++)
                                     EXPECT_FALSE(kernels::share_a_hash(i * rows.apart * row_bytes));
                                 int64_t end = 0;
                                 rows.each_piece([&](int64_t row, int64_t at) {
                                     EXPECT_EQ(end, at);
                                     end += rows.n;
                                     for (int64_t r = row; r < row + rows.n; r++)
                                         if (r < n_rows) counts[static_cast<size_t>(r)]++;
                                     ASSERT_LE(row + rows.n, n_rows);
                                 });
                                 EXPECT_EQ(end, rows.n_rows());
                             });
        EXPECT_EQ(expected.n, 0);
    }
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), n_rows);
}

TEST(Regions, EachRowIsInOneUnit) {
    constexpr int64_t kRowBytes = 1408;  // Q5_K of 2048 k: quarters of 3072 rows would share a hash
    for (const int64_t n_rows : {1, 8, 63, 64, 100, 512, 1031, 2048, 3072, 6144, 12288}) {
        for (const bool pieces : {false, true}) {
            for (const int64_t unit : {8, 32, 64}) {
                const auto regions = cpu::regions_of(n_rows, {unit, pieces ? unit * kRowBytes : 0});
                for (const int64_t n_taken : {1, 3, 1000})
                    expect_each_row_once(regions, n_rows, n_taken, kRowBytes);
            }
        }
    }
}

TEST(Regions, UnitsAreRowsOfEachQuarter) {
    const auto regions = cpu::regions_of(2048, {16, 16 * 1152});
    EXPECT_EQ(regions.n_units(), 32);
    int n_calls = 0;
    regions.each_stretch(19, 27, [&](const Stretch& rows, const Stretch& next) {
        n_calls++;
        EXPECT_EQ(rows.row, 19 * 16);
        EXPECT_EQ(rows.n, 8 * 16);
        EXPECT_EQ(rows.apart, 512);
        EXPECT_EQ(next.n, 0);
    });
    EXPECT_EQ(n_calls, 1);
}

TEST(Regions, PartsOfPiecesAreTheirRows) {
    int64_t at = 0;
    Stretch{0, 8, 100, 256}.each_part(128, [&](const Stretch& part, bool last) {
        EXPECT_EQ(part.row, 8 + at);
        EXPECT_EQ(part.apart, 256);
        EXPECT_EQ(part.n, std::min<int64_t>(32, 100 - at));
        at += part.n;
        EXPECT_EQ(last, at == 100);
    });
    EXPECT_EQ(at, 100);
}

class Pieces : public testing::Test {
  protected:
    static constexpr int64_t kIn = 256, kOut = 1024 + 40, kTok = 3;

    /// run(backend) with weights asked for in two steps, and the same where streams are far apart.
    template <class Run>
    void expect_same(const Run& run) {
        for (const kernels::IsaInfo& isa : kernels::all_isas()) {
            if (!isa.usable) continue;
            for (const int64_t n_tok : {int64_t{1}, int64_t{2}, kTok}) {
                std::vector<float> want;
                for (const int n_threads : {1, 2, 3}) {
                    ThreadPool pool(n_threads);
                    for (const auto fetch : {kernels::Fetch::TwoSteps, kernels::Fetch::FarStreams}) {
                        auto backend =
                            CpuBackend::create(pool, *isa.table, {.max_tok = kTok, .max_rows = kTok}, fetch);
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

TEST_F(Pieces, LinearHasTheSameBits) {
    const PackedRows rows(kernels::kScalarTable, Type::Q4_0, kOut, kIn, 3);
    std::vector<float> bias(kOut);
    for (size_t i = 0; i < bias.size(); i++) bias[i] = static_cast<float>(i % 7) - 3;
    for (const bool add : {false, true}) {
        expect_same([&](CpuBackend& backend, int64_t n_tok) {
            OwnAct raw(kIn, kTok, true, false), x(kIn, kTok, true, true), y(kOut, kTok, true, false);
            fill(raw, kTok, 4);
            fill(y, kTok, 5);
            backend.copy(raw, n_tok, x);
            const LinearOut out{.w = rows.weight,
                                .bias = {bias.data(), kOut},
                                .y = &y,
                                .scale = 0.5f,
                                .softcap = add ? 0.0f : 20.0f,
                                .add = add};
            backend.linear(x, n_tok, {&out, 1});
            return std::vector<float>(y.f32, y.f32 + kTok * kOut);
        });
    }
}

/// Gate and up of n_out rows, in memory of their own or one behind the other.
struct GateAndUp {
    PackedRows gate_rows, up_rows;
    std::vector<float> bias;
    FfnGateUpArgs args;

    GateAndUp(int64_t n_out, int64_t n_in, Type up_type, bool up_behind_gate)
        : gate_rows(kernels::kScalarTable, Type::Q4_K, up_behind_gate ? 2 * n_out : n_out, n_in, 6),
          up_rows(kernels::kScalarTable, up_type, n_out, n_in, 7) {
        for (int64_t i = 0; i < 2 * n_out; i++) bias.push_back(static_cast<float>(i % 5) / 8);
        args = {.gate = gate_rows.weight,
                .up = up_rows.weight,
                .gate_bias = {bias.data(), n_out},
                .up_bias = {bias.data() + n_out, n_out},
                .activation = Activation::Silu};
        args.gate.n_out = n_out;
        if (!up_behind_gate) return;
        args.up = args.gate;
        args.up.data = args.gate.row(n_out);
    }
};

/// Floats and image of y = ffn_gate_up(x) for n_tok tokens of any x.
std::vector<float> ffn_gate_up(CpuBackend& backend, const FfnGateUpArgs& args, ActBuffer& raw,
                               int64_t n_tok) {
    const int64_t n = n_tok * args.gate.n_out;
    OwnAct x(raw.dim, n_tok, true, true), y(args.gate.n_out, n_tok, true, true);
    std::fill_n(y.f32, n, 0.0f);
    backend.copy(raw, n_tok, x);
    backend.ffn_gate_up(x, n_tok, args, y);
    std::vector<float> all(y.f32, y.f32 + n);
    all.insert(all.end(), y.q, y.q + n);
    all.insert(all.end(), y.d, y.d + n / 32);
    all.insert(all.end(), y.s, y.s + n / 32);
    all.insert(all.end(), y.sum16, y.sum16 + n / 16);
    return all;
}

TEST_F(Pieces, GatedHasTheSameBits) {
    // 1152 rows have a number of units that two threads cannot halve, 1056 and 1064 rows no whole number.
    for (const int64_t n_out : {int64_t{1024}, int64_t{1152}, int64_t{1056}, kOut}) {
        for (const Type up_type : {Type::Q4_K, Type::Q6_K}) {
            for (const bool up_behind_gate : {false, true}) {
                const GateAndUp weights(n_out, kIn, up_type, up_behind_gate);
                OwnAct raw(kIn, kTok, true, false);
                fill(raw, kTok, 8);
                expect_same([&](CpuBackend& backend, int64_t n_tok) {
                    return ffn_gate_up(backend, weights.args, raw, n_tok);
                });
            }
        }
    }
}

std::vector<int64_t> g_calls;  // rows of each product of Q4_K
void count_call(const kernels::PackedMatmulArgs& args) {
    g_calls.push_back(args.n_rows);
    kernels::kScalarTable.packed[static_cast<uint32_t>(Type::Q4_K)].matmul(args);
}

TEST_F(Pieces, OneProductReadsGateAndUpWhereUpLiesBehind) {
    kernels::KernelTable table = kernels::kScalarTable;
    table.packed[static_cast<uint32_t>(Type::Q4_K)].matmul = count_call;
    ThreadPool pool(1);
    auto backend =
        CpuBackend::create(pool, table, {.max_tok = kTok, .max_rows = kTok}, kernels::Fetch::FarStreams);
    ASSERT_TRUE(backend) << backend.error().message;
    OwnAct raw(kIn, kTok, true, false);
    fill(raw, kTok, 8);
    const auto calls = [&](const GateAndUp& weights, int64_t n_tok) {
        g_calls.clear();
        ffn_gate_up(**backend, weights.args, raw, n_tok);
        return g_calls;
    };
    using Calls = std::vector<int64_t>;
    EXPECT_EQ(calls({1024, kIn, Type::Q4_K, true}, 1), (Calls{2048}));
    EXPECT_EQ(calls({1024, kIn, Type::Q4_K, false}, 1), (Calls{1024, 1024}));
    EXPECT_EQ(calls({1024, kIn, Type::Q6_K, false}, 1), (Calls{1024}));
    // Half a unit of each would be left over.
    EXPECT_EQ(calls({1056, kIn, Type::Q4_K, true}, 1), (Calls{32, 32, 1024, 1024}));
    EXPECT_EQ(calls({1024, kIn, Type::Q4_K, true}, 3).front(), 1024);
}

}  // namespace
}  // namespace tessera
