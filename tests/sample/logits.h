#pragma once
// Synthetic logits and parameter helpers shared by the sampling tests.
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "src/sample/chain.h"

namespace tessera::sample {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace tessera::sample

namespace tessera::sample::test {

/// Many unlikely tokens and a few likely ones, as in language models; quantized, so that ties occur.
inline std::vector<float> synthetic_logits(size_t n_vocab, uint32_t seed, float spread = 2.0f) {
    std::mt19937 bits(seed);
    std::normal_distribution<float> bulk(0.0f, spread);
    std::vector<float> logits(n_vocab);
    for (float& logit : logits) logit = std::round(bulk(bits) * 64.0f) / 64.0f;
    for (size_t i = 0; i < n_vocab / 50 + 1; i++) logits[bits() % n_vocab] += 6.0f;
    return logits;
}

/// Parameters of a chain that filters nothing, with the settings given on top.
inline Params neutral(std::initializer_list<std::pair<std::string_view, double>> settings) {
    Params params;
    for (const auto& [name, value] : {std::pair<std::string_view, double>{"temperature", 1.0},
                                      {"top_k", 0.0},
                                      {"top_p", 1.0},
                                      {"min_p", 0.0},
                                      {"seed", 1.0}}) {
        EXPECT_TRUE(params.set(name, value));
    }
    for (const auto& [name, value] : settings) EXPECT_TRUE(params.set(name, value)) << name;
    return params;
}

inline Chain make_chain(const Params& params, size_t n_vocab, uint64_t stream = 0) {
    auto chain = Chain::create(params, {.n_vocab = static_cast<int32_t>(n_vocab)}, stream);
    EXPECT_TRUE(chain) << chain.error().message;
    return std::move(*chain);
}

}  // namespace tessera::sample::test
