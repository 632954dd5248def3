// Random requests from several threads for TSR_SOAK_SECONDS (default 3): long and short, cancelled, held to
// grammars, with stop strings, deadlines, priorities and several completions, over a cache much smaller than
// all of them need. Each request must end in one of the allowed ways, and a repeated request must give the
// same text.
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <thread>

#include "common/cpu.h"
#include "common/rng.h"
#include "common/strings.h"
#include "tests/engine/support.h"
#include "tests/support/environment.h"

namespace tessera::engine {

namespace {

const double soak_seconds = test::size_of_environment("TSR_SOAK_SECONDS", 3);

struct Constraint {
    std::shared_ptr<const grammar::Grammar> grammar;
    Pattern pattern;
};

/// A request under way. The engine's thread writes, until the ticket is done; then its submitter reads.
struct Open {
    Request request;
    const Constraint* constraint = nullptr;
    bool cancelled = false;
    double submitted = 0;
    std::map<int32_t, std::string> text;
    std::map<int32_t, std::vector<int32_t>> ids;
    std::map<int32_t, int> n_ends;
    std::map<int32_t, Outcome> outcome;
    std::optional<Ticket> ticket;

    Listener listener() {
        Listener out;
        out.on_delta = [this](const Delta& delta) {
            if (delta.id >= 0) ids[delta.completion].push_back(delta.id);
            text[delta.completion] += delta.text;
        };
        out.on_finish = [this](const Outcome& end) {
            outcome[end.completion] = end;
            ++n_ends[end.completion];
        };
        return out;
    }
};

class Soak : public Engines {
  protected:
    static constexpr int64_t kCtx = 384, kRepeated = 30;

    void SetUp() override {
        const auto add = [this](const Result<std::shared_ptr<const grammar::Grammar>>& made,
                                const char* pattern) {
            ASSERT_TRUE(made.has_value());
            constraints_.push_back({*made, whole_text(pattern)});
        };
        add(grammar::Grammar::from_gbnf("root ::= \"yes \" [a-c]{2,5} | \"no\""), "yes [a-c]{2,5}|no");
        add(grammar::Grammar::from_regex("[0-9]{3}-[xyz]{1,9}!"), "[0-9]{3}-[xyz]{1,9}!");
        add(grammar::Grammar::from_json_schema(
                R"({"type":"object","properties":{"side":{"enum":["left","right"]}},
                    "required":["side"],"additionalProperties":false})",
                {.layout = grammar::JsonLayout::Compact}),
            R"re(\{"side":"(left|right)"\})re");
        repeated_ = {request("Once upon a time", kRepeated, 1), request(story(3), kRepeated, 2)};
        for (const Request& asked : repeated_) expected_.push_back(alone(asked, {.n_ctx = kCtx}));
    }

    std::unique_ptr<Open> any(Rng& rng) const;
    void check(const Open& open) const;
    void submit_all(Engine& to, uint64_t seed, double until);

    std::vector<Constraint> constraints_;
    std::vector<Request> repeated_;
    std::vector<std::vector<int32_t>> expected_;
    std::atomic<int64_t> n_done_{0}, n_refused_{0}, n_cancelled_{0}, n_late_{0};
};

std::unique_ptr<Open> Soak::any(Rng& rng) const {
    const auto below = [&rng](uint64_t n) { return rng.next_u64() % n; };
    auto open = std::make_unique<Open>();
    Request& asked = open->request;
    if (below(4) == 0) {
        asked = repeated_[below(repeated_.size())];
    } else {
        asked.prompt = *loaded_.tokenizer->encode(story(static_cast<int>(below(9))) + "Then");
        for (uint64_t i = below(60); i > 0; --i)
            asked.prompt.push_back(300 + static_cast<int32_t>(below(3000)));
        asked.prompt.resize(std::min<size_t>(asked.prompt.size(), kCtx - 60));
        asked.max_tokens = below(8) == 0 ? -1 : static_cast<int64_t>(below(120));
        asked.ignore_eos = below(2) == 0;
        asked.n = below(5) == 0 ? 1 + static_cast<int32_t>(below(4)) : 1;
        asked.n_top = static_cast<int32_t>(below(4)) - 1;
        if (below(3) == 0) asked.stop = {"the", "never in this text"};
        if (below(5) == 0) {
            open->constraint = &constraints_[below(constraints_.size())];
            asked.grammar = open->constraint->grammar;
            asked.ignore_eos = false;
            asked.stop.clear();
        }
        const char* banned = below(6) == 0 ? "and,was" : "";
        EXPECT_TRUE(asked.sampling.set("banned_strings", banned).has_value());
        if (asked.max_tokens >= 0 && below(2) == 0) asked.on_full = ContextPolicy::Shift;
    }
    asked.priority = static_cast<int32_t>(below(3));
    asked.client = std::string(1, static_cast<char>('a' + below(4)));
    if (below(10) == 0) asked.deadline_s = 0.001 * static_cast<double>(below(300) + 1);
    return open;
}

/// Checks a request that has ended.
void Soak::check(const Open& open) const {
    const Request& asked = open.request;
    ASSERT_EQ(open.outcome.size(), static_cast<size_t>(asked.n));
    for (const auto& [index, end] : open.outcome) {
        EXPECT_EQ(open.n_ends.at(index), 1);
        EXPECT_NE(end.finish, Finish::Failed) << end.error.message;
        const bool cut = end.finish == Finish::Cancelled || end.finish == Finish::Deadline;
        EXPECT_TRUE(end.finish != Finish::Cancelled || open.cancelled);
        EXPECT_TRUE(end.finish != Finish::Deadline || asked.deadline_s > 0);
        EXPECT_TRUE(asked.max_tokens < 0 || end.usage.n_generated <= asked.max_tokens);
        const auto text = open.text.find(index);
        const std::string written = text == open.text.end() ? "" : text->second;
        for (const std::string& stop : asked.stop) EXPECT_EQ(written.find(stop), std::string::npos);
        const bool constrained = open.constraint && end.finish == Finish::EndOfGeneration;
        EXPECT_TRUE(!constrained || open.constraint->pattern.found_in(written)) << written;
        for (size_t i = 0; i < repeated_.size(); ++i) {
            if (asked.prompt != repeated_[i].prompt || asked.max_tokens != kRepeated || !asked.stop.empty())
                continue;
            const auto ids = open.ids.find(index);
            const std::vector<int32_t> found = ids == open.ids.end() ? std::vector<int32_t>() : ids->second;
            EXPECT_TRUE(cut || found.size() == expected_[i].size());
            EXPECT_TRUE(std::equal(found.begin(), found.end(), expected_[i].begin()));
        }
    }
}

void Soak::submit_all(Engine& to, uint64_t seed, double until) {
    Rng rng(seed);
    std::vector<std::unique_ptr<Open>> all;
    while (now_seconds() < until || !all.empty()) {
        for (size_t i = 0; i < all.size();) {
            Open& open = *all[i];
            if (!open.cancelled && (rng.next_u64() % 400 == 0 || now_seconds() >= until)) {
                open.cancelled = true;
                ++n_cancelled_;
                open.ticket->cancel();
            }
            if (!open.ticket->done()) {
                ++i;
                continue;
            }
            check(open);
            ++n_done_;
            for (const auto& [index, end] : open.outcome) n_late_ += end.finish == Finish::Deadline;
            all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
        }
        if (now_seconds() < until && all.size() < 5) {
            auto open = any(rng);
            if (auto taken = to.submit(open->request, open->listener())) {
                open->ticket.emplace(std::move(*taken));
                all.push_back(std::move(open));
            } else {
                EXPECT_EQ(taken.error().code, ErrorCode::Busy) << taken.error().message;
                ++n_refused_;
            }
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1 + rng.next_u64() % 4));
    }
}

TEST_F(Soak, EveryRequestEndsInAnAllowedWay) {
    const uint64_t page = plan_cache(*loaded_.model, {.n_ctx = 64})->layout.page_bytes;
    auto one =
        engine({.n_ctx = kCtx, .kv_bytes = 12 * page, .n_batch = 64, .max_running = 6, .max_queue = 10});
    const double start = now_seconds(), until = start + soak_seconds;
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 3; ++i) threads.emplace_back([&, i] { submit_all(*one, 1000 + i, until); });
    // The largest size in the second fifth of the time and in the last: the first is for warming up.
    double early = 0, late = 0;
    while (now_seconds() < until) {
        const double part = (now_seconds() - start) / soak_seconds;
        if (part > 0.2 && part < 0.4) early = std::max(early, static_cast<double>(current_rss_bytes()));
        if (part > 0.8) late = std::max(late, static_cast<double>(current_rss_bytes()));
        const EngineStats stats = one->stats();
        EXPECT_LE(stats.n_pages * static_cast<int64_t>(page), static_cast<int64_t>(12 * page));
        EXPECT_GE(stats.n_pages_free, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    for (std::thread& thread : threads) thread.join();
    const EngineStats stats = one->stats();
    EXPECT_GT(n_done_, 10);
    const double growth = early > 0 ? 100 * (late / early - 1) : 0;
    std::printf(
        "%.0f s: %lld requests (%lld cancelled, %lld late, %lld refused), %lld tokens, %lld passes, "
        "%lld preemptions; %.1f MiB resident, growth %.2f %%\n",
        soak_seconds, static_cast<long long>(n_done_), static_cast<long long>(n_cancelled_),
        static_cast<long long>(n_late_), static_cast<long long>(n_refused_),
        static_cast<long long>(stats.n_generated_tokens), static_cast<long long>(stats.n_passes),
        static_cast<long long>(stats.n_preemptions), late / 1048576, growth);
    if (soak_seconds >= 300) {
        EXPECT_LT(growth, 1.0);
    }
}

}  // namespace
}  // namespace tessera::engine
