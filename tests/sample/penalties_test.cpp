// Penalties and biases against a direct evaluation of their formulas, with tokens entering and leaving the
// window.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

#include "tests/sample/logits.h"

namespace tessera::sample {
namespace {

/// The logits after a chain that drops nothing, by token.
std::vector<float> edited(Chain& chain, const std::vector<float>& logits) {
    Candidates buffer;
    chain.sample(logits, buffer);
    std::vector<float> result(logits.size(), NAN);
    for (const Candidate& c : buffer.entries()) result[static_cast<size_t>(c.id)] = c.logit;
    return result;
}

struct Setting {
    double repeat, presence, frequency, last_n;
};

std::vector<float> reference_of_penalties(const Setting& s, std::vector<float> logits,
                                          const std::deque<int32_t>& text) {
    std::map<int32_t, int> counts;
    const size_t n = s.last_n < 0 ? text.size() : std::min(text.size(), static_cast<size_t>(s.last_n));
    for (size_t i = text.size() - n; i < text.size(); i++) counts[text[i]]++;
    for (const auto& [id, count] : counts) {
        double x = logits[static_cast<size_t>(id)];
        x = x > 0 ? x / s.repeat : x * s.repeat;
        logits[static_cast<size_t>(id)] = static_cast<float>(x - count * s.frequency - s.presence);
    }
    return logits;
}

TEST(Penalties, FollowTheWindow) {
    const std::vector<float> logits = test::synthetic_logits(50, 11);
    for (const Setting& s : {Setting{1.3, 0, 0, 64}, Setting{1, 0.7, 0, 8}, Setting{1, 0, 0.4, 1},
                             Setting{0.8, -0.5, 1.5, -1}, Setting{2, 1, 1, 200}, Setting{1.5, 1, 1, 0}}) {
        for (const char* order :
             {"", "top_k;penalties"}) {  // over all tokens, and over a list that lost some
            Params params = test::neutral({{"repeat_penalty", s.repeat},
                                           {"presence_penalty", s.presence},
                                           {"frequency_penalty", s.frequency},
                                           {"repeat_last_n", s.last_n},
                                           {"top_k", *order ? 49 : 0}});
            ASSERT_TRUE(params.set("samplers", order));
            Chain chain = test::make_chain(params, logits.size());
            std::deque<int32_t> text;
            std::mt19937 bits(5);
            for (int step = 0; step < 150; step++) {
                const std::vector<float> got = edited(chain, logits),
                                         expected = reference_of_penalties(s, logits, text);
                for (size_t i = 0; i < got.size(); i++) {
                    if (std::isnan(got[i])) continue;  // dropped by top_k
                    ASSERT_NEAR(got[i], expected[i], 1e-4) << "step " << step << " token " << i;
                }
                text.push_back(static_cast<int32_t>(bits() % 20));
                chain.accept(text.back());
            }
            chain.reset();
            EXPECT_EQ(edited(chain, logits)[3], logits[3]);
        }
    }
}

TEST(Penalties, CloneHasItsOwnWindow) {
    const std::vector<float> logits(10, 1.0f);
    Chain chain = test::make_chain(test::neutral({{"presence_penalty", 1}}), logits.size());
    chain.accept(3);
    Chain copy = chain.clone();
    copy.accept(4);
    EXPECT_EQ(edited(chain, logits)[3], 0.0f);
    EXPECT_EQ(edited(chain, logits)[4], 1.0f);
    EXPECT_EQ(edited(copy, logits)[3], 0.0f);
    EXPECT_EQ(edited(copy, logits)[4], 0.0f);
}

TEST(LogitBias, AddsAndBans) {
    std::vector<float> logits = test::synthetic_logits(50, 12);
    logits[4] = kInf;
    Params params = test::neutral({{"top_k", 45}});
    ASSERT_TRUE(params.set("logit_bias", "9+2.5,4-inf,20-1"));
    for (const char* order : {"logit_bias", "top_k;logit_bias"}) {
        ASSERT_TRUE(params.set("samplers", order));
        Chain chain = test::make_chain(params, logits.size());
        const std::vector<float> got = edited(chain, logits);
        EXPECT_EQ(got[4], -kInf);
        for (size_t i = 0; i < got.size(); i++) {
            if (i == 4 || std::isnan(got[i])) continue;
            EXPECT_EQ(got[i], logits[i] + (i == 9 ? 2.5f : i == 20 ? -1.0f : 0.0f)) << i;
        }
    }
}

}  // namespace
}  // namespace tessera::sample
