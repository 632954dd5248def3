// Predicted speeds against published ones: Qualcomm AI Hub, weights of 4 bits, context 4096, tokens per
// second and milliseconds of the first chunk of 128.
#include "src/npu/model_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::npu {
namespace {

constexpr ModelSizes kLlama1b{16, 2048, 32, 8, 64, 8192, 128256},
    kLlama3b{28, 3072, 24, 8, 128, 8192, 128256}, kLlama8b{32, 4096, 32, 8, 128, 14336, 128256},
    kQwen7b{28, 3584, 28, 4, 128, 18944, 152064};

struct Published {
    const char* device;
    const char* model;
    ModelSizes sizes;
    double tokens_per_s, chunk_ms;
};
constexpr Published kPublished[] = {
    {"x-elite", "Llama 3.2 3B", kLlama3b, 18.42, 125.9}, {"x-elite", "Llama 3 8B", kLlama8b, 10.04, 211.6},
    {"x-elite", "Qwen 2.5 7B", kQwen7b, 12.34, 174.9},   {"sm8750", "Llama 3.2 1B", kLlama1b, 53.64, 37.07},
    {"sm8750", "Llama 3.2 3B", kLlama3b, 23.47, 88.2},   {"sm8750", "Llama 3 8B", kLlama8b, 12.93, 159.4},
    {"sm8750", "Llama 3.1 8B", kLlama8b, 13.05, 154.5},  {"sm8750", "Qwen 2.5 7B", kQwen7b, 15.40, 135.7},
    {"sm8850", "Llama 3.2 1B", kLlama1b, 64.04, 30.94},  {"sm8850", "Llama 3.2 3B", kLlama3b, 29.48, 58.0},
    {"sm8850", "Llama 3 8B", kLlama8b, 15.31, 102.9},    {"sm8850", "Llama 3.1 8B", kLlama8b, 14.92, 110},
};

TEST(ModelCost, BytesOfADecodedToken) {
    const auto decode = estimate_decode(*open_device("x-elite"), kLlama1b, 4096);
    EXPECT_NEAR(static_cast<double>(decode.weight_bytes + decode.kv_bytes), 0.824e9, 0.001e9);
    EXPECT_EQ(decode.kv_bytes, int64_t{2} * 16 * 8 * 64 * 4096);
}

TEST(ModelCost, WithinTenPercentDecodingAndAQuarterForPrompts) {
    for (const Published& row : kPublished) {
        const HtpDevice device = *open_device(row.device);
        const double tokens_per_s = 1e6 / estimate_decode(device, row.sizes, 4096).token_us;
        const double chunk_ms = estimate_prompt(device, row.sizes, 128, 4096).chunk_us() / 1000;
        std::printf(
            "%-8s %-13s decode %6.2f predicted, %6.2f published, %+5.1f %%;  chunk %6.1f ms, %6.1f, %+5.1f "
            "%%\n",
            row.device, row.model, tokens_per_s, row.tokens_per_s,
            100 * (tokens_per_s / row.tokens_per_s - 1), chunk_ms, row.chunk_ms,
            100 * (chunk_ms / row.chunk_ms - 1));
        EXPECT_LT(std::fabs(tokens_per_s / row.tokens_per_s - 1), 0.10);
        EXPECT_LT(std::fabs(chunk_ms / row.chunk_ms - 1), 0.25);
    }
}

/// Bandwidth and time per layer from two models of a device exactly, and the others
/// predicted by them: what the formula is worth for models it was not fitted to.
TEST(ModelCost, HoldsForModelsThatItWasNotFittedTo) {
    for (const char* name : {"sm8750", "sm8850"}) {
        HtpDevice device = *open_device(name);
        device.dma_gb_per_s = 1;
        device.layer_us = 0;
        // t = bytes * a + layers * b, with a and b from the smallest model and Llama 3 8B.
        double bytes[2], layers[2], times[2];
        int n = 0;
        for (const Published& row : kPublished) {
            const bool is_base =
                std::string_view(row.model) == "Llama 3.2 1B" || std::string_view(row.model) == "Llama 3 8B";
            if (std::string_view(row.device) != name || !is_base) continue;
            bytes[n] = estimate_decode(device, row.sizes, 4096).token_us;
            layers[n] = static_cast<double>(row.sizes.n_layer);
            times[n++] = 1e6 / row.tokens_per_s;
        }
        ASSERT_EQ(n, 2);
        const double determinant = bytes[0] * layers[1] - bytes[1] * layers[0];
        const double a = (times[0] * layers[1] - times[1] * layers[0]) / determinant;
        device.dma_gb_per_s = 1 / a;
        device.layer_us = (bytes[0] * times[1] - bytes[1] * times[0]) / determinant;
        for (const Published& row : kPublished) {
            if (std::string_view(row.device) != name) continue;
            const double tokens_per_s = 1e6 / estimate_decode(device, row.sizes, 4096).token_us;
            EXPECT_LT(std::fabs(tokens_per_s / row.tokens_per_s - 1), 0.10) << name << " " << row.model;
        }
    }
}

}  // namespace
}  // namespace tessera::npu
