// Graphs of test models: which models have one, that their plain float loops give the reference logits for
// any cut of the text, and the ranges that they collect.
#include "tests/npu/graph_support.h"

#include <cmath>
#include <set>

namespace tessera::npu {
namespace {

using namespace test;

class Graphs : public testing::TestWithParam<TestModel> {};

TEST_P(Graphs, GiveTheReferenceLogitsInFloats) {
    const TestModel& test = GetParam();
    ThreadPool pool(1);
    auto model = load_model(test.path(), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    const int64_t n_ctx = std::max<int64_t>(16, test.n_ctx);
    const record::Program all = program_of(**model, 16, n_ctx, RecordedLogits::All);
    const auto graph = lower(all, n_ctx);
    ASSERT_EQ(graph.has_value(), reason_of(test.name).empty())
        << (graph ? "there is a graph" : graph.error().message);
    if (!graph) {
        EXPECT_NE(graph.error().message.find(reason_of(test.name)), std::string::npos)
            << graph.error().message;
        return;
    }
    std::set<std::string> names;
    for (const GraphValue& value : graph->values) names.insert(value.name);
    EXPECT_EQ(names.size(), graph->values.size());

    const std::vector<float> expected = logits_of_file(test.logits_path());
    std::vector<float> whole;
    for (const int64_t n_tok : {16, 5, 1}) {
        FloatModel run(**model, pool, n_tok, n_ctx, RecordedLogits::All);
        const std::vector<float> logits = run.logits(kGoldenTokens, {});
        ASSERT_EQ(logits.size(), expected.size());
        EXPECT_LT(nmse(logits, expected.data()), 1e-9) << n_tok;
        if (whole.empty()) whole = logits;
        EXPECT_TRUE(same_bits(logits, whole)) << n_tok;
    }
    FloatModel last(**model, pool, 5, n_ctx, RecordedLogits::Last);
    const std::vector<float> rows = last.logits(kGoldenTokens, {});
    const auto n_vocab = static_cast<size_t>((*model)->hparams().n_vocab);
    ASSERT_EQ(rows.size(), 4 * n_vocab);
    EXPECT_TRUE(std::equal(rows.end() - static_cast<int64_t>(n_vocab), rows.end(),
                           whole.end() - static_cast<int64_t>(n_vocab)));
}

INSTANTIATE_TEST_SUITE_P(Models, Graphs, testing::ValuesIn(kTestModels), name_of);
INSTANTIATE_TEST_SUITE_P(LayerModels, Graphs, testing::ValuesIn(kLayerModels), name_of);

TEST(Graph, HasAValueForEachStepOfAVerb) {
    ThreadPool pool(1);
    auto model = load_model(model_file("llama"), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    const record::Program program = program_of(**model, 4, 16, RecordedLogits::Last);
    const auto graph = lower(program, 16);
    ASSERT_TRUE(graph) << graph.error().message;
    std::set<std::string> names;
    for (const GraphValue& value : graph->values) names.insert(value.name);
    for (const char* name : {"x",
                             "blk.0.h",
                             "blk.0.q_product",
                             "blk.0.q",
                             "blk.0.k_product",
                             "blk.0.k",
                             "blk.0.v",
                             "blk.0.scores",
                             "blk.0.probabilities",
                             "blk.0.attn",
                             "blk.0.delta",
                             "blk.0.x",
                             "blk.0.h.2",
                             "blk.0.gate",
                             "blk.0.up",
                             "blk.0.activation",
                             "blk.0.ff",
                             "blk.0.delta.2",
                             "blk.0.x.2",
                             "blk.1.last_q",
                             "out",
                             "logits"})
        EXPECT_TRUE(names.contains(name)) << name;
    EXPECT_EQ((*graph)[graph->outputs.back()].name, "logits");
    EXPECT_EQ((*graph)[graph->outputs.back()].rows, 1);
    EXPECT_NE(lower(program, 3).error().message.find("at least the 4 of a pass"), std::string::npos);
}

TEST(Graph, NeedsRowsAsInTheFile) {
    ThreadPool pool(1);
    auto model = load_model(path_of(kTinyModel), pool);
    ASSERT_TRUE(model) << model.error().message;
    const record::Program program = program_of(**model, 1, 16, RecordedLogits::Last);
    const auto graph = lower(program, 16);
    ASSERT_TRUE(graph) << graph.error().message;
    const auto backend = engine::create_backend(**model, pool, 1);
    const auto run = FloatRun::create(*graph, **backend);
    ASSERT_FALSE(run);
    EXPECT_NE(run.error().message.find("expected rows as in the file"), std::string::npos);
}

TEST(Ranges, CoverAllRowsExceptPadding) {
    ThreadPool pool(1);
    auto model = load_model(model_file("llama"), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    std::vector<Ranges> found;
    for (const int64_t n_tok : {16, 7, 1}) {
        FloatModel run(**model, pool, n_tok, 16, RecordedLogits::All);
        RangeCollector collector(run.graph);
        run.logits(kGoldenTokens, [&](GraphValueId id, std::span<const float> x) { collector.add(id, x); });
        auto ranges = collector.take(7, 16);
        ASSERT_TRUE(ranges) << ranges.error().message;
        // All values except probabilities, whose range is fixed.
        for (const GraphValue& value : run.graph.values)
            EXPECT_EQ(ranges->find(value.name).has_value(), !value.name.ends_with("probabilities"))
                << value.name;
        found.push_back(std::move(*ranges));
    }
    EXPECT_EQ(found[0].of, found[1].of);
    EXPECT_EQ(found[0].of, found[2].of);

    const std::vector<float> logits = logits_of_file(data_file("logits/llama.logits"));
    const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
    const Range range = *found[0].find("logits");
    EXPECT_NEAR(range.min, *low, 1e-4);
    EXPECT_NEAR(range.max, *high, 1e-4);

    const auto read = parse_ranges(found[0].to_json());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->of, found[0].of);
    EXPECT_EQ(read->model, 7u);
    EXPECT_EQ(read->n_tok, 16);
    EXPECT_NE(read->find("blk.9.x").error().message.find("'blk.9.x' has no range"), std::string::npos);
}

TEST(Ranges, NanAndInfinityAreNamed) {
    Graph graph;
    graph.values = {{.name = "x"}, {.name = "blk.0.ff"}};
    RangeCollector collector(graph);
    collector.add({0}, std::vector<float>{1, -2});
    EXPECT_EQ(collector.take(0, 1)->of, (std::map<std::string, Range>{{"x", {-2, 1}}}));
    collector.add({1}, std::vector<float>{0, std::nanf("")});
    EXPECT_EQ(collector.take(0, 1).error().message, "the activation 'blk.0.ff' is not finite");
}

TEST(Ranges, WrongFieldsAreNamed) {
    const auto with = [](const std::string& ranges) {
        return R"({"model": "0123456789abcdef", "n_tok": 3, "ranges": )" + ranges + "}";
    };
    ASSERT_TRUE(parse_ranges(with(R"({"x": [-1, 2.5]})")));
    const std::pair<std::string, const char*> cases[] = {
        {"3", "expected an object, found 3"},
        {R"({"model": "0123456789abcdef", "ranges": {}})", "the field 'n_tok' is missing"},
        {R"({"model": "0123456789abcdef", "n_tok": 0, "ranges": {}})", "'n_tok': expected an integer"},
        {R"({"model": "0123456789abcde", "n_tok": 1, "ranges": {}})", "'model': expected a text of 16"},
        {R"({"model": "0123456789abcdeg", "n_tok": 1, "ranges": {}})", "'model': expected a text of 16"},
        {R"({"model": 3, "n_tok": 1, "ranges": {}})", "'model': expected a text of 16"},
        {R"({"range": 3})", "unknown field 'range'; did you mean 'ranges'?"},
        {with("[]"), "'ranges': expected an object"},
        {with(R"({"x": 3})"), "'ranges.x': expected an array of two numbers"},
        {with(R"({"x": [1]})"), "'ranges.x': expected an array of two numbers"},
        {with(R"({"x": [1, "2"]})"), "'ranges.x': expected a number that is a finite float"},
        {with(R"({"x": [1, 1e39]})"), "'ranges.x': expected a number that is a finite float"},
        {with(R"({"x": [2, 1]})"), "'ranges.x': expected the smaller number first"},
        {with(R"({"x\"": [1, 2]})"), "expected a name of 1 to 64"},
    };
    for (const auto& [json, says] : cases) {
        const auto ranges = parse_ranges(json);
        ASSERT_FALSE(ranges) << json;
        EXPECT_NE(ranges.error().message.find(says), std::string::npos) << json << ranges.error().message;
    }
}

TEST(Ranges, NoPrefixIsAFile) {
    Ranges ranges{.model = 1, .n_tok = 2, .of = {{"blk.0.x", {-1.5f, 2}}, {"logits", {0, 1e-30f}}}};
    std::string json = ranges.to_json();
    ASSERT_EQ(parse_ranges(json)->of, ranges.of);
    while (json.back() == '\n') json.pop_back();
    for (size_t n = 0; n < json.size(); ++n)
        ASSERT_FALSE(parse_ranges(std::string_view(json).substr(0, n))) << n;
}

}  // namespace
}  // namespace tessera::npu
