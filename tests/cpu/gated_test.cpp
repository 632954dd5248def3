// The fused gate and up products: floats that no later operation reads stay in the worker's tile, and the
// int8 activations are the same.
#include <gtest/gtest.h>

#include <random>

#include "ggml-like/cpu/backend.h"
#include "tests/cpu/own_act.h"
#include "tests/cpu/packed_rows.h"

namespace tessera {
namespace {

void gate_up(Backend& backend, const PackedRows& gate, const PackedRows& up, const ActBuffer& x,
             int64_t n_tok, ActBuffer& y) {
    backend.ffn_gate_up({.x = &x,
                         .n_tok = n_tok,
                         .gate = {.w = gate.weight, .activation = Activation::Silu},
                         .up = {.w = up.weight},
                         .y = &y});
}

TEST(Gated, UnreadFloatsStayInTheTile) {
    // More rows than a unit has, for many tokens and for few; more tokens than a tile of results holds.
    constexpr int64_t kIn = 256, kOut = 288, kTok = 259;
    ThreadPool pool(2);
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable) continue;
        auto backend = CpuBackend::create(pool, *isa.table, {.max_tok = kTok, .max_rows = kTok});
        ASSERT_TRUE(backend) << backend.error().message;
        const PackedRows gate(*isa.table, Type::Q8_0, kOut, kIn, 6), up(*isa.table, Type::Q4_K, kOut, kIn, 7);
        OwnAct raw(kIn, kTok, true, false), x(kIn, kTok, true, true);
        std::mt19937 rng(8);
        for (int64_t i = 0; i < kIn * kTok; i++)
            raw.f32[i] = std::normal_distribution<float>(0.0f, 0.1f)(rng);
        (*backend)->copy({.x = &raw, .n_tok = kTok, .y = &x});
        for (const int64_t n_tok : {int64_t{1}, int64_t{5}, kTok}) {
            OwnAct with(kOut, kTok, true, true), without(kOut, kTok, true, true);
            without.needs_f32 = false;
            constexpr float kUntouched = 12345.0f;
            std::fill_n(without.f32, kOut * kTok, kUntouched);
            gate_up(**backend, gate, up, x, n_tok, with);
            gate_up(**backend, gate, up, x, n_tok, without);
            EXPECT_TRUE(same_image(with, without, n_tok)) << isa.name << " tokens " << n_tok;
            EXPECT_GT(std::abs(with.f32[n_tok * kOut - 1]), 0.0f);
            for (int64_t i = 0; i < kOut * kTok; i++) ASSERT_EQ(without.f32[i], kUntouched);
        }
    }
}

// A pass of few tokens takes more rows at once, one of many tokens several units together, and each stretch
// begins in the matrix where the previous one ended. Tiles have the size that the backend was given, and the
// bits are those of a single token.
TEST(Gated, StretchesOfAnyTokensGiveTheSameBits) {
    constexpr int64_t kIn = 256, kOut = 2 * cpu::kMostStreamRows + 96, kTok = cpu::kTokBlock + 1;
    const kernels::KernelTable& table = *(*kernels::choose_isa(""))->table;
    const PackedRows gate(table, Type::Q8_0, kOut, kIn, 6), up(table, Type::Q4_K, kOut, kIn, 7);
    OwnAct raw(kIn, kTok, true, false);
    std::mt19937 rng(8);
    for (int64_t i = 0; i < kIn * kTok; i++) raw.f32[i] = std::normal_distribution<float>(0.0f, 0.1f)(rng);
    OwnAct expected(kOut, kTok, true, false);
    for (const int64_t n_tok : {int64_t{1}, int64_t{2}, int64_t{15}, int64_t{16}, int64_t{17}, int64_t{33},
                                int64_t{64}, int64_t{65}, kTok}) {
        for (const int n_threads : {1, 2}) {
            ThreadPool pool(n_threads);
            auto backend = CpuBackend::create(pool, table, {.max_tok = n_tok, .max_rows = n_tok});
            ASSERT_TRUE(backend) << backend.error().message;
            OwnAct x(kIn, n_tok, true, true), y(kOut, n_tok, true, true);
            for (int64_t t = n_tok == 1 && n_threads == 1 ? 0 : kTok; t < kTok; t++) {
                OwnAct one(kIn, 1, true, false), row(kOut, 1, true, true);
                std::copy_n(raw.row(t), kIn, one.f32);
                (*backend)->copy({.x = &one, .n_tok = 1, .y = &x});
                gate_up(**backend, gate, up, x, 1, row);
                std::copy_n(row.f32, kOut, expected.row(t));
            }
            (*backend)->copy({.x = &raw, .n_tok = n_tok, .y = &x});
            for (int round = 0; round < 2; round++) {
                std::fill_n(y.f32, kOut * n_tok, 0.0f);
                gate_up(**backend, gate, up, x, n_tok, y);
                EXPECT_TRUE(same(y.f32, expected.f32, n_tok * kOut)) << n_tok << " threads " << n_threads;
            }
        }
    }
}

// With one thread a token has more rows than the tile has room for; with three threads it has fewer.
TEST(Gated, AStretchEndsAtTheEndOfTheTile) {
    constexpr int64_t kIn = 64, kOut = 2 * cpu::kMemoryBoundBatch * cpu::kStreamRows + 96;
    const kernels::KernelTable& table = *(*kernels::choose_isa(""))->table;
    const PackedRows gate(table, Type::Q8_0, kOut, kIn, 6), up(table, Type::Q4_0, kOut, kIn, 7);
    OwnAct raw(kIn, 1, true, false), expected(kOut, 1, true, true);
    std::mt19937 rng(8);
    for (int64_t i = 0; i < kIn; i++) raw.f32[i] = std::normal_distribution<float>(0.0f, 0.1f)(rng);
    for (const int n_threads : {3, 1}) {
        ThreadPool pool(n_threads);
        auto backend = CpuBackend::create(pool, table, {.max_tok = 1, .max_rows = 1});
        ASSERT_TRUE(backend) << backend.error().message;
        OwnAct x(kIn, 1, true, true), y(kOut, 1, true, true);
        (*backend)->copy({.x = &raw, .n_tok = 1, .y = &x});
        gate_up(**backend, gate, up, x, 1, n_threads == 3 ? expected : y);
        if (n_threads == 1) {
            EXPECT_TRUE(same(y.f32, expected.f32, kOut));
        }
    }
}

}  // namespace
}  // namespace tessera
