// Every sampler's distribution against the float64 reference, within 1e-5: on the reference models' logits,
// on those of the model that comes with the program, and on large synthetic rows; over several steps where
// text or feedback matters.
#include "tests/sample/reference.h"

#include <cstring>

#include "tests/model/support.h"
#include "tests/sample/logits.h"

namespace tessera::sample {
namespace {

using tessera::test::shared;
using test::neutral;
using test::Reference;
using Rows = std::vector<std::vector<float>>;

struct Case {
    const char* name;
    Params params;
};

Params with_order(Params params, const char* order) {
    EXPECT_TRUE(params.set("samplers", order));
    return params;
}

std::vector<Case> cases() {
    const std::initializer_list<std::pair<std::string_view, double>> most = {
        {"repeat_penalty", 1.2}, {"dry_multiplier", 0.8}, {"top_n_sigma", 2},     {"top_k", 60},
        {"typical_p", 0.97},     {"top_p", 0.95},         {"min_p", 0.001},       {"xtc_probability", 1},
        {"xtc_threshold", 0.05}, {"temperature", 0.9},    {"dynatemp_range", 0.3}};
    return {
        {"default", Params()},
        {"draw", neutral({})},
        {"penalties",
         neutral({{"repeat_penalty", 1.3}, {"presence_penalty", 0.4}, {"frequency_penalty", 0.2}})},
        {"dry", neutral({{"dry_multiplier", 0.8}, {"dry_penalty_last_n", -1}})},
        {"dry window", neutral({{"dry_multiplier", 2},
                                {"dry_base", 1.1},
                                {"dry_allowed_length", 1},
                                {"dry_penalty_last_n", 9}})},
        {"no_repeat_ngram", neutral({{"no_repeat_ngram_size", 2}})},
        {"no_repeat_ngram 1", neutral({{"no_repeat_ngram_size", 1}})},
        {"top_n_sigma", neutral({{"top_n_sigma", 1}})},
        {"top_n_sigma of few",
         with_order(neutral({{"top_n_sigma", 1.5}, {"top_k", 50}}), "top_k;top_n_sigma")},
        {"top_k", neutral({{"top_k", 40}})},
        {"top_k 300", neutral({{"top_k", 300}})},
        {"typ_p", neutral({{"typical_p", 0.6}})},
        {"typ_p little", neutral({{"typical_p", 0.05}})},
        {"typ_p most", neutral({{"typical_p", 0.995}})},
        {"typ_p min_keep", neutral({{"typical_p", 0.1}, {"min_keep", 30}})},
        {"top_p", neutral({{"top_p", 0.95}})},
        {"top_p min_keep", neutral({{"top_p", 0.1}, {"min_keep", 400}})},
        {"min_p", neutral({{"min_p", 0.05}})},
        {"min_p min_keep", neutral({{"min_p", 0.5}, {"min_keep", 25}})},
        {"xtc", neutral({{"xtc_probability", 1}, {"xtc_threshold", 0.02}})},
        {"xtc min_keep", neutral({{"xtc_probability", 1}, {"xtc_threshold", 0.02}, {"min_keep", 512}})},
        {"xtc of few", neutral({{"xtc_probability", 1}, {"xtc_threshold", 0.1}, {"top_k", 20}})},
        {"temperature", neutral({{"temperature", 0.3}})},
        {"dynatemp", neutral({{"temperature", 0.8}, {"dynatemp_range", 0.5}})},
        {"dynatemp exponent",
         neutral({{"temperature", 1.5}, {"dynatemp_range", 2}, {"dynatemp_exponent", 2.5}, {"top_k", 100}})},
        {"adaptive_p", neutral({{"adaptive_target", 0.3}, {"min_p", 0.01}})},
        {"adaptive_p quick", neutral({{"adaptive_target", 0.05}, {"adaptive_decay", 0.2}})},
        {"mirostat 1", neutral({{"mirostat", 1}, {"mirostat_tau", 3}})},
        {"mirostat 2", neutral({{"mirostat", 2}, {"mirostat_tau", 4}, {"mirostat_eta", 0.5}})},
        {"mirostat 2 cool", neutral({{"mirostat", 2}, {"mirostat_tau", 1}, {"temperature", 0.7}})},
        {"most", neutral(most)},
        {"other order",
         with_order(neutral(most), "temperature;min_p;xtc;top_p;typ_p;top_k;top_n_sigma;dry;penalties")},
    };
}

/// Draws from the rows one after the other and compares the distribution of every draw with the reference's.
void expect_reference(Params params, const Rows& rows) {
    ASSERT_TRUE(params.set("dry_sequence_breakers", ""));  // the reference has no text
    ASSERT_TRUE(params.set("seed", 11.0));
    Chain chain = test::make_chain(params, rows[0].size());
    Reference reference(params);
    for (const int32_t id : {3, 5, 9, 3, 5, 7, 3, 5}) {
        chain.accept(id);
        reference.accept_prompt(id);
    }
    Candidates buffer;
    for (size_t i = 0; i < rows.size(); i++) {
        SCOPED_TRACE(strf("row %zu", i));
        const auto expected = reference.distribution(rows[i]);
        const int32_t id = chain.sample(rows[i], buffer);
        const auto total = static_cast<double>(buffer.weigh());
        double seen = 0;
        for (const Candidate& c : buffer.entries()) {
            const double p = static_cast<double>(c.weight) / total;
            const auto found = expected.find(c.id);
            ASSERT_TRUE(found != expected.end() || p < 1e-9) << "token " << c.id << " stayed with " << p;
            if (found == expected.end()) continue;
            ASSERT_NEAR(p, found->second, 1e-5 * found->second + 1e-8) << "token " << c.id;
            seen += found->second;
        }
        ASSERT_NEAR(seen, 1.0, 1e-6);  // none that the reference keeps is missing
        ASSERT_TRUE(expected.contains(id));
        chain.accept(id);
        reference.accept_drawn(id);
    }
}

void expect_reference(const Rows& rows) {
    for (const Case& c : cases()) {
        SCOPED_TRACE(c.name);
        expect_reference(c.params, rows);
    }
}

class OfModel : public testing::TestWithParam<const char*> {};

TEST_P(OfModel, EqualTheReference) {
    const std::string bytes =
        tessera::test::read_file(tessera::test::data_file(std::string("logits/") + GetParam() + ".logits"));
    int32_t shape[2];
    ASSERT_GE(bytes.size(), sizeof shape);
    std::memcpy(shape, bytes.data(), sizeof shape);
    Rows rows(static_cast<size_t>(shape[0]), std::vector<float>(static_cast<size_t>(shape[1])));
    const char* at = bytes.data() + sizeof shape;
    for (std::vector<float>& row : rows) {
        std::memcpy(row.data(), at, row.size() * sizeof(float));
        at += row.size() * sizeof(float);
    }
    expect_reference(rows);
}

INSTANTIATE_TEST_SUITE_P(Golden, OfModel, testing::Values("llama", "gemma2", "gptoss", "qwen3moe", "smollm3"),
                         [](const auto& row) { return std::string(row.param); });

TEST(Distributions, OfTheDefaultModelEqualTheReference) {
    ThreadPool pool(2);
    auto model = tessera::test::load_model(TSR_SOURCE_DIR "/models/tessera-tiny.gguf", pool);
    ASSERT_TRUE(model) << model.error().message;
    const std::vector<int32_t> tokens = {1, 403, 278, 931, 300, 264, 777, 512, 3000, 42, 555, 278};
    const std::vector<float> logits = tessera::test::all_logits(*model, pool, tokens, 4);
    const size_t n_vocab = logits.size() / tokens.size();
    Rows rows;
    for (size_t i = 0; i < tokens.size(); i++)
        rows.emplace_back(logits.begin() + static_cast<ptrdiff_t>(i * n_vocab),
                          logits.begin() + static_cast<ptrdiff_t>((i + 1) * n_vocab));
    expect_reference(rows);
}

TEST(Distributions, OfALargeVocabularyEqualTheReference) {
    expect_reference({test::synthetic_logits(40001, 1), test::synthetic_logits(40001, 2, 0.3f),
                      test::synthetic_logits(40001, 3, 4.0f)});
}

}  // namespace
}  // namespace tessera::sample
