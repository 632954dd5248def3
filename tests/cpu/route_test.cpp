// The choice of experts for a token: the largest logits, ties to the lower expert, the same in any batch; and
// the slots in the order of experts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/rng.h"
#include "ggml-like/cpu/backend.h"
#include "quants/dispatch.h"

namespace tessera {
namespace {

constexpr int64_t kExperts = 48;

/// The routes that moe_route fills in, with memory of their own.
struct OwnRoutes : MoeRoutes {
    std::vector<int32_t> experts, rows, tokens, offsets, active;
    std::vector<float> weights;

    OwnRoutes(int64_t used, int64_t n_tok) : active(kExperts) {
        n_expert = kExperts;
        n_used = used;
        const auto n = static_cast<size_t>(n_tok * used);
        for (auto* list : {&experts, &rows, &tokens}) list->resize(n);
        offsets.resize(kExperts + 1);
        weights.resize(n);
        expert = experts.data(), row_of_slot = rows.data(), token_of_row = tokens.data();
        expert_offset = offsets.data(), active_experts = active.data(), weight = weights.data();
    }
};

TEST(Route, TakesTheLargestAndOfEqualOnesTheLower) {
    constexpr int64_t kTok = 40;
    ThreadPool pool(2);
    auto backend = CpuBackend::create(pool, kernels::kScalarTable,
                                      {.max_tok = kTok, .max_rows = kTok * kExperts, .n_expert = kExperts});
    ASSERT_TRUE(backend) << backend.error().message;
    std::vector<float> one(kExperts * kExperts), logits(kTok * kExperts);
    for (size_t e = 0; e < kExperts; ++e) one[e * kExperts + e] = 1;
    Rng rng(9);
    for (float& x : logits) x = static_cast<float>(rng.next_u64() % 9);  // each about five times
    const Weight router{.type = Type::F32,
                        .n_out = kExperts,
                        .n_in = kExperts,
                        .data = reinterpret_cast<const std::byte*>(one.data()),
                        .row_bytes = kExperts * sizeof(float)};
    const ActBuffer x{.name = "x", .dim = kExperts, .f32 = logits.data()};
    for (const int64_t n_tok : {int64_t{1}, int64_t{3}, kTok})
        for (const int64_t n_used : {int64_t{1}, int64_t{2}, int64_t{8}, kExperts}) {
            OwnRoutes routes(n_used, n_tok);
            (*backend)->moe_route({.x = &x, .n_tok = n_tok, .router = {.w = router}, .routes = &routes});
            for (int64_t t = 0; t < n_tok; ++t) {
                const float* row = logits.data() + t * kExperts;
                std::vector<int32_t> order(kExperts);
                std::iota(order.begin(), order.end(), 0);
                std::stable_sort(order.begin(), order.end(),
                                 [&](int32_t a, int32_t b) { return row[a] > row[b]; });
                for (int64_t j = 0; j < n_used; ++j) {
                    const int64_t i = t * n_used + j;
                    ASSERT_EQ(routes.expert[i], order[static_cast<size_t>(j)]) << t << " of " << n_used;
                    const int32_t row_at = routes.row_of_slot[i], e = routes.expert[i];
                    EXPECT_EQ(routes.token_of_row[row_at], t);
                    EXPECT_TRUE(routes.expert_offset[e] <= row_at && row_at < routes.expert_offset[e + 1]);
                    EXPECT_EQ(routes.weight[i] == routes.weight[t * n_used], row[e] == row[order[0]]);
                }
            }
        }
}

}  // namespace
}  // namespace tessera
