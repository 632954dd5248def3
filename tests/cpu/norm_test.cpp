// LayerNorm against float64, with the same bits on every instruction set, for rows of any length.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "ggml-like/cpu/backend.h"
#include "tests/cpu/own_act.h"

namespace tessera {
namespace {

constexpr int64_t kNormTok = 3;
constexpr float kNormEps = 1e-5f;

/// Rows of any values, whose mean is as large as their deviation.
struct NormInput {
    OwnAct x;
    std::vector<float> w, bias;

    explicit NormInput(int64_t dim)
        : x(dim, kNormTok, true, false), w(static_cast<size_t>(dim)), bias(w.size()) {
        std::mt19937 rng(3);
        std::normal_distribution<float> normal(2.0f, 1.5f);
        for (int64_t i = 0; i < kNormTok * dim; i++) x.f32[i] = normal(rng);
        for (float& value : w) value = normal(rng);
        for (float& value : bias) value = normal(rng);
    }
    std::vector<float> run(ThreadPool& pool, const kernels::KernelTable& table, bool has_bias) const {
        const int64_t dim = x.dim;
        auto backend = CpuBackend::create(pool, table, {.max_tok = kNormTok, .max_rows = kNormTok});
        OwnAct y(dim, kNormTok, true, dim % 32 == 0);
        (*backend)->layer_norm({.x = &x,
                                .n_tok = kNormTok,
                                .w = {w.data(), dim},
                                .bias = has_bias ? Vector{bias.data(), dim} : Vector{},
                                .eps = kNormEps,
                                .y = &y});
        return {y.f32, y.f32 + kNormTok * dim};
    }
    std::vector<double> reference(bool has_bias) const {
        std::vector<double> out;
        const auto n = static_cast<double>(x.dim);
        for (int64_t t = 0; t < kNormTok; t++) {
            const float* row = x.row(t);
            double mean = 0, variance = 0;
            for (int64_t i = 0; i < x.dim; i++) mean += static_cast<double>(row[i]) / n;
            for (int64_t i = 0; i < x.dim; i++)
                variance += std::pow(static_cast<double>(row[i]) - mean, 2) / n;
            const double scale = 1 / std::sqrt(variance + static_cast<double>(kNormEps));
            for (size_t i = 0; i < w.size(); i++)
                out.push_back((static_cast<double>(row[i]) - mean) * scale * static_cast<double>(w[i]) +
                              (has_bias ? static_cast<double>(bias[i]) : 0));
        }
        return out;
    }
};

TEST(LayerNorm, SubtractsTheMeanAndAddsTheBias) {
    ThreadPool pool(2);
    for (const int64_t dim : {15, 64, 100, 4608}) {
        const NormInput input(dim);
        for (const bool has_bias : {true, false}) {
            const std::vector<double> want = input.reference(has_bias);
            const std::vector<float> scalar = input.run(pool, kernels::kScalarTable, has_bias);
            for (size_t i = 0; i < want.size(); i++)
                ASSERT_NEAR(scalar[i], want[i], 2e-5 * (1 + std::abs(want[i]))) << dim << " element " << i;
            for (const kernels::IsaInfo& isa : kernels::all_isas()) {
                if (!isa.usable) continue;
                EXPECT_EQ(input.run(pool, *isa.table, has_bias), scalar) << isa.name << ' ' << dim;
            }
        }
    }
}

}  // namespace
}  // namespace tessera
