// Any parameters within their ranges, any order, any logits: the result is a token, and an allowed one if
// there is any. The tokens do not depend on other sampling in between.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "tests/sample/logits.h"
#include "tests/sample/vocabulary.h"

namespace tessera::sample {
namespace {

/// Rows that no model computes, and some that one might.
std::vector<float> hostile_row(std::mt19937& bits, size_t n) {
    std::vector<float> row = test::synthetic_logits(n, static_cast<uint32_t>(bits()), 2.0f);
    const float odd[] = {NAN, -NAN, kInf, -kInf, 3.4e38f, -3.4e38f, 1e-45f, -0.0f};
    switch (bits() % 8) {
        case 0:
            row.assign(n, odd[bits() % 8]);
            break;
        case 1:
            for (float& x : row) x = std::bit_cast<float>(static_cast<uint32_t>(bits()));
            break;
        case 2:
            for (float& x : row) x *= 1e37f;
            break;
        case 3:
            for (float& x : row) x = bits() % 3 ? odd[bits() % 8] : x;
            break;
        case 4:
            for (float& x : row) x = bits() % 50 ? -kInf : x;
            break;
        case 5:
            row.assign(n, static_cast<float>(bits() % 7));
            break;
        default:
            break;
    }
    return row;
}

Params random_params(std::mt19937& bits) {
    Params params;
    for (const ParamInfo& row : all_params()) {
        if (!row.is_number() || bits() % 3) continue;
        double value = row.default_value;
        switch (bits() % 4) {
            case 0:
                value = row.min;
                break;
            case 1:
                value = row.max;
                break;
            default: {
                const double share = static_cast<double>(bits() % 1000) / 1000;
                value = row.min + (std::min(row.max, row.min + 100) - row.min) * share * share;
                break;
            }
        }
        // Windows allocate memory of their size.
        if (row.name == "repeat_last_n" || row.name == "dry_penalty_last_n") value = std::min(value, 300.0);
        EXPECT_TRUE(params.set(row.name, row.kind == ParamKind::Int ? std::trunc(value) : value));
    }
    std::vector<std::string> names;
    for (const SamplerInfo& sampler : all_samplers()) names.emplace_back(sampler.name);
    names.pop_back();  // draw
    std::shuffle(names.begin(), names.end(), bits);
    names.resize(1 + bits() % names.size());
    std::string order;
    for (const std::string& name : names) order += (order.empty() ? "" : ";") + name;
    if (bits() % 2) {
        EXPECT_TRUE(params.set("samplers", order));
    }
    if (bits() % 4 == 0) {
        EXPECT_TRUE(params.set("logit_bias", "0-inf,5+1000000,7-1000000"));
    }
    if (bits() % 4 == 0) {
        EXPECT_TRUE(params.set("banned_strings", "a,re"));
    }
    return params;
}

/// The same without the samplers that need a vocabulary.
Params without_text(Params params) {
    for (const char* name : {"banned_strings", "dry_sequence_breakers", "logit_bias"})
        EXPECT_TRUE(params.set(name, ""));
    EXPECT_TRUE(params.set("infill", 0.0));
    return params;
}

TEST(Hostile, AnyChainSurvivesAnyLogits) {
    const test::Vocabulary v({"re", "return", "x", ":", "end"});
    const auto n = static_cast<size_t>(v.n_vocab);
    std::mt19937 bits(20);
    for (int round = 0; round < 3000; round++) {
        const Params params = random_params(bits);
        auto made =
            Chain::create(params, {.n_vocab = v.n_vocab, .tokenizer = v.tokenizer.get(), .n_ctx = 300});
        ASSERT_TRUE(made) << made.error().message;
        Chain& chain = *made;
        std::vector<uint64_t> allowed(n / 64 + 1);
        for (int step = 0; step < 12; step++) {
            const std::vector<float> row = hostile_row(bits, n);
            for (uint64_t& word : allowed)
                word = (uint64_t{bits()} << 32 | bits()) & (uint64_t{bits()} << 32 | bits());
            const std::array<int32_t, 2> banned = {static_cast<int32_t>(bits() % 100),
                                                   100 + static_cast<int32_t>(bits() % 100)};
            const bool limited = bits() % 2;
            const int32_t id =
                chain.sample(row, limited ? Limits{.allowed = allowed, .banned = banned} : Limits{});
            ASSERT_GE(id, 0);
            ASSERT_LT(id, v.n_vocab);
            ASSERT_GE(chain.last().p, 0.0);
            ASSERT_LE(chain.last().p, 1.0);
            ASSERT_TRUE(chain.last().all_masked || chain.last().p > 0) << round;
            const bool may_end = params.number("infill") != 0;  // infill may add an end token
            if (limited && !chain.last().all_masked && !may_end) {
                ASSERT_TRUE(allowed[static_cast<size_t>(id) / 64] >> (id % 64) & 1);
                ASSERT_TRUE(id != banned[0] && id != banned[1]);
                ASSERT_FALSE(row[static_cast<size_t>(id)] == -kInf ||
                             std::isnan(row[static_cast<size_t>(id)]));
            }
            if (bits() % 4) chain.accept(id);
            if (bits() % 16 == 0) chain.forget_text();
            if (bits() % 32 == 0) chain = chain.clone();
        }
    }
}

TEST(Hostile, VocabulariesOfAFewTokens) {
    std::mt19937 bits(21);
    for (size_t n = 1; n <= 130; n++) {
        for (int round = 0; round < 30; round++) {
            const Params params = without_text(random_params(bits));
            Chain chain = test::make_chain(params, n);
            for (int step = 0; step < 4; step++) {
                const int32_t id = chain.sample(hostile_row(bits, n));
                ASSERT_TRUE(id >= 0 && id < static_cast<int32_t>(n));
                chain.accept(id);
            }
        }
    }
}

TEST(Hostile, OtherRequestsAndBuffersChangeNothing) {
    const size_t n = 3000;
    std::mt19937 bits(22);
    const std::vector<float> row = test::synthetic_logits(n, 5), other = test::synthetic_logits(n + 500, 6);
    for (int round = 0; round < 60; round++) {
        Params params = without_text(random_params(bits));
        ASSERT_TRUE(params.set("seed", 77.0));
        Chain alone = test::make_chain(params, n, 4), shared = test::make_chain(params, n, 4);
        Chain neighbour = test::make_chain(without_text(random_params(bits)), n + 500, 5);
        Candidates buffer;
        for (int step = 0; step < 10; step++) {
            neighbour.accept(neighbour.sample(other, buffer));
            const int32_t id = alone.sample(row);
            ASSERT_EQ(shared.sample(row, buffer), id);
            ASSERT_EQ(shared.last().p, alone.last().p);
            alone.accept(id);
            shared.accept(id);
        }
    }
}

TEST(Hostile, TokensTakenBackLeaveNoTrace) {
    const size_t n = 500;
    Params params =
        test::neutral({{"repeat_penalty", 1.3}, {"dry_multiplier", 1}, {"no_repeat_ngram_size", 3}});
    ASSERT_TRUE(params.set("dry_sequence_breakers", ""));
    const std::vector<float> row = test::synthetic_logits(n, 7);
    Chain plain = test::make_chain(params, n), rewound = test::make_chain(params, n);
    std::vector<int32_t> text = {1, 2, 3, 1, 2};
    for (const int32_t id : text) plain.accept(id);
    for (const int32_t id : {1, 2, 3, 1, 2, 9, 8, 7}) rewound.accept(id);
    rewound.forget_text();
    for (const int32_t id : text) rewound.accept(id);
    for (int step = 0; step < 40; step++) {
        const int32_t id = plain.sample(row);
        ASSERT_EQ(rewound.sample(row), id);
        plain.accept(id);
        rewound.accept(id);
    }
}

}  // namespace
}  // namespace tessera::sample
