// Models with sliding windows in some layers: the engine keeps only the window of those layers and gives the
// results of a session, which keeps everything.
#include <algorithm>
#include <cmath>

#include "src/sample/row_norm.h"
#include "tests/engine/support.h"
#include "tests/engine/windowed_model.h"

namespace tessera::engine {
namespace {

struct Written {
    std::vector<int32_t> ids;
    std::vector<float> log_p;
};

/// The most likely tokens after the prompt, by a session.
Written by_session(const Loaded& loaded, ThreadPool& pool, std::span<const int32_t> prompt, size_t n) {
    auto session = *Session::create(loaded.model, pool, {.n_ctx = 1024});
    EXPECT_TRUE(session->eval(prompt).has_value());
    Written out;
    while (out.ids.size() < n) {
        const std::span<const float> logits = session->logits();
        const double norm = sample::row_norm(logits)->log_sum;
        std::vector<float> allowed(logits.begin(), logits.end());
        for (const int32_t id : loaded.tokenizer->vocab().end_ids())
            allowed[static_cast<size_t>(id)] = -INFINITY;
        const auto best = std::max_element(allowed.begin(), allowed.end());
        out.ids.push_back(static_cast<int32_t>(best - allowed.begin()));
        out.log_p.push_back(static_cast<float>(static_cast<double>(*best) - norm));
        EXPECT_TRUE(session->eval(std::span(&out.ids.back(), 1)).has_value());
    }
    return out;
}

Request likeliest(std::span<const int32_t> prompt, int64_t n) {
    Request out;
    out.prompt.assign(prompt.begin(), prompt.end());
    out.max_tokens = n;
    out.ignore_eos = true;
    out.n_top = 0;
    EXPECT_TRUE(out.sampling.set("temperature", 0.0).has_value());
    return out;
}

std::vector<int32_t> some_tokens(size_t n, int32_t step) {
    std::vector<int32_t> out;
    for (size_t i = 0; i < n; ++i) out.push_back(300 + static_cast<int32_t>(i) * step % 199);
    return out;
}

class WindowedModels : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(WindowedModels, compute_what_a_session_does) {
    const auto [name, prefix] = GetParam();
    const test::TempFolder folder;
    ThreadPool pool(2);
    for (const uint32_t window : {8u, 100u}) {
        const Loaded loaded = load_or_die(with_window(folder, name, prefix, window), pool);
        std::vector<Request> asked;
        std::vector<Written> expected;
        for (const int32_t step : {7, 11, 30}) {
            asked.push_back(likeliest(some_tokens(150 + static_cast<size_t>(step) * 8, step), 120));
            expected.push_back(by_session(loaded, pool, asked.back().prompt, 120));
        }
        for (const int64_t n_batch : {16, 512}) {
            const EngineOptions plain{.n_ctx = 1024, .n_batch = n_batch, .max_running = 3};
            const CachePlan plan = *plan_completion_cache(*loaded.model, {.n_ctx = 1024, .n_batch = n_batch});
            const uint64_t least = static_cast<uint64_t>(plan.n_pages) * plan.layout.page_bytes;
            // Fewer pages than a session's, which keeps every layer group whole.
            EXPECT_LT(plan.n_pages, plan.layout.n_layer_groups * (1024 / kKvPage));
            for (const uint64_t kv_bytes : {least, 10 * least}) {
                EngineOptions options = plain;
                options.kv_bytes = kv_bytes;
                auto one = Engine::create(loaded.model, loaded.tokenizer, pool, options);
                ASSERT_TRUE(one.has_value()) << one.error().message;
                for (int round = 0; round < 2; ++round) {
                    std::vector<Got> got(asked.size());
                    std::vector<Ticket> tickets;
                    for (size_t i = 0; i < asked.size(); ++i)
                        tickets.push_back(*(*one)->submit(asked[i], got[i].listener()));
                    for (const Ticket& ticket : tickets) ticket.wait();
                    for (size_t i = 0; i < asked.size(); ++i) {
                        EXPECT_EQ(got[i].ids[0], expected[i].ids) << window << " " << n_batch;
                        EXPECT_EQ(got[i].log_p, expected[i].log_p);
                        const auto n_prompt = static_cast<int64_t>(asked[i].prompt.size());
                        if (round == 1 && kv_bytes > least) {
                            EXPECT_EQ(got[i].outcome[0].usage.n_cached, n_prompt - 1);
                        }
                    }
                }
            }
        }
    }
}

TEST_P(WindowedModels, fill_their_context_from_a_cache_of_one_context) {
    const auto [name, prefix] = GetParam();
    const test::TempFolder folder;
    ThreadPool pool(2);
    const Loaded loaded = load_or_die(with_window(folder, name, prefix, 20), pool);
    const EngineOptions options{.n_ctx = 700, .n_batch = 32, .max_running = 1};
    const CachePlan plan = *plan_completion_cache(*loaded.model, {.n_ctx = 700, .n_batch = 32});
    auto one = *Engine::create(loaded.model, loaded.tokenizer, pool, options);
    EXPECT_EQ(one->kv_bytes(), static_cast<uint64_t>(plan.n_pages) * plan.layout.page_bytes);
    Request asked = likeliest(some_tokens(40, 3), -1);
    Got got;
    one->submit(asked, got.listener())->wait();
    EXPECT_EQ(got.outcome[0].finish, Finish::ContextFull);
    EXPECT_EQ(got.ids[0], by_session(loaded, pool, asked.prompt, got.ids[0].size()).ids);
    // A context shift goes back further than the window reaches.
    asked.on_full = ContextPolicy::Shift;
    asked.max_tokens = 900;
    Got shifted;
    one->submit(asked, shifted.listener())->wait();
    EXPECT_EQ(shifted.outcome[0].finish, Finish::Length);
    EXPECT_GT(shifted.outcome[0].usage.n_shifted, 0);
}

INSTANTIATE_TEST_SUITE_P(Architectures, WindowedModels,
                         testing::Values(std::pair("gemma2", "gemma2"), std::pair("gemma3", "gemma3"),
                                         std::pair("gptoss", "gpt-oss"), std::pair("local-heads", "gemma3")),
                         [](const auto& model) {
                             std::string name = model.param.first;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace tessera::engine
