// After the first token, sampling allocates nothing on the heap.
#include "tests/sample/logits.h"
#include "tests/support/count_allocations.h"

namespace tessera::sample {
namespace {

void expect_no_allocation(Params params) {
    ASSERT_TRUE(params.set("dry_sequence_breakers", ""));  // breakers need a vocabulary with texts
    constexpr size_t kVocab = 5000;
    std::vector<std::vector<float>> rows;
    for (uint32_t i = 0; i < 8; i++) rows.push_back(test::synthetic_logits(kVocab, i, i % 2 ? 3.0f : 0.01f));
    Chain chain = test::make_chain(params, kVocab);
    chain.accept(chain.sample(rows[0]));
    const size_t before = tessera::test::n_allocations;
    for (int step = 0; step < 100; step++)
        chain.accept(chain.sample(rows[static_cast<size_t>(step) % rows.size()]));
    chain.reset();
    chain.sample(rows[1]);
    EXPECT_EQ(tessera::test::n_allocations - before, 0u);
}

TEST(Allocation, CounterCounts) {
    const size_t before = tessera::test::n_allocations;
    std::vector<int> some(100);
    EXPECT_GT(tessera::test::n_allocations - before, 0u);
}

TEST(Allocation, NoneWithDefaults) { expect_no_allocation(Params()); }

TEST(Allocation, NoneWithEverythingOn) {
    Params params = test::neutral({{"repeat_penalty", 1.1},
                                   {"presence_penalty", 0.1},
                                   {"frequency_penalty", 0.1},
                                   {"repeat_last_n", 32},
                                   {"top_k", 2000},
                                   {"top_p", 0.9},
                                   {"min_p", 1e-4},
                                   {"temperature", 0.7}});
    ASSERT_TRUE(params.set("logit_bias", "1+2,3-inf"));
    ASSERT_TRUE(params.set("dry_sequence_breakers", ""));
    for (const auto& [name, value] :
         {std::pair("dry_multiplier", 1.0), std::pair("no_repeat_ngram_size", 2.0),
          std::pair("top_n_sigma", 3.0), std::pair("typical_p", 0.99), std::pair("xtc_probability", 0.5),
          std::pair("dynatemp_range", 0.2), std::pair("adaptive_target", 0.4), std::pair("min_keep", 3.0)})
        ASSERT_TRUE(params.set(name, value)) << name;
    expect_no_allocation(params);
    for (const double version : {1.0, 2.0}) {
        ASSERT_TRUE(params.set("mirostat", version));
        expect_no_allocation(params);
    }
    ASSERT_TRUE(params.set("repeat_last_n", -1.0));
    expect_no_allocation(params);
}

TEST(Allocation, NoneWithOneFilterOverTheWholeVocabulary) {
    expect_no_allocation(test::neutral({{"top_p", 0.95}}));
    expect_no_allocation(test::neutral({{"min_p", 0.05}}));
    expect_no_allocation(test::neutral({{"temperature", 0}}));
    expect_no_allocation(test::neutral({{"typical_p", 0.5}}));
    expect_no_allocation(test::neutral({{"top_n_sigma", 1}}));
    expect_no_allocation(test::neutral({{"xtc_probability", 1}, {"xtc_threshold", 0.01}}));
    expect_no_allocation(test::neutral({{"adaptive_target", 0.1}}));
    expect_no_allocation(
        test::neutral({{"dry_multiplier", 1}, {"dry_penalty_last_n", 10}, {"dry_allowed_length", 1}}));
    expect_no_allocation(test::neutral({}));
}

}  // namespace
}  // namespace tessera::sample
