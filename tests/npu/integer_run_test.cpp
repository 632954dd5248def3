// Models in the device's integers: the error of their logits against floats, and equal bits for a pass of 128
// tokens and 128 passes of one.
#include "src/npu/integer_run.h"

#include "tests/npu/graph_support.h"

namespace tessera::npu {
namespace {

using namespace test;

struct IntegerModel {
    record::Program program;
    Graph graph;
    IntegerRun run;

    IntegerModel(const Model& model, QuantizedMatrices& matrices, const Ranges& ranges, int64_t n_tok,
                 int64_t n_ctx, RecordedLogits logits)
        : program(program_of(model, n_tok, n_ctx, logits)),
          graph(std::move(*lower(program, n_ctx))),
          run(std::move(*IntegerRun::create(graph, matrices, ranges))) {}
    IntegerModel(const IntegerModel&) = delete;
    IntegerModel& operator=(const IntegerModel&) = delete;
};

class IntegerRuns : public testing::TestWithParam<TestModel> {};

TEST_P(IntegerRuns, AreCloseToTheFloatsAndTheSameForEveryPass) {
    const TestModel& test = GetParam();
    if (!reason_of(test.name).empty()) GTEST_SKIP() << "there is no graph: " << reason_of(test.name);
    ThreadPool pool(1);
    auto model = load_model(test.path(), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    const int64_t n_ctx = 160;
    const std::vector<int32_t> tokens = some_tokens(140);
    const Ranges ranges = ranges_of(**model, pool, tokens, n_ctx);
    QuantizedMatrices matrices(*open_recipe("w8a16"));

    // The prompt in a pass of 128 tokens and a padded one, which compute only the logits of the last token.
    IntegerModel prefill(**model, matrices, ranges, 128, n_ctx, RecordedLogits::Last);
    prefill.run.run(std::span(tokens).first(128), 0);
    prefill.run.run(std::span(tokens).subspan(128), 128);
    IntegerModel decode(**model, matrices, ranges, 1, n_ctx, RecordedLogits::Last);
    std::vector<float> logits;
    for (size_t i = 0; i < tokens.size(); ++i) {
        decode.run.run(std::span(tokens).subspan(i, 1), static_cast<int64_t>(i));
        const std::vector<float> row = decode.run.output();
        logits.insert(logits.end(), row.begin(), row.end());
    }
    EXPECT_TRUE(same_bits(prefill.run.output(), decode.run.output()));
    EXPECT_EQ(prefill.run.caches(), decode.run.caches());

    FloatModel floats(**model, pool, 70, n_ctx, RecordedLogits::All);
    const std::vector<float> expected = floats.logits(tokens, {});
    ASSERT_EQ(logits.size(), expected.size());
    const double error = nmse(logits, expected.data());
    RecordProperty("nmse", std::to_string(error));
    EXPECT_LT(error, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Models, IntegerRuns, testing::ValuesIn(kTestModels), name_of);
INSTANTIATE_TEST_SUITE_P(LayerModels, IntegerRuns, testing::ValuesIn(kLayerModels), name_of);

TEST(IntegerRun, ErrorsNameTheValue) {
    ThreadPool pool(1);
    auto model = load_model(model_file("llama"), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    Ranges ranges = ranges_of(**model, pool, kGoldenTokens, 16);
    const record::Program program = program_of(**model, 1, 16, RecordedLogits::Last);
    const Graph graph = *lower(program, 16);
    QuantizedMatrices matrices(*open_recipe("w4a16"));
    ASSERT_TRUE(IntegerRun::create(graph, matrices, ranges));
    ranges.of.erase("blk.1.gate");
    EXPECT_EQ(IntegerRun::create(graph, matrices, ranges).error().message,
              "the activation 'blk.1.gate' has no range: it was not calibrated");
    auto packed = load_model(path_of(kTinyModel), pool);
    ASSERT_TRUE(packed) << packed.error().message;
    const record::Program other = program_of(**packed, 1, 16, RecordedLogits::Last);
    const auto matrix = matrices.get(other.weights.back());
    ASSERT_FALSE(matrix);
    EXPECT_NE(matrix.error().message.find("packed layout"), std::string::npos);
}

}  // namespace
}  // namespace tessera::npu
