// Tokens that are multiplied together, whose int8 activations are laid out for products of that many tokens:
// a selection of tokens, and the tokens of an expert, give the bits that each token gives alone.
#include <gtest/gtest.h>

#include <random>

#include "ggml-like/cpu/backend.h"
#include "tests/cpu/own_act.h"
#include "tests/cpu/packed_rows.h"

namespace tessera {
namespace {

void fill(ActBuffer& x, int64_t n_tok, uint32_t seed) {
    std::mt19937 rng(seed);
    for (int64_t i = 0; i < n_tok * x.dim; i++) x.f32[i] = std::normal_distribution<float>(0.0f, 0.3f)(rng);
}

TEST(Runs, KeptRowsHaveTheImageOfAsManyTokens) {
    constexpr int64_t kDim = 96, kTok = 30;
    ThreadPool pool(2);
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable) continue;
        auto backend = CpuBackend::create(pool, *isa.table, {.max_tok = kTok, .max_rows = kTok});
        ASSERT_TRUE(backend) << backend.error().message;
        for (const int32_t n_kept : {1, 7, 8, 10, 30}) {
            OwnAct raw(kDim, kTok, true, false), kept(kDim, kTok, true, false);
            OwnAct x(kDim, kTok, true, true), want(kDim, kTok, true, true);
            fill(raw, kTok, 3);
            (*backend)->copy({.x = &raw, .n_tok = kTok, .y = &x});
            std::vector<int32_t> rows;
            for (int32_t i = 0; i < n_kept; i++) {
                rows.push_back(i * static_cast<int32_t>(kTok) / n_kept);
                std::copy_n(raw.row(rows.back()), kDim, kept.row(i));
            }
            (*backend)->gather_rows({.rows = rows, .a = &x});
            (*backend)->copy({.x = &kept, .n_tok = n_kept, .y = &want});
            EXPECT_TRUE(same_image(x, want, n_kept)) << isa.name << ' ' << n_kept;
            EXPECT_TRUE(same(x.f32, want.f32, n_kept * kDim)) << isa.name << ' ' << n_kept;
        }
    }
}

/// A layer of experts. Packed matrices follow one another, or each expert's up matrix follows its gate.
struct Experts {
    static constexpr int64_t kIn = 256, kFf = 512, kExperts = 5, kUsed = 2;
    PackedRows gate_rows, up_rows, down_rows;
    Weight gate, up, down;
    std::vector<float> router = std::vector<float>(kExperts * kIn);

    Experts(const kernels::KernelTable& table, bool up_behind_gate)
        : gate_rows(table, Type::Q4_K, (up_behind_gate ? 2 : 1) * kExperts * kFf, kIn, 1),
          up_rows(table, Type::Q8_0, kExperts * kFf, kIn, 2),
          down_rows(table, Type::Q6_K, kExperts * kIn, kFf, 3),
          gate(stack(gate_rows, kFf)),
          up(stack(up_rows, kFf)),
          down(stack(down_rows, kIn)) {
        if (up_behind_gate) {
            gate.expert_bytes *= 2;
            up = gate;
            up.data = gate.row(kFf);
        }
        std::mt19937 rng(4);
        // The first expert gets the lowest logits, so that runs of few tokens and of many occur.
        for (size_t i = 0; i < router.size(); i++)
            router[i] = std::normal_distribution<float>(0.0f, i < kIn ? 0.01f : 0.2f)(rng);
    }
    static Weight stack(const PackedRows& rows, int64_t n_out) {
        Weight w = rows.weight;
        w.n_out = n_out;
        w.n_expert = kExperts;
        w.expert_bytes = static_cast<size_t>(n_out) * w.row_bytes;
        return w;
    }

    /// The output of n_tok tokens, which is zero before.
    std::vector<float> run(CpuBackend& backend, const float* tokens, int64_t n_tok) const {
        const int64_t n_rows = n_tok * kUsed;
        OwnAct raw(kIn, n_tok, true, false), x(kIn, n_tok, true, true), gathered(kIn, n_rows, true, true);
        OwnAct y(kFf, n_rows, true, true), rows(kIn, n_rows, true, false), out(kIn, n_tok, true, false);
        std::copy_n(tokens, n_tok * kIn, raw.f32);
        std::fill_n(out.f32, n_tok * kIn, 0.0f);
        MoeRoutes routes{.n_expert = kExperts, .n_used = kUsed};
        ArenaSize size;
        allocate_routes(routes, n_tok, size);
        Arena arena = *Arena::create(size.bytes(), "routes");
        allocate_routes(routes, n_tok, arena);
        backend.copy({.x = &raw, .n_tok = n_tok, .y = &x});
        const Weight w{.type = Type::F32,
                       .n_out = kExperts,
                       .n_in = kIn,
                       .data = reinterpret_cast<const std::byte*>(router.data()),
                       .row_bytes = kIn * sizeof(float)};
        backend.moe_route({.x = &x, .n_tok = n_tok, .router = {.w = w}, .routes = &routes});
        backend.moe_gate_up({.x = &x,
                             .n_tok = n_tok,
                             .routes = &routes,
                             .gate = {.w = gate, .activation = Activation::Silu},
                             .up = {.w = up},
                             .gathered = &gathered,
                             .y = &y});
        backend.moe_down({.y = &y,
                          .n_tok = n_tok,
                          .routes = &routes,
                          .down = {.w = down, .add = true},
                          .rows = &rows,
                          .out = &out});
        return {out.f32, out.f32 + n_tok * kIn};
    }
};

class ExpertRuns : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(UpBehindGate, ExpertRuns, testing::Bool());

TEST_P(ExpertRuns, ExpertsOfManyTokensGiveTheBitsOfEachAlone) {
    constexpr int64_t kTok = 75;
    OwnAct tokens(Experts::kIn, kTok, true, false);
    fill(tokens, kTok, 6);
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable) continue;
        const Experts experts(*isa.table, GetParam());
        ThreadPool pool(2);
        std::vector<float> alone;
        for (const kernels::CpuTuning* tuning : {&kernels::kDefaultTuning, &kernels::kZen5Tuning}) {
            auto backend = CpuBackend::create(
                pool, *isa.table,
                {.max_tok = kTok, .max_rows = kTok * Experts::kUsed, .n_expert = Experts::kExperts}, *tuning);
            ASSERT_TRUE(backend) << backend.error().message;
            for (int64_t t = 0; t < kTok && tuning == &kernels::kDefaultTuning; t++) {
                const std::vector<float> row = experts.run(**backend, tokens.row(t), 1);
                alone.insert(alone.end(), row.begin(), row.end());
            }
            EXPECT_NE(0.0f, alone.back());
            for (const int64_t n_tok : {int64_t{1}, int64_t{2}, int64_t{7}, int64_t{8}, int64_t{13}, kTok}) {
                const std::vector<float> together = experts.run(**backend, tokens.f32, n_tok);
                EXPECT_TRUE(same(together.data(), alone.data(), std::ssize(together)))
                    << isa.name << " tokens " << n_tok;
            }
        }
    }
}

}  // namespace
}  // namespace tessera
