// Whole chains: distributions against a float64 reference, draws against their distribution, reproducibility.
#include "src/sample/chain.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "tests/sample/logits.h"

namespace tessera::sample {
namespace {

using test::make_chain;
using test::neutral;
using test::synthetic_logits;

/// The default order top_k, top_p, min_p, temperature in float64 by full sorts: token -> probability.
std::map<int32_t, double> reference_of_chain(const Params& params, const std::vector<float>& logits) {
    std::vector<int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto logit = [&](int32_t id) { return static_cast<double>(logits[static_cast<size_t>(id)]); };
    std::sort(ids.begin(), ids.end(),
              [&](int32_t a, int32_t b) { return std::pair(-logit(a), a) < std::pair(-logit(b), b); });
    const double best = logit(ids[0]);

    const double k = params.number("top_k");
    if (k > 0 && k < static_cast<double>(ids.size())) ids.resize(static_cast<size_t>(k));
    double total = 0;
    for (int32_t id : ids) total += std::exp(logit(id) - best);
    if (params.number("top_p") < 1) {
        double mass = 0;
        size_t n = 0;
        do mass += std::exp(logit(ids[n++]) - best) / total;
        while (n < ids.size() && mass < params.number("top_p"));
        ids.resize(n);
    }
    std::erase_if(ids, [&](int32_t id) { return std::exp(logit(id) - best) < params.number("min_p"); });
    const double temperature = params.number("temperature");
    if (temperature <= 0) ids.resize(1);
    std::map<int32_t, double> result;
    total = 0;
    for (int32_t id : ids) total += result[id] = std::exp((logit(id) - best) / std::max(temperature, 1e-9));
    for (auto& [id, p] : result) p /= total;
    return result;
}

/// The distribution that the chain draws from.
std::map<int32_t, double> distribution(Chain& chain, const std::vector<float>& logits) {
    Candidates buffer;
    chain.sample(logits, buffer);
    const auto total = static_cast<double>(buffer.weigh());
    std::map<int32_t, double> result;
    for (const Candidate& c : buffer.entries()) result[c.id] = static_cast<double>(c.weight) / total;
    return result;
}

TEST(Chain, DistributionsEqualTheFloat64Reference) {
    const std::vector<Params> settings = {Params(),
                                          neutral({}),
                                          neutral({{"top_k", 1}}),
                                          neutral({{"top_k", 3000}}),
                                          neutral({{"top_p", 0.9}}),
                                          neutral({{"top_p", 0.9999}, {"temperature", 1.7}}),
                                          neutral({{"top_p", 0}}),
                                          neutral({{"min_p", 0.02}}),
                                          neutral({{"min_p", 1}}),
                                          neutral({{"temperature", 0.02}}),
                                          neutral({{"temperature", 100}}),
                                          neutral({{"temperature", 0}}),
                                          neutral({{"top_k", 500}, {"top_p", 0.8}, {"min_p", 0.001}})};
    for (size_t n_vocab : {1, 7, 300, 32000}) {
        for (uint32_t seed : {1, 2, 3}) {
            const std::vector<float> logits = synthetic_logits(n_vocab, seed, seed == 3 ? 0.2f : 2.5f);
            for (size_t s = 0; s < settings.size(); s++) {
                SCOPED_TRACE(strf("n_vocab %zu, seed %u, setting %zu", n_vocab, seed, s));
                Chain chain = make_chain(settings[s], n_vocab);
                const auto got = distribution(chain, logits),
                           expected = reference_of_chain(settings[s], logits);
                ASSERT_EQ(got.size(), expected.size());
                for (const auto& [id, p] : expected) {
                    ASSERT_TRUE(got.contains(id)) << id;
                    ASSERT_NEAR(got.at(id), p, 1e-5 * p + 1e-9) << id;
                }
            }
        }
    }
}

TEST(Chain, DrawsFollowTheDistribution) {
    const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -kInf, 1.5f, -1.0f, 2.0f, -3.0f};
    constexpr int kDraws = 100000;
    const auto expected = reference_of_chain(neutral({}), logits);
    for (double seed : {1, 2, 12345}) {
        Chain chain = make_chain(neutral({{"seed", seed}}), logits.size());
        std::map<int32_t, int> counts;
        for (int i = 0; i < kDraws; i++) counts[chain.sample(logits)]++;
        double chi_square = 0;
        for (const auto& [id, p] : expected) {
            if (p > 0) chi_square += std::pow(counts[id] - kDraws * p, 2) / (kDraws * p);
        }
        EXPECT_EQ(counts[3], 0);
        EXPECT_LT(chi_square, 22.46);  // 6 degrees of freedom, one in a thousand
    }
}

std::vector<int32_t> take(Chain& chain, const std::vector<float>& logits, int n) {
    std::vector<int32_t> ids;
    for (int i = 0; i < n; i++) {
        ids.push_back(chain.sample(logits));
        chain.accept(ids.back());
    }
    return ids;
}

TEST(Chain, SeedAndStreamDetermineTheTokens) {
    const std::vector<float> logits = synthetic_logits(1000, 1);
    const auto tokens = [&](double seed, uint64_t stream) {
        Chain chain = make_chain(neutral({{"seed", seed}}), logits.size(), stream);
        return take(chain, logits, 50);
    };
    EXPECT_EQ(tokens(7, 0), tokens(7, 0));
    EXPECT_NE(tokens(7, 0), tokens(8, 0));
    EXPECT_NE(tokens(7, 0), tokens(7, 1));
    EXPECT_EQ(tokens(9007199254740991, 3), tokens(9007199254740991, 3));
}

TEST(Chain, StreamsDoNotDisturbEachOther) {
    const std::vector<float> logits = synthetic_logits(1000, 2);
    Params params;
    ASSERT_TRUE(params.set("seed", 5.0));
    Chain alone_a = make_chain(params, logits.size(), 0), alone_b = make_chain(params, logits.size(), 1);
    const auto expected_a = take(alone_a, logits, 40), expected_b = take(alone_b, logits, 40);

    Chain a = make_chain(params, logits.size(), 0), b = make_chain(params, logits.size(), 1);
    Candidates shared_buffer;
    std::vector<int32_t> got_a, got_b;
    std::mt19937 bits(1);
    while (got_a.size() < 40 || got_b.size() < 40) {
        const bool first = got_b.size() == 40 || (got_a.size() < 40 && bits() % 2);
        (first ? got_a : got_b).push_back((first ? a : b).sample(logits, shared_buffer));
    }
    EXPECT_EQ(got_a, expected_a);
    EXPECT_EQ(got_b, expected_b);
}

TEST(Chain, DrawDependsOnItsNumberNotOnWhatCameBefore) {
    const std::vector<float> logits = synthetic_logits(1000, 3), other = synthetic_logits(1000, 4);
    Chain a = make_chain(neutral({}), logits.size()), b = make_chain(neutral({}), logits.size());
    for (int i = 0; i < 9; i++) {
        a.sample(logits);
        b.sample(other);
    }
    EXPECT_EQ(a.sample(logits), b.sample(logits));
    Chain c = make_chain(neutral({}), logits.size());
    c.seek(a.step());
    EXPECT_EQ(c.sample(logits), a.sample(logits));
}

TEST(Chain, TheTokenDependsOnTheSurvivorsNotOnHowTheyWereFound) {
    // The same 100 tokens remain, after a filter or because the vocabulary has no others.
    std::vector<float> logits = synthetic_logits(5000, 5), masked(5000, -kInf);
    Candidates best;
    best.assign(logits);
    best.keep_top(100);
    for (const Candidate& c : best.entries()) masked[static_cast<size_t>(c.id)] = c.logit;
    Chain a = make_chain(neutral({{"top_k", 100}}), logits.size()),
          b = make_chain(neutral({}), logits.size());
    for (int i = 0; i < 200; i++) ASSERT_EQ(a.sample(logits), b.sample(masked));
}

TEST(Chain, RandomSeedsDifferAndAreReported) {
    const std::vector<float> logits = synthetic_logits(1000, 6);
    Chain a = make_chain(Params(), logits.size()), b = make_chain(Params(), logits.size());
    EXPECT_NE(a.seed(), b.seed());
    Chain c = make_chain(neutral({{"seed", 77}}), logits.size(), 4);
    EXPECT_EQ(c.seed(), 77u);
    EXPECT_EQ(c.stream(), 4u);
}

TEST(Chain, GreedyTakesTheLowestOfTies) {
    std::vector<float> logits = synthetic_logits(2000, 7);
    logits[1500] = logits[300] = logits[1999] = 100.0f;
    for (const char* order : {"", "temperature", "temperature;top_k", "top_p;temperature"}) {
        Params params;
        ASSERT_TRUE(params.set("temperature", 0.0));
        ASSERT_TRUE(params.set("samplers", order));
        Chain chain = make_chain(params, logits.size());
        for (int i = 0; i < 5; i++) EXPECT_EQ(chain.sample(logits), 300);
        EXPECT_EQ(chain.last().p, 1.0);
    }
}

TEST(Chain, CloneContinuesAndResetStartsAgain) {
    const std::vector<float> logits = synthetic_logits(1000, 8);
    Chain chain = make_chain(neutral({{"presence_penalty", 2}}), logits.size());
    const auto first = take(chain, logits, 30);
    Chain copy = chain.clone();
    const auto rest = take(chain, logits, 30);
    EXPECT_EQ(take(copy, logits, 30), rest);
    EXPECT_NE(first, rest);
    chain.reset();
    EXPECT_EQ(chain.step(), 0u);
    EXPECT_EQ(take(chain, logits, 30), first);
}

TEST(Chain, NanAndInfinityAreHandled) {
    std::vector<Params> settings = {Params(), neutral({}), neutral({{"temperature", 0}}),
                                    neutral({{"min_p", 0.1}}),
                                    neutral({{"top_p", 0.5}, {"repeat_penalty", 2}, {"temperature", 0.01}})};
    ASSERT_TRUE(settings[4].set("logit_bias", "1-inf,2+1000000"));
    for (size_t n : {5, 1000}) {
        for (const Params& params : settings) {
            Chain chain = make_chain(params, n);
            for (int32_t id = 0; id < 5; id++) chain.accept(id);

            std::vector<float> logits(n, NAN);
            EXPECT_EQ(chain.sample(logits), 0);
            EXPECT_TRUE(chain.last().all_masked);
            EXPECT_EQ(chain.last().n_nan, n);

            logits.assign(n, -kInf);
            EXPECT_EQ(chain.sample(logits), 0);
            EXPECT_TRUE(chain.last().all_masked);
            EXPECT_EQ(chain.last().n_nan, 0u);

            logits[3] = -1e30f;
            logits[4] = NAN;
            EXPECT_EQ(chain.sample(logits), 3);
            EXPECT_FALSE(chain.last().all_masked);
            EXPECT_EQ(chain.last().n_nan, 1u);

            logits.assign(n, std::numeric_limits<float>::max());
            EXPECT_GE(chain.sample(logits), 0);

            logits.assign(n, 5.0f);
            logits[4] = kInf;
            EXPECT_EQ(chain.sample(logits), 4);
        }
    }
}

TEST(Chain, BanningEverythingIsReported) {
    Params params;
    ASSERT_TRUE(params.set("logit_bias", "0-inf,1-inf,2-inf"));
    Chain chain = make_chain(params, 3);
    EXPECT_EQ(chain.sample(std::vector<float>{1, 2, 3}), 0);
    EXPECT_TRUE(chain.last().all_masked);
}

// The tokens come from a separate evaluation of Philox and of the filters, not from this library.
TEST(Chain, TokensAreTheSameOnEveryMachine) {
    const std::vector<float> logits = [] {
        std::vector<float> row(1000);
        for (size_t i = 0; i < row.size(); i++) row[i] = static_cast<float>((i * 7919) % 1009) / 128.0f;
        return row;
    }();
    Params params;
    ASSERT_TRUE(params.set("seed", 42.0));
    Chain chain = make_chain(params, logits.size());
    EXPECT_EQ(take(chain, logits, 8), (std::vector<int32_t>{475, 818, 132, 165, 165, 930, 719, 798}));
}

}  // namespace
}  // namespace tessera::sample
