// The epilogue of a product: bias, activation, scale, soft cap and the residual add, against float64; and the
// sum over experts, which is added to its output or replaces it.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ggml-like/cpu/backend.h"
#include "tests/cpu/own_act.h"
#include "tests/cpu/packed_rows.h"

namespace tessera {
namespace {

double activated(Activation activation, double x) {
    if (activation == Activation::Silu) return x / (1 + std::exp(-x));
    if (activation != Activation::Gelu) return x;
    return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Epilogue, IsBiasActivationScaleAndCapOrAdd) {
    constexpr int64_t kIn = 64, kOut = 600, kTok = 5;  // more columns than the epilogue takes at once
    ThreadPool pool(2);
    std::mt19937 rng(5);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> w(kOut * kIn), bias(kOut);
    for (float& value : w) value = normal(rng) / 4;
    for (float& value : bias) value = normal(rng);
    OwnAct x(kIn, kTok, true, false);
    for (int64_t i = 0; i < kTok * kIn; i++) x.f32[i] = normal(rng);
    const Weight weight{.type = Type::F32,
                        .n_out = kOut,
                        .n_in = kIn,
                        .data = reinterpret_cast<const std::byte*>(w.data()),
                        .row_bytes = kIn * sizeof(float)};
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (!isa.usable) continue;
        auto backend = CpuBackend::create(pool, *isa.table, {.max_tok = kTok, .max_rows = kTok});
        ASSERT_TRUE(backend) << backend.error().message;
        for (const Activation activation : {Activation::None, Activation::Silu, Activation::Gelu})
            for (const bool add : {false, true}) {
                const float softcap = add ? 0.0f : 1.5f;
                OwnAct y(kOut, kTok, true, false);
                std::fill_n(y.f32, kTok * kOut, 3.0f);
                (*backend)->linear({.x = &x,
                                    .n_tok = kTok,
                                    .product = {.w = weight,
                                                .bias = {bias.data(), kOut},
                                                .activation = activation,
                                                .scale = 0.5f,
                                                .softcap = softcap,
                                                .add = add},
                                    .y = &y});
                for (int64_t t = 0; t < kTok; t++)
                    for (int64_t o = 0; o < kOut; o++) {
                        double sum = bias[static_cast<size_t>(o)];
                        for (int64_t i = 0; i < kIn; i++)
                            sum += static_cast<double>(w[static_cast<size_t>(o * kIn + i)]) *
                                   static_cast<double>(x.row(t)[i]);
                        const double z = 0.5 * activated(activation, sum);
                        const double want = add ? 3 + z : 1.5 * std::tanh(z / 1.5);
                        ASSERT_NEAR(y.row(t)[o], want, 1e-5) << isa.name << " row " << t << " column " << o;
                    }
            }
    }
}

/// Recording refuses an operation with a part of an epilogue that it does not have.
TEST(Epilogue, OperationsKnowWhichPartsTheyHave) {
    using Ffn = FfnGateUpOp<Direct>;
    EXPECT_TRUE((Ffn{.gate = {.activation = Activation::Silu}}.is_valid()));
    EXPECT_FALSE((Ffn{.gate = {.scale = 2}}.is_valid()));
    EXPECT_FALSE((Ffn{.up = {.activation = Activation::Silu}}.is_valid()));
    EXPECT_FALSE((Ffn{.up = {.softcap = 1}}.is_valid()));
    EXPECT_TRUE((LinearOp<Direct>{.product = {.scale = 2, .softcap = 1}}.is_valid()));
    EXPECT_FALSE((LinearOp<Direct>{.product = {.softcap = 1, .add = true}}.is_valid()));
    EXPECT_TRUE((MoeDownOp<Direct>{.down = {.scale = 2, .add = true}}.is_valid()));
    EXPECT_FALSE((MoeDownOp<Direct>{.down = {.activation = Activation::Gelu}}.is_valid()));
    EXPECT_FALSE((QkvOp<Direct>{.v = {.add = true}}.is_valid()));
    EXPECT_FALSE((MoeRouteOp<Direct>{.router = {.add = true}}.is_valid()));
}

TEST(Epilogue, ExpertsAddToTheirOutputOrReplaceIt) {
    constexpr int64_t kExperts = 3, kIn = 64;
    ThreadPool pool(2);
    auto backend =
        CpuBackend::create(pool, kernels::kScalarTable, {.max_tok = 2, .max_rows = 4, .n_expert = kExperts});
    ASSERT_TRUE(backend) << backend.error().message;
    // Expert e is the identity times e + 1.
    std::vector<float> w(kExperts * kIn * kIn);
    for (size_t e = 0; e < kExperts; e++)
        for (size_t i = 0; i < kIn; i++) w[(e * kIn + i) * kIn + i] = static_cast<float>(e + 1);
    const Weight down{.type = Type::F32,
                      .n_out = kIn,
                      .n_in = kIn,
                      .n_expert = kExperts,
                      .data = reinterpret_cast<const std::byte*>(w.data()),
                      .row_bytes = kIn * sizeof(float),
                      .expert_bytes = kIn * kIn * sizeof(float)};
    // Two tokens with the experts (0, 2) and (2, 1), whose rows in expert order are 0, 2 and 3, 1.
    int32_t expert[] = {0, 2, 2, 1}, row_of_slot[] = {0, 2, 3, 1}, token_of_row[] = {0, 1, 0, 1};
    int32_t expert_offset[] = {0, 1, 2, 4}, active[] = {0, 1, 2};
    float weight[] = {0.75f, 0.25f, 0.5f, 0.5f};
    const MoeRoutes routes{.n_expert = kExperts,
                           .n_used = 2,
                           .expert = expert,
                           .weight = weight,
                           .row_of_slot = row_of_slot,
                           .token_of_row = token_of_row,
                           .expert_offset = expert_offset,
                           .active_experts = active,
                           .n_active = kExperts};
    OwnAct y(kIn, 4, true, false), rows(kIn, 4, true, false), out(kIn, 2, true, false);
    std::fill_n(y.f32, 4 * kIn, 1.0f);
    for (const bool add : {true, false}) {
        std::fill_n(out.f32, 2 * kIn, 10.0f);
        (*backend)->moe_down({.y = &y,
                              .n_tok = 2,
                              .routes = &routes,
                              .down = {.w = down, .scale = 2, .add = add},
                              .rows = &rows,
                              .out = &out});
        const float base = add ? 10.0f : 0.0f;
        EXPECT_EQ(out.row(0)[kIn - 1], base + 2 * (0.75f * 1 + 0.25f * 3));
        EXPECT_EQ(out.row(1)[0], base + 2 * (0.5f * 3 + 0.5f * 2));
    }
}

}  // namespace
}  // namespace tessera
