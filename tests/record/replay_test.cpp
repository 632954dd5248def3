// A recorded program gives the bits of the forward pass: for every architecture, chunk size, KV type and
// number of threads, with padding, from an arena filled with garbage before each run.
#include "ggml-like/record/replay.h"

#include <limits>

#include "tests/model/rewrite.h"
#include "tests/record/support.h"
#include "tests/support/count_allocations.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

namespace {

std::vector<int32_t> some_tokens(int n) {
    std::vector<int32_t> tokens = kGoldenTokens;
    for (int i = static_cast<int>(tokens.size()); i < n; ++i) tokens.push_back(3 + (i * 7919) % 500);
    tokens.resize(static_cast<size_t>(n));
    return tokens;
}

/// A program on the CPU whose values hold garbage before each run.
class Runner {
  public:
    Runner(const Model& model, ThreadPool& pool, const kv::Layout& layout, const RecordOptions& options)
        : program_(record_forward(model, layout, options)),
          replay_(std::move(*record::Replay::create(program_))),
          backend_(std::move(*engine::create_backend(model, pool, options.n_tok))) {}

    void run(std::span<const int32_t> tokens, CachedText& text) {
        const auto n = static_cast<int64_t>(tokens.size());
        const auto pages = text.reserve(n);
        spoil();
        const uint64_t before = n_allocations.load();
        replay_.run(*backend_, tokens, text.n_tok(), pages);
        EXPECT_EQ(n_allocations.load(), before);
        text.advance(n);
    }

    /// Rows of the output; with Rows::Last there is one.
    std::span<const float> logits(int64_t n_rows) {
        const ActBuffer& act = replay_.act(program_.output);
        return {act.f32, static_cast<size_t>(n_rows * act.dim)};
    }

  private:
    void spoil() {
        for (size_t i = 0; i < program_.values.size(); ++i) {
            const record::ValueId id{static_cast<int32_t>(i)};
            const record::Slot& slot = program_[program_[id].slot];
            if (slot.is_routes()) continue;
            const ActBuffer& act = replay_.act(id);
            const auto n = static_cast<size_t>(slot.rows * slot.dim);
            const float nan = std::numeric_limits<float>::quiet_NaN();
            if (act.f32) std::fill_n(act.f32, n, nan);
            if (!act.q) continue;
            std::fill_n(act.q, n, int8_t{-128});
            std::fill_n(act.d, n / 32, nan);
            std::fill_n(act.s, n / 32, nan);
            std::fill_n(act.sum16, n / 16, int16_t{-32768});
            std::fill_n(act.sum8, n / 8, int16_t{-32768});
        }
    }

    record::Program program_;
    record::Replay replay_;
    std::unique_ptr<CpuBackend> backend_;
};

/// Logits of every token, in passes of n_tok tokens, the last of which is padded.
std::vector<float> replayed(const Model& model, ThreadPool& pool, const kv::Layout& layout,
                            std::span<const int32_t> tokens, int64_t n_tok, int64_t n_ctx) {
    CachedText text(layout, std::ssize(tokens));
    Runner runner(model, pool, layout, {.n_tok = n_tok, .n_ctx = n_ctx, .logits = RecordedLogits::All});
    std::vector<float> logits;
    for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(n_tok)) {
        const auto part = tokens.subspan(at, std::min(static_cast<size_t>(n_tok), tokens.size() - at));
        runner.run(part, text);
        const auto rows = runner.logits(std::ssize(part));
        logits.insert(logits.end(), rows.begin(), rows.end());
    }
    return logits;
}

/// Logits of the last token: passes of n_tok tokens that only fill the cache, a padded one, then one token at
/// a time.
std::vector<float> decoded(const Model& model, ThreadPool& pool, const kv::Layout& layout,
                           std::span<const int32_t> tokens, int64_t n_tok, int64_t n_ctx) {
    CachedText text(layout, std::ssize(tokens));
    const auto runner = [&](int64_t n, RecordedLogits logits) {
        return Runner(model, pool, layout, {.n_tok = n, .n_ctx = n_ctx, .logits = logits});
    };
    Runner fill = runner(n_tok, RecordedLogits::None), last = runner(n_tok, RecordedLogits::Last),
           one = runner(1, RecordedLogits::Last);
    const auto chunk = static_cast<size_t>(n_tok);
    size_t at = 0;
    for (; at + chunk < tokens.size() - 3; at += chunk) fill.run(tokens.subspan(at, chunk), text);
    last.run(tokens.subspan(at, tokens.size() - 3 - at), text);
    for (at = tokens.size() - 3; at < tokens.size(); ++at) one.run(tokens.subspan(at, 1), text);
    const auto row = one.logits(1);
    return {row.begin(), row.end()};
}

engine::SessionOptions cache_options(Type type, int64_t n_ctx, int64_t n_tok) {
    engine::SessionOptions options;
    options.n_ctx = n_ctx;
    options.n_batch = n_tok;
    options.k_type = options.v_type = type;
    return options;
}

void expect_same_bits(const std::shared_ptr<const Model>& model, const std::vector<int32_t>& tokens,
                      int64_t n_ctx, std::initializer_list<int64_t> n_toks) {
    ThreadPool one(1), two(2);
    const int64_t n_vocab = model->hparams().n_vocab;
    for (const Type type : kKvTypes) {
        if (!test::fits_cache(model->hparams(), type)) continue;
        const std::vector<float> direct = all_logits(model, two, tokens, std::ssize(tokens), type, n_ctx);
        const std::vector<float> last(direct.end() - n_vocab, direct.end());
        for (const int64_t n_tok : n_toks) {
            const auto options = cache_options(type, n_ctx, n_tok);
            const auto whole = engine::plan_cache(*model, options),
                       windowed = engine::plan_completion_cache(*model, options);
            ASSERT_TRUE(whole && windowed);
            std::vector<kv::Layout> layouts = {whole->layout};
            // Layers with a window have pages of another layer group, which are returned to the pool.
            if (windowed->layout.n_layer_groups > 1) layouts.push_back(windowed->layout);
            for (const kv::Layout& layout : layouts)
                for (ThreadPool* pool : {&one, &two}) {
                    EXPECT_TRUE(same_bits(direct, replayed(*model, *pool, layout, tokens, n_tok, n_ctx)))
                        << type_info(type).name << ", passes of " << n_tok << ", " << pool->n_threads();
                    EXPECT_TRUE(same_bits(last, decoded(*model, *pool, layout, tokens, n_tok, n_ctx)))
                        << type_info(type).name << ", passes of " << n_tok << ", " << pool->n_threads();
                }
        }
    }
}

class Replays : public testing::TestWithParam<TestModel> {};

TEST_P(Replays, GiveTheBitsOfTheForwardPass) {
    const TestModel& test = GetParam();
    const TempFolder folder;
    const std::string quantized = folder.at("quantized.gguf");
    rewrite(test.path(), quantized, [](auto& tensors) { quantize_matrices(tensors, Type::Q8_0); });
    for (const std::string& path : {test.path(), quantized}) {
        ThreadPool pool(2);
        auto model = load_model(path, pool);
        ASSERT_TRUE(model) << model.error().message;
        const std::vector<int32_t> tokens = some_tokens(21);
        expect_same_bits(*model, tokens, std::max(std::ssize(tokens), test.n_ctx), {1, 8, 32});
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Replays, testing::ValuesIn(kTestModels), name_of);
INSTANTIATE_TEST_SUITE_P(LayerModels, Replays, testing::ValuesIn(kLayerModels), name_of);

/// Several pages and windows, in the integer and the float path.
TEST(LongReplays, GiveTheBitsOfTheForwardPass) {
    ThreadPool pool(2);
    for (const bool pack : {true, false}) {
        auto model = load_model(path_of(kTinyModel), pool, "", pack);
        ASSERT_TRUE(model) << model.error().message;
        expect_same_bits(*model, some_tokens(100), 100, {32});
    }
    auto windowed = load_model(model_file("gptoss"), pool);
    ASSERT_TRUE(windowed) << windowed.error().message;
    EXPECT_GT(
        engine::plan_completion_cache(**windowed, cache_options(Type::F16, 200, 32))->layout.n_layer_groups,
        1);
    expect_same_bits(*windowed, some_tokens(200), 200, {32});
}

}  // namespace

}  // namespace tessera::test
