// The engine with a model that has recurrent layers: batches, cached prefixes, preemption, aborted passes and
// short memory do not change a bit of any log probability, and no page or slot of state is lost.
#include <algorithm>

#include "common/rng.h"
#include "src/sample/row_norm.h"
#include "src/sample/string_list.h"
#include "tests/engine/support.h"
#include "tests/engine/windowed_model.h"
#include "tests/recurrent/decay_mixer.h"
#include "tests/support/temp_folder.h"

namespace tessera::engine {
namespace {

using test::joined;
using MixedScheduler = test::Mixed<Scheduler>;

class RecurrentSchedulers : public testing::Test {
  protected:
    RecurrentSchedulers() { load(kModelPath, 3); }

    void load(const std::string& path, size_t n_recurrent) {
        loaded_ = test::load_recurrent(path, pool_, n_recurrent);
        fresh_.emplace(Session::create(loaded_.model, pool_, {.n_ctx = 4096, .max_out = 64}));
    }
    MixedScheduler scheduler(const EngineOptions& options) {
        return MixedScheduler(Scheduler::create(loaded_.model, loaded_.tokenizer, pool_, options));
    }
    Request request(std::vector<int32_t> prompt, int64_t max_tokens) {
        Request out;
        out.prompt = std::move(prompt);
        out.max_tokens = max_tokens;
        out.ignore_eos = true;
        out.n_top = 0;
        EXPECT_TRUE(out.sampling.set("seed", static_cast<double>(++seed_)).has_value());
        return out;
    }
    std::vector<int32_t> tokens(size_t n) {
        std::vector<int32_t> out(n);
        for (int32_t& id : out) id = 300 + static_cast<int32_t>(rng_.next_u64() % 40);
        return out;
    }
    /// Runs requests together to their ends, with the results in `got`.
    void run(Scheduler& all, const std::vector<Request>& asked, std::vector<Got>& got) {
        for (size_t i = 0; i < asked.size(); ++i) all.add(job_of(asked[i], got[i].listener(), n_added_++));
        for (int n_steps = 0; !all.idle() && n_steps < 20000; ++n_steps) all.step();
        EXPECT_TRUE(all.idle());
        for (const Got& one : got)
            for (const auto& [index, end] : one.outcome)
                EXPECT_NE(end.finish, Finish::Failed) << end.error.message;
    }

    /// Whether the reported log probabilities are those of a new session that computes the whole text.
    void expect_fresh(const Request& asked, const Got& got) {
        const std::vector<int32_t>& ids = got.ids.at(0);
        ASSERT_EQ(std::ssize(ids), asked.max_tokens);
        const std::vector<int32_t> text = joined(asked.prompt, ids);
        std::vector<float> log_p;
        const int64_t n_prompt = std::ssize(asked.prompt);
        (*fresh_)->truncate(0);
        const auto done = (*fresh_)->eval_all(
            std::span(text).first(text.size() - 1), [&](int64_t first, int64_t n, const float* rows) {
                const auto n_vocab = static_cast<size_t>(loaded_.model->hparams().n_vocab);
                for (int64_t i = std::max(first, n_prompt - 1); i < first + n; ++i) {
                    const std::span row(rows + static_cast<size_t>(i - first) * n_vocab, n_vocab);
                    const int32_t id = text[static_cast<size_t>(i) + 1];
                    log_p.push_back(static_cast<float>(static_cast<double>(row[static_cast<size_t>(id)]) -
                                                       sample::row_norm(row)->log_sum));
                }
                return true;
            });
        ASSERT_TRUE(done.has_value());
        EXPECT_EQ(got.log_p, log_p);
    }
    void run_and_check(Scheduler& all, const std::vector<Request>& asked,
                       std::vector<Got>* results = nullptr) {
        std::vector<Got> got(asked.size());
        run(all, asked, got);
        for (size_t i = 0; i < asked.size(); ++i) {
            expect_fresh(asked[i], got[i]);
            if (HasFailure()) FAIL() << "request " << i;
        }
        if (results) results->swap(got);
    }
    void expect_nothing_lost(Scheduler& all) {
        all.clear_prefixes();
        const EngineStats stats = all.stats();
        EXPECT_EQ(stats.n_pages_free, stats.n_pages);
        EXPECT_EQ(stats.n_states_free, stats.n_states);
        EXPECT_GT(stats.n_states, 0);
    }

    ThreadPool pool_{2};
    Loaded loaded_;
    std::optional<test::Mixed<Session>> fresh_;
    Rng rng_{17};
    uint64_t n_added_ = 0;
    int seed_ = 0;
};

TEST_F(RecurrentSchedulers, batches_of_any_size) {
    for (const int64_t n_batch : {8, 100, 512}) {
        const auto all = scheduler({.n_ctx = 512, .n_batch = n_batch, .max_running = 4});
        std::vector<Request> asked;
        for (const size_t n : {1u, 2u, 63u, 64u, 65u, 129u, 300u}) asked.push_back(request(tokens(n), 20));
        run_and_check(*all, asked);
        expect_nothing_lost(*all);
    }
}

TEST_F(RecurrentSchedulers, cached_prefixes) {
    const auto all = scheduler({.n_ctx = 2048, .max_running = 2});
    const std::vector<int32_t> text = tokens(1200);
    std::vector<Got> first(1);
    const auto n_cached = [&](const std::vector<int32_t>& prompt) {
        std::vector<Got> got;
        run_and_check(*all, {request(prompt, 10)}, &got);
        return got[0].outcome[0].usage.n_cached;
    };
    const Request asked = request(text, 30);
    run_and_check(*all, {asked}, &first);
    // The whole prompt: from the last page border before its last token.
    EXPECT_EQ(n_cached(text), 1152);
    // The dialogue continues: from the end of the answer, whose last token was not computed.
    const auto longer = joined(joined(text, first[0].ids[0]), tokens(50));
    EXPECT_EQ(n_cached(longer), 1229);
    // An edit of the last message, and of one in the middle.
    EXPECT_EQ(n_cached(joined(std::vector(text.begin(), text.begin() + 1190), tokens(5))), 1152);
    EXPECT_EQ(n_cached(joined(std::vector(text.begin(), text.begin() + 1100), tokens(50))), 1024);
    EXPECT_EQ(n_cached(joined(std::vector(text.begin(), text.begin() + 700), tokens(50))), 0);
    expect_nothing_lost(*all);
}

TEST_F(RecurrentSchedulers, several_completions_of_one_prompt) {
    const auto all = scheduler({.n_ctx = 512, .max_running = 3});
    Request asked = request(tokens(200), 25);
    asked.n = 4;
    std::vector<Got> got(1);
    run(*all, {asked}, got);
    for (int32_t i = 0; i < 4; ++i) {
        EXPECT_EQ(got[0].ids[i].size(), 25u);
        EXPECT_EQ(got[0].outcome[i].usage.n_cached, i > 0 ? 192 : 0);
    }
    expect_fresh(asked, got[0]);
    expect_nothing_lost(*all);
}

TEST_F(RecurrentSchedulers, short_memory) {
    const CachePlan plan = *plan_completion_cache(*loaded_.model, {.n_ctx = 256});
    const uint64_t least = static_cast<uint64_t>(plan.n_pages) * plan.layout.page_bytes + plan.state_bytes(1);
    for (const uint64_t kv_bytes : {least, least + least / 2}) {
        const auto all = scheduler({.n_ctx = 256, .kv_bytes = kv_bytes, .max_running = 6});
        std::vector<Request> asked;
        const std::vector<int32_t> common = tokens(100);
        for (size_t i = 0; i < 7; ++i)
            asked.push_back(request(joined(i % 2 ? common : tokens(60), tokens(30)), 80));
        run_and_check(*all, asked);
        EXPECT_GT(all->stats().n_preemptions, 0);
        EXPECT_LE(all->kv_bytes(), kv_bytes);
        expect_nothing_lost(*all);
    }
}

TEST_F(RecurrentSchedulers, fewer_slots_than_completions) {
    // Pages for all, but five slots of state for six completions.
    const CachePlan plan = *plan_completion_cache(*loaded_.model, {.n_ctx = 4096});
    const uint64_t least = static_cast<uint64_t>(plan.n_pages) * plan.layout.page_bytes + plan.state_bytes(1);
    const auto all = scheduler({.n_ctx = 4096, .kv_bytes = least, .max_running = 6});
    EXPECT_LT(all->stats().n_states, 12);
    std::vector<Request> asked;
    for (size_t i = 0; i < 8; ++i) asked.push_back(request(tokens(20 + i), 30));
    run_and_check(*all, asked);
    EXPECT_GT(all->stats().n_preemptions, 0);
    expect_nothing_lost(*all);
}

TEST_F(RecurrentSchedulers, aborted_passes) {
    const auto all = scheduler({.n_ctx = 1024, .max_running = 3});
    int n_passes = 0;
    all.mixer->before_op = [&](int op) {
        n_passes += op == 0;
        if (op == 9 && n_passes % 2) all->control()->interrupt();
    };
    std::vector<Request> asked;
    for (const size_t n : {40u, 500u, 300u}) asked.push_back(request(tokens(n), 20));
    run_and_check(*all, asked);
    EXPECT_GT(all->stats().n_aborted_passes, 0);
    expect_nothing_lost(*all);
}

TEST_F(RecurrentSchedulers, banned_strings_take_tokens_back) {
    const auto all = scheduler({.n_ctx = 512, .max_running = 2});
    std::vector<Got> plain;
    Request asked = request(tokens(100), 60);
    run_and_check(*all, {asked}, &plain);
    // A piece of that text, across tokens.
    const std::string banned = plain[0].text[0].substr(plain[0].text[0].size() / 2, 3);
    ASSERT_TRUE(asked.sampling.set("banned_strings", sample::format_string_list({{banned}})).has_value());
    std::vector<Got> got;
    run_and_check(*all, {asked}, &got);
    EXPECT_GT(got[0].outcome[0].usage.n_rewinds, 0);
    EXPECT_EQ(got[0].text[0].find(banned), std::string::npos);
    expect_nothing_lost(*all);
}

TEST_F(RecurrentSchedulers, a_context_shift_computes_the_rest_again) {
    const auto all = scheduler({.n_ctx = 128, .max_running = 2});
    Request asked = request(tokens(90), 80);
    asked.on_full = ContextPolicy::Shift;
    asked.n_keep = 70;
    std::vector<Got> got(1);
    run(*all, {asked}, got);
    EXPECT_GT(got[0].outcome[0].usage.n_shifted, 0);
    // The same shifts of a text that a new session computes each time.
    std::vector<int32_t> text = asked.prompt;
    for (size_t i = 0; i < got[0].ids[0].size(); ++i) {
        const int32_t id = got[0].ids[0][i];
        (*fresh_)->truncate(0);
        ASSERT_TRUE((*fresh_)->eval(text).has_value());
        const std::span<const float> row = (*fresh_)->logits();
        EXPECT_EQ(got[0].log_p[i], static_cast<float>(static_cast<double>(row[static_cast<size_t>(id)]) -
                                                      sample::row_norm(row)->log_sum));
        text.push_back(id);
        if (text.size() <= 128) continue;
        const std::ptrdiff_t n_keep = std::min<std::ptrdiff_t>(70, 128 / 2);
        const std::ptrdiff_t n_drop = (std::ssize(text) - n_keep + 1) / 2;
        text.erase(text.begin() + n_keep, text.begin() + n_keep + n_drop);
    }
    expect_nothing_lost(*all);
}

TEST_F(RecurrentSchedulers, embeddings) {
    const auto all = scheduler({.n_ctx = 512, .n_batch = 100, .max_running = 2});
    Request asked = request(tokens(250), 0);
    asked.embedding = Pooling::Mean;
    std::vector<float> embedding;
    Listener listener;
    listener.on_finish = [&embedding](const Outcome& end) {
        embedding.assign(end.embedding.begin(), end.embedding.end());
    };
    all->add(job_of(asked, listener, 1));
    while (!all->idle()) all->step();
    std::vector<float> expected(static_cast<size_t>(loaded_.model->hparams().n_embd));
    ASSERT_TRUE((*fresh_)->embed(asked.prompt, Pooling::Mean, expected).has_value());
    EXPECT_EQ(embedding, expected);
    expect_nothing_lost(*all);
}

/// Texts with common beginnings, few pages and slots, and passes that are aborted at random.
TEST_F(RecurrentSchedulers, random_requests) {
    load(test::model_file("llama"), 1);
    const CachePlan plan = *plan_completion_cache(*loaded_.model, {.n_ctx = 1400});
    const uint64_t least = static_cast<uint64_t>(plan.n_pages) * plan.layout.page_bytes + plan.state_bytes(1);
    for (const uint64_t kv_bytes : {least, 2 * least, 6 * least}) {
        const auto all = scheduler({.n_ctx = 1400, .kv_bytes = kv_bytes, .n_batch = 200, .max_running = 4});
        all.mixer->before_op = [&](int) {
            if (rng_.next_u64() % 100 == 0) all->control()->interrupt();
        };
        const std::vector<int32_t> texts[] = {tokens(1300), tokens(1300)};
        for (int wave = 0; wave < 4; ++wave) {
            std::vector<Request> asked;
            for (int i = 0; i < 6; ++i) {
                const std::span<const int32_t> front =
                    std::span(texts[rng_.next_u64() % 2]).first(1 + rng_.next_u64() % 1300);
                asked.push_back(request(joined(front, tokens(1 + rng_.next_u64() % 4)),
                                        1 + static_cast<int64_t>(rng_.next_u64() % 70)));
                asked.back().priority = static_cast<int32_t>(rng_.next_u64() % 2);
            }
            run_and_check(*all, asked);
        }
        EXPECT_GT(all->stats().n_aborted_passes, 0);
        EXPECT_GT(all->stats().n_cached_tokens, 0);
        expect_nothing_lost(*all);
    }
}

TEST_F(RecurrentSchedulers, with_windows_too) {
    for (const auto& [name, prefix] : {std::pair("gemma3", "gemma3"), std::pair("gptoss", "gpt-oss")}) {
        const test::TempFolder folder;
        load(with_window(folder, name, prefix, 100), 1);
        const CachePlan plan = *plan_completion_cache(*loaded_.model, {.n_ctx = 1536, .n_batch = 64});
        const uint64_t least =
            static_cast<uint64_t>(plan.n_pages) * plan.layout.page_bytes + plan.state_bytes(1);
        for (const uint64_t kv_bytes : {least, 8 * least}) {
            const auto all =
                scheduler({.n_ctx = 1536, .kv_bytes = kv_bytes, .n_batch = 64, .max_running = 3});
            const std::vector<int32_t> text = tokens(1100);
            for (const size_t n : {1100u, 1100u, 1090u, 1050u, 600u}) {
                const std::vector<int32_t> front(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
                run_and_check(*all, {request(joined(front, tokens(3)), 10), request(tokens(200), 80)});
            }
            EXPECT_GT(all->stats().n_cached_tokens, 0);
            expect_nothing_lost(*all);
        }
    }
}

}  // namespace
}  // namespace tessera::engine
