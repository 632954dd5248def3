// Windows of text, the figures of a row against a plain computation, and the file of base predictions.
#include "src/measure/perplexity.h"

#include <cmath>
#include <fstream>
#include <iterator>

#include "common/rng.h"
#include "src/measure/kl_base.h"
#include "tests/model/support.h"
#include "tests/support/temp_folder.h"

namespace tessera::measure {
namespace {

using sample::row_norm;
using sample::RowNorm;

std::vector<int32_t> counted(int32_t n) {
    std::vector<int32_t> out;
    for (int32_t i = 0; i < n; ++i) out.push_back(i % 500);
    return out;
}

std::vector<float> random_row(size_t n, uint64_t seed, float sigma) {
    std::vector<float> row(n);
    Rng rng(seed);
    for (float& x : row) x = sigma * static_cast<float>(2 * rng.next_double() - 1);
    return row;
}

TEST(PerplexityWindows, whole_windows_and_their_second_halves) {
    const auto windows = cut_windows(counted(21), 8, 0, 1);
    ASSERT_TRUE(windows.has_value());
    EXPECT_EQ(windows->n_windows, 2);
    EXPECT_EQ(windows->n_judged(), 3);
    EXPECT_EQ(windows->targets(1)[0], 13);
    EXPECT_EQ(windows->targets(1)[2], 15);
    EXPECT_EQ(cut_windows(counted(21), 8, 1, 1)->tokens.size(), 8u);
}

TEST(PerplexityWindows, too_short_a_text_is_refused) {
    const auto none = cut_windows(counted(7), 8, 0, std::nullopt);
    ASSERT_FALSE(none.has_value());
    EXPECT_NE(none.error().message.find("8 tokens, found 7"), std::string::npos) << none.error().message;
    EXPECT_FALSE(cut_windows(counted(7), 3, 0, std::nullopt).has_value());
}

TEST(PerplexityRow, divergence_is_that_of_the_definition) {
    const std::vector<float> p = random_row(300, 2, 4), q = random_row(300, 3, 4);
    const RowNorm p_norm = *row_norm(p), q_norm = *row_norm(q);
    std::vector<uint16_t> steps(300);
    const Divergence found = compare_row(q, q_norm, round_row(p, p_norm, steps), 11);
    double kl = 0;
    for (size_t i = 0; i < p.size(); ++i) {
        const double log_p = static_cast<double>(p[i]) - p_norm.log_sum;
        const double log_q = static_cast<double>(q[i]) - q_norm.log_sum;
        kl += std::exp(log_p) * (log_p - log_q);
    }
    EXPECT_NEAR(found.kl, kl, 1e-3 * kl);
    EXPECT_NEAR(found.nll, q_norm.log_sum - static_cast<double>(q[11]), 1e-12);
    EXPECT_NEAR(found.base_nll, p_norm.log_sum - static_cast<double>(p[11]), 1e-3);
    EXPECT_EQ(found.same_top, p_norm.argmax == q_norm.argmax);
}

TEST(PerplexityRow, a_row_hardly_differs_from_itself) {
    const std::vector<float> row = random_row(1000, 5, 9);
    const RowNorm norm = *row_norm(row);
    std::vector<uint16_t> steps(row.size());
    const Divergence found = compare_row(row, norm, round_row(row, norm, steps), 0);
    EXPECT_LT(std::abs(found.kl), 1e-4);
    EXPECT_TRUE(found.same_top);
    const std::vector<float> flat(4, 2.0f);  // all equally likely: a scale of zero
    const RowNorm flat_norm = *row_norm(flat);
    steps.resize(4);
    EXPECT_NEAR(compare_row(flat, flat_norm, round_row(flat, flat_norm, steps), 3).kl, 0, 1e-6);
}

/// A small base of two windows, 7 vocabulary entries.
std::string write_base(const test::TempFolder& folder) {
    std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 1, 2};
    const Windows windows = *cut_windows(tokens, 4, 0, std::nullopt);
    auto writer = KlBaseWriter::create(folder.at("base"), windows, 7);
    EXPECT_TRUE(writer.has_value());
    for (uint64_t row = 0; row < 2; ++row) {
        const std::vector<float> logits = random_row(7, row, 3);
        std::vector<uint16_t> steps(7);
        EXPECT_TRUE((*writer)->append(round_row(logits, *row_norm(logits), steps)).has_value());
    }
    EXPECT_TRUE((*writer)->finish().has_value());
    return folder.at("base");
}

TEST(KlBase, reads_back_as_written) {
    const test::TempFolder folder;
    const auto base = KlBase::open(write_base(folder));
    ASSERT_TRUE(base.has_value()) << base.error().message;
    EXPECT_EQ(base->n_vocab(), 7);
    EXPECT_EQ(base->windows().tokens, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 1, 2}));
    for (uint64_t w = 0; w < 2; ++w) {
        const std::vector<float> logits = random_row(7, w, 3);
        std::vector<uint16_t> steps(7);
        const BaseRow expected = round_row(logits, *row_norm(logits), steps);
        const auto found = base->row(static_cast<int64_t>(w), 0);
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(found->scale, expected.scale);
        EXPECT_EQ(found->least, expected.least);
        EXPECT_TRUE(std::equal(steps.begin(), steps.end(), found->steps.begin(), found->steps.end()));
    }
}

TEST(KlBase, every_truncation_and_every_absurd_header_is_refused) {
    const test::TempFolder folder;
    std::ifstream in(write_base(folder), std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(in)), {});
    for (size_t n = 1; n < whole.size(); ++n) {
        const auto cut = KlBase::open(folder.write("cut", whole.substr(0, n)));
        ASSERT_FALSE(cut.has_value()) << n;
        EXPECT_NE(cut.error().message.find("cut"), std::string::npos);
    }
    for (size_t at = 0; at < 52; at += 4) {
        std::string hurt = whole;
        hurt.replace(at, 4, "\xff\xff\xff\x7f");
        EXPECT_FALSE(KlBase::open(folder.write("hurt", hurt)).has_value()) << at;
    }
    std::string hurt = whole;
    hurt.replace(52, 4, std::string("\x00\x00\xc0\x7f", 4));  // a NaN for the first row's scale
    const auto base = KlBase::open(folder.write("nan", hurt));
    ASSERT_TRUE(base.has_value());
    EXPECT_FALSE(base->row(0, 0).has_value());
    EXPECT_TRUE(base->row(1, 0).has_value());
}

TEST(PerplexityEval, windows_are_computed_as_one_sequence_each) {
    ThreadPool pool(2);
    const auto model = test::load_model(test::model_file("llama"), pool);
    ASSERT_TRUE(model.has_value());
    const Windows windows = *cut_windows(counted(40), 16, 0, 1);
    const auto session = engine::Session::create(
        *model, pool, {.n_ctx = 16, .n_batch = 5, .max_out = 3, .k_type = Type::F32, .v_type = Type::F32});
    ASSERT_TRUE(session.has_value());
    std::vector<float> found;
    const auto done = eval_windows(**session, windows, [&](int64_t, int64_t, int64_t n, const float* rows) {
        found.insert(found.end(), rows, rows + n * 512);
        return Result<void>();
    });
    ASSERT_TRUE(done.has_value());
    std::vector<float> expected;
    for (int64_t w = 0; w < 2; ++w) {
        std::vector<int32_t> tokens(windows.window(w).begin(), windows.window(w).end());
        tokens[0] = 1;
        const auto rows = test::all_logits(*model, pool, tokens, 16);
        expected.insert(expected.end(), rows.begin() + 8 * 512, rows.begin() + 15 * 512);
    }
    EXPECT_TRUE(test::same_bits(found, expected));
}

}  // namespace
}  // namespace tessera::measure
