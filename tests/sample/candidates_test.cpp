// The selections against a full sort, and the fixed-point exponential against the C library's.
#include "src/sample/candidates.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "src/sample/fixed_exp.h"
#include "tests/sample/logits.h"

namespace tessera::sample {
namespace {

std::vector<int32_t> ids_of(Candidates candidates) {
    candidates.sort_by_id();
    std::vector<int32_t> ids;
    for (const Candidate& c : candidates.entries()) ids.push_back(c.id);
    return ids;
}

Candidates load(const std::vector<float>& logits) {
    Candidates candidates;
    candidates.assign(logits);
    return candidates;
}

/// All of `logits`, best first, ties by id.
std::vector<Candidate> ranked(const std::vector<float>& logits) {
    std::vector<Candidate> all;
    for (size_t i = 0; i < logits.size(); i++) all.push_back({static_cast<int32_t>(i), logits[i], 0});
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return std::pair(-a.logit, a.id) < std::pair(-b.logit, b.id);
    });
    return all;
}

std::vector<int32_t> sorted_ids(std::span<const Candidate> some) {
    std::vector<int32_t> ids;
    for (const Candidate& c : some) ids.push_back(c.id);
    std::sort(ids.begin(), ids.end());
    return ids;
}

/// Rows that are hard for selection algorithms.
std::vector<std::vector<float>> hard_rows(size_t n) {
    std::vector<float> rising(n), falling(n), masked(n, -kInf);
    std::iota(rising.begin(), rising.end(), 0.0f);
    for (size_t i = 0; i < n; i++) falling[i] = -static_cast<float>(i) / 16.0f;
    masked[n / 2] = 1.0f;
    std::vector<float> certain = test::synthetic_logits(n, 3);
    certain[n - 1] = certain[n / 3] = kInf;
    std::vector<float> huge = test::synthetic_logits(n, 4);
    for (float& x : huge) x *= 1e37f;
    return {rising,
            falling,
            masked,
            certain,
            huge,
            std::vector<float>(n, 2.5f),
            std::vector<float>(n, -kInf),
            test::synthetic_logits(n, 1),
            test::synthetic_logits(n, 2, 0.1f)};
}

TEST(Candidates, KeepTopIsThePrefixOfAFullSort) {
    for (size_t n : {1, 2, 40, 255, 257, 1000, 20000}) {
        for (const auto& logits : hard_rows(n)) {
            const std::vector<Candidate> reference = ranked(logits);
            for (size_t k : {1, 2, 40, 64, 100, 999, 5000, 20000}) {
                Candidates candidates = load(logits);
                candidates.keep_top(k);
                ASSERT_EQ(candidates.size(), std::min(k, n));
                ASSERT_EQ(ids_of(candidates), sorted_ids(std::span(reference).first(std::min(k, n))));
            }
        }
    }
}

TEST(Candidates, KeepMassIsTheShortestPrefixThatReachesP) {
    for (size_t n : {1, 40, 256, 257, 3000, 20000}) {
        for (const auto& logits : hard_rows(n)) {
            std::vector<Candidate> reference = ranked(logits);
            uint64_t total = 0;
            const float best = reference[0].logit;
            for (Candidate& c : reference) {
                c.weight = !std::isinf(best) ? fixed_weight(c.logit, best) : c.logit == best ? kWeightOne : 0;
                total += c.weight;
            }
            for (double p : {0.0, 1e-9, 0.3, 0.5, 0.95, 0.9999}) {
                size_t n_kept = 0;
                uint64_t mass = 0;
                do mass += reference[n_kept++].weight;
                while (static_cast<double>(mass) < p * static_cast<double>(total));
                Candidates candidates = load(logits);
                candidates.keep_mass(p, 0);
                ASSERT_EQ(ids_of(candidates), sorted_ids(std::span(reference).first(n_kept)))
                    << "n " << n << " p " << p;
            }
        }
    }
}

TEST(Candidates, FiltersDoNotDependOnTheOrderOfEntries) {
    const std::vector<float> logits = test::synthetic_logits(5000, 7);
    const auto filters = {+[](Candidates& c) { c.keep_top(700); },
                          +[](Candidates& c) { c.keep_mass(0.9, 0); },
                          +[](Candidates& c) { c.keep_relative(0.01, 0); }};
    for (const auto filter : filters) {
        Candidates by_id = load(logits), by_rank = load(logits), shuffled = load(logits);
        by_rank.sort();
        shuffled.keep_top(4999);  // leaves the list unordered; the same token is dropped from all three
        by_id.keep_top(4999);
        by_id.sort_by_id();
        by_rank.keep_top(4999);
        filter(by_id);
        filter(by_rank);
        filter(shuffled);
        EXPECT_EQ(ids_of(by_id), ids_of(by_rank));
        EXPECT_EQ(ids_of(by_id), ids_of(shuffled));
        EXPECT_EQ(by_id.weigh(), shuffled.weigh());
    }
}

TEST(Candidates, OrderIsTracked) {
    Candidates candidates = load({1, 3, 2, 3});
    EXPECT_TRUE(candidates.complete());
    EXPECT_FALSE(candidates.sorted());
    EXPECT_EQ(candidates.logit(2), 2.0f);
    candidates.sort();
    EXPECT_TRUE(candidates.sorted());
    EXPECT_FALSE(candidates.complete());
    EXPECT_EQ(candidates.entries()[0].id, 1);
    EXPECT_EQ(candidates.entries()[1].id, 3);
    candidates.logits_changed();
    EXPECT_FALSE(candidates.sorted());
    candidates.sort_by_id();
    EXPECT_EQ(candidates.entries()[0].id, 0);
    candidates.keep_top(2);
    EXPECT_EQ(candidates.size(), 2u);
    EXPECT_EQ(ids_of(candidates), (std::vector<int32_t>{1, 3}));
}

TEST(Candidates, NanIsTakenAsBannedAndCounted) {
    Candidates candidates;
    EXPECT_EQ(candidates.assign(std::vector<float>{NAN, 1, -NAN, kInf, -kInf}), 2u);
    EXPECT_EQ(candidates.logit(0), -kInf);
    EXPECT_EQ(candidates.logit(2), -kInf);
    EXPECT_EQ(candidates.weigh(), kWeightOne);  // +inf takes it all
}

TEST(Candidates, KeepRelativeComparesWithTheBest) {
    Candidates candidates = load({0.0f, std::log(0.5f), std::log(0.1f), std::log(0.04f), -kInf});
    candidates.keep_relative(0.05, 0);
    EXPECT_EQ(candidates.size(), 3u);
    candidates.keep_relative(1.0, 0);
    EXPECT_EQ(candidates.size(), 1u);
}

TEST(FixedExp, ErrorIsWithinTheDocumentedBound) {
    const auto one = static_cast<double>(kWeightOne);
    double worst = 0, worst_of_likely = 0;
    for (float x = 0; x >= -29.9f; x -= 0.0000173f) {
        const double exact = one * std::exp(static_cast<double>(x));
        const double error = std::abs(static_cast<double>(scaled_exp(x)) - exact) / exact;
        worst = std::max(worst, error);
        if (x >= -4) worst_of_likely = std::max(worst_of_likely, error);
        const double rounded = std::abs(static_cast<double>(fixed_weight(x, 0)) - exact);
        ASSERT_LT(rounded, 0.51 + 2e-6 * exact) << x;
    }
    EXPECT_LT(worst, 2e-6);
    EXPECT_LT(worst_of_likely, 4e-7);
    EXPECT_EQ(fixed_weight(7, 7), kWeightOne);
    // Bits that every machine must give.
    EXPECT_EQ(fixed_weight(-1, 0), 404487733248u);
    EXPECT_EQ(fixed_weight(-11.7f, 3.3f), 336343u);
    for (const float x : {-29.0f, -1e30f, -kInf}) EXPECT_EQ(fixed_weight(x, 0), 0u);
}

/// The error of a probability that docs/reference/sampling.md promises, without and with a temperature.
TEST(Candidates, ProbabilitiesAreWithinTheDocumentedError) {
    constexpr size_t kN = 64;  // few: the absolute part then hides no more than p below 1e-5
    double worst_plain = 0, worst_tempered = 0;
    for (const double temperature : {1.0, 0.13, 0.3, 0.7, 1.7, 4.0}) {
        for (uint32_t seed = 0; seed < 300; seed++) {
            const float width = 0.3f * static_cast<float>(1 + seed % 20);
            const std::vector<float> logits = test::synthetic_logits(kN, seed, width);
            Candidates candidates = load(logits);
            if (temperature != 1) candidates.temper(temperature);
            const auto sum = static_cast<double>(candidates.weigh());
            const double best = *std::max_element(logits.begin(), logits.end());
            std::vector<double> exact(kN);
            for (size_t i = 0; i < kN; i++) exact[i] = std::exp((logits[i] - best) / temperature);
            const double exact_sum = std::accumulate(exact.begin(), exact.end(), 0.0);
            double& worst = temperature == 1 ? worst_plain : worst_tempered;
            for (const Candidate& c : candidates.entries()) {
                const double p = exact[static_cast<size_t>(c.id)] / exact_sum;
                const double off = std::abs(static_cast<double>(c.weight) / sum - p) - kN * 0x1p-40;
                worst = std::max(worst, off / p);
            }
        }
    }
    RecordProperty("worst", std::to_string(worst_plain) + " " + std::to_string(worst_tempered));
    EXPECT_LT(worst_plain, 4e-6);
    EXPECT_LT(worst_tempered, 5e-6);
}

TEST(FixedExp, MomentsAreWeightsTimesDistances) {
    const auto one = static_cast<double>(kWeightOne);
    for (float x = 0; x > -40; x -= 0.0013f) {
        const double distance = -static_cast<double>(x);
        EXPECT_NEAR(static_cast<double>(scaled_moment(x, 0)), distance * std::exp(-distance) * one,
                    20 + 1e-6 * one * distance * std::exp(-distance));
    }
    EXPECT_EQ(scaled_moment(-kInf, 0), 0.0f);
}

/// A row and a list of the same tokens must have the same weights; the filters decide which of the two is
/// used.
TEST(FixedExp, RowsAndListsWeighTheSame) {
    for (const auto& logits : hard_rows(5000)) {
        Candidates row = load(logits), list = load(logits);
        list.entries();
        EXPECT_EQ(row.weigh(), list.weigh());
        const Mass a = row.mass(), b = list.mass();
        EXPECT_EQ(a.weight, b.weight);
        EXPECT_EQ(a.moment, b.moment);
        std::vector<float> p_row(LogitRow::padded(5000)), p_list(p_row.size());
        const Preference preference = {0.25f, 3, 5, 10};
        row.prefer(p_row, preference);
        list.prefer(p_list, preference);
        p_row.resize(5000);
        p_list.resize(5000);
        row.temper(0.7);
        list.temper(0.7);
        EXPECT_EQ(row.weigh(), list.weigh());
        EXPECT_EQ(p_row, p_list);
        for (size_t i = 0; i < logits.size(); i++) {
            ASSERT_EQ(row.entries()[i].logit, list.entries()[i].logit);
            ASSERT_EQ(row.entries()[i].weight, list.entries()[i].weight);
        }
    }
}

TEST(Candidates, InfiniteLogitsShareTheProbability) {
    Candidates candidates = load({5, kInf, -kInf, kInf});
    EXPECT_EQ(candidates.weigh(), 2 * kWeightOne);
    EXPECT_EQ(candidates.entries()[0].weight, 0u);
    candidates = load({-kInf, -kInf});
    EXPECT_EQ(candidates.weigh(), 2 * kWeightOne);
}

}  // namespace
}  // namespace tessera::sample
