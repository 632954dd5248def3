// A forward pass with segments computed by another backend: with segments run by the CPU's own operations the
// logits have the bits of the plain pass, for any segments and any cut of the text; with integer segments
// they equal those of the whole graph in integers.
#include "src/npu/npu_backend.h"

#include <numeric>

#include "common/rng.h"
#include "ggml-like/record/replay.h"
#include "src/npu/reference_runners.h"
#include "tests/npu/graph_support.h"

namespace tessera::npu {
namespace {

using namespace test;

constexpr int64_t kCtx = 40, kRows = 4;

/// Runs segments by the CPU operations that they consist of, with its own cache and activations.
class VerbRunner final : public SegmentRunner {
  public:
    VerbRunner(const record::Program& program, std::vector<DeviceRange> ranges, Backend& backend,
               const kv::Layout& layout)
        : program_(program),
          ranges_(std::move(ranges)),
          backend_(backend),
          replay_(std::move(*record::Replay::create(program))),
          text_(layout, kCtx),
          pages_(text_.reserve(kCtx)) {}

    int64_t max_rows(size_t) const override { return program_.n_tok; }
    void run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
             std::span<float* const> outputs) override {
        const DeviceRange& range = ranges_[segment];
        ++n_runs;
        EXPECT_TRUE(pass.n_valid >= 1 && pass.n_valid <= program_.n_tok);
        for (int32_t i = 0; i < std::ssize(program_.ops); ++i)
            if (std::holds_alternative<record::RopeAnglesOp>(program_.ops[static_cast<size_t>(i)].verb))
                replay_.run_range(backend_, i, i, pass.n_valid, pass.n_past, pages_);
        for (size_t i = 0; i < inputs.size(); ++i) {
            ActBuffer& to = replay_.act(range.inputs[i]);
            const ActBuffer from{.dim = to.dim, .f32 = const_cast<float*>(inputs[i])};
            backend_.copy({.x = &from, .n_tok = pass.n_valid, .y = &to});
        }
        replay_.run_range(backend_, range.first_op, range.last_op, pass.n_valid, pass.n_past, pages_);
        for (size_t i = 0; i < outputs.size(); ++i) {
            const ActBuffer& from = replay_.act(range.outputs[i]);
            std::copy_n(from.f32, pass.n_valid * from.dim, outputs[i]);
        }
    }

    int64_t n_runs = 0;

  private:
    const record::Program& program_;
    std::vector<DeviceRange> ranges_;
    Backend& backend_;
    record::Replay replay_;
    CachedText text_;
    std::vector<std::byte* const*> pages_;
};

engine::SessionOptions session_options(int64_t n_batch, int64_t max_out) {
    engine::SessionOptions options;
    options.n_ctx = kCtx;
    options.n_batch = n_batch;
    options.max_out = max_out;
    options.all_floats = true;
    return options;
}

/// The results for a text from every interface.
std::vector<float> answers(engine::Session& session, std::span<const int32_t> tokens) {
    std::vector<float> out;
    const auto keep = [&](std::span<const float> rows) { out.insert(out.end(), rows.begin(), rows.end()); };
    const auto n_vocab = static_cast<size_t>(session.model().hparams().n_vocab);
    const auto done = session.eval_all(tokens, [&](int64_t, int64_t n, const float* rows) {
        keep({rows, static_cast<size_t>(n) * n_vocab});
        return true;
    });
    EXPECT_TRUE(done) << done.error().message;
    // A prompt, tokens one by one, and other tokens at the same positions.
    session.truncate(0);
    EXPECT_TRUE(session.eval(tokens.first(11)));
    keep(session.logits());
    for (size_t i = 11; i < 14; ++i) {
        EXPECT_TRUE(session.eval(tokens.subspan(i, 1)));
        keep(session.logits());
    }
    session.truncate(7);
    EXPECT_TRUE(session.eval(tokens.first(6)));
    keep(session.logits());
    std::vector<float> hidden(static_cast<size_t>(session.model().hparams().n_embd));
    for (const engine::Pooling pooling : {engine::Pooling::Mean, engine::Pooling::Last}) {
        EXPECT_TRUE(session.embed(tokens, pooling, hidden));
        keep(hidden);
    }
    return out;
}

/// Random ranges: each operation with probability two thirds, except those that no range may contain.
std::vector<DeviceRange> random_ranges(const record::Program& program, Rng& rng) {
    std::vector<bool> is_taken;
    for (const record::Op& op : program.ops) {
        bool take = rng.next_u64() % 3 != 0;
        if (std::holds_alternative<record::AttendOp>(op.verb)) take = is_taken.back();
        if (std::string_view(op.name()).starts_with("moe") ||
            std::holds_alternative<record::EmbedOp>(op.verb) ||
            std::holds_alternative<record::RopeAnglesOp>(op.verb))
            take = false;
        is_taken.push_back(take);
    }
    std::vector<DeviceRange> ranges;
    const auto n_ops = static_cast<int32_t>(is_taken.size());
    for (int32_t first = 0; first < n_ops; ++first) {
        if (!is_taken[static_cast<size_t>(first)]) continue;
        int32_t last = first;
        while (last + 1 < n_ops && is_taken[static_cast<size_t>(last) + 1] &&
               program.ops[static_cast<size_t>(last) + 1].layer >= 0)
            ++last;
        ranges.push_back(range_of(program, first, last));
        first = last;
    }
    return ranges;
}

class NpuBackends : public testing::TestWithParam<TestModel> {};

TEST_P(NpuBackends, WithTheProcessorsVerbsGiveItsBits) {
    ThreadPool pool(2);
    auto model = load_model(path_of(GetParam()), pool);
    ASSERT_TRUE(model) << model.error().message;
    const auto plan = engine::plan_cache(**model, session_options(16, 1));
    ASSERT_TRUE(plan);
    const record::Program program =
        record_forward(**model, plan->layout,
                       {.n_tok = kRows, .n_ctx = kCtx, .logits = RecordedLogits::All, .all_floats = true});
    const auto own = engine::create_backend(**model, pool, kRows);
    Rng rng(5);
    for (const int64_t n_batch : {16, 5}) {
        auto plain = engine::Session::create(*model, pool, session_options(n_batch, n_batch));
        ASSERT_TRUE(plain) << plain.error().message;
        const std::vector<float> expected = answers(**plain, kGoldenTokens);
        std::vector<std::vector<DeviceRange>> cases;
        for (int i = 0; i < 4; ++i) cases.push_back(random_ranges(program, rng));
        for (const char* list : {"blk.*.ffn", "blk.*.attn", "output", "blk.*,output"})
            cases.push_back(
                partition(program, *Selection::parse(list), *open_device("x-elite"), *open_recipe("w8a16"))
                    ->segments);
        for (const std::vector<DeviceRange>& ranges : cases) {
            VerbRunner runner(program, ranges, **own, plan->layout);
            auto session = engine::Session::create(*model, pool, session_options(n_batch, n_batch));
            ASSERT_TRUE(session) << session.error().message;
            auto backend =
                NpuBackend::create((*session)->backend(), program, ranges, runner, n_batch, n_batch);
            ASSERT_TRUE(backend) << backend.error().message;
            (*session)->compute_through(backend->get());
            EXPECT_TRUE(same_bits(answers(**session, kGoldenTokens), expected)) << n_batch;
            EXPECT_EQ(runner.n_runs > 0, !ranges.empty());
        }
    }
}

/// Integer segments behind the CPU's embeddings: converting codes to floats and back at a border changes
/// nothing.
TEST_P(NpuBackends, InIntegersGiveTheWholeGraph) {
    if (!reason_of(GetParam().name).empty()) GTEST_SKIP() << reason_of(GetParam().name);
    ThreadPool pool(1);
    auto model = load_model(path_of(GetParam()), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    Ranges ranges;
    {
        FloatModel floats(**model, pool, 16, kCtx, RecordedLogits::All);
        RangeCollector collector(floats.graph);
        floats.logits(kGoldenTokens,
                      [&](GraphValueId id, std::span<const float> x) { collector.add(id, x); });
        ranges = *collector.take(1, 16);
    }
    QuantizedMatrices matrices(*open_recipe("w8a16"));
    const record::Program program = program_of(**model, kRows, kCtx, RecordedLogits::All);
    const Graph graph = *lower(program, kCtx);
    auto whole = IntegerRun::create(graph, matrices, ranges);
    ASSERT_TRUE(whole) << whole.error().message;
    std::vector<float> expected;
    for (int64_t at = 0; at < 16; at += kRows) {
        whole->run(std::span(kGoldenTokens).subspan(static_cast<size_t>(at), kRows), at);
        const std::vector<float> rows = whole->output();
        expected.insert(expected.end(), rows.begin(), rows.end());
    }
    const Partition parts = *partition(program, {}, *open_device("x-elite"), matrices.recipe());
    for (const int64_t n_batch : {16, 7}) {
        auto runner = IntegerRunner::create(program, parts.segments, kCtx, matrices, ranges);
        ASSERT_TRUE(runner) << runner.error().message;
        auto session = engine::Session::create(*model, pool, session_options(n_batch, n_batch));
        ASSERT_TRUE(session) << session.error().message;
        auto backend =
            NpuBackend::create((*session)->backend(), program, parts.segments, **runner, n_batch, n_batch);
        ASSERT_TRUE(backend) << backend.error().message;
        (*session)->compute_through(backend->get());
        std::vector<float> logits;
        const auto n_vocab = (*model)->hparams().n_vocab;
        EXPECT_TRUE((*session)->eval_all(kGoldenTokens, [&](int64_t, int64_t n, const float* rows) {
            logits.insert(logits.end(), rows, rows + n * n_vocab);
            return true;
        }));
        EXPECT_TRUE(same_bits(logits, expected)) << n_batch;
    }
}

std::vector<TestModel> all_models() {
    std::vector<TestModel> models(std::begin(kTestModels), std::end(kTestModels));
    models.push_back(kTinyModel);
    return models;
}

INSTANTIATE_TEST_SUITE_P(Models, NpuBackends, testing::ValuesIn(all_models()), name_of);

}  // namespace
}  // namespace tessera::npu
