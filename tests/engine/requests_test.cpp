// Requests to the engine: each gets the same tokens for any other load and any batching, each one ends, and
// requests that cannot be served are refused with the name of the field.
#include <algorithm>
#include <cmath>
#include <thread>

#include "tests/engine/support.h"

namespace tessera::engine {
namespace {

TEST_F(Engines, SameTokensInAnyBatch) {
    const Request asked = request("Once upon a time there was a " + story(9), 40);
    const EngineOptions plain{.n_ctx = 512, .max_running = 1};
    const std::vector<int32_t> expected = alone(asked, plain);
    ASSERT_EQ(expected.size(), 40u);
    Request longer = asked;
    longer.prompt.insert(longer.prompt.end(), expected.begin(), expected.begin() + 20);
    const std::vector<int32_t> expected_more = alone(longer, plain);
    ThreadPool single(1);
    for (ThreadPool* pool : {&pool_, &single})
        for (const int64_t n_batch : {8, 37, 512}) {
            auto busy = engine({.n_ctx = 512, .n_batch = n_batch, .max_running = 8}, pool);
            std::vector<Got> others(7);
            std::vector<Ticket> tickets;
            for (size_t i = 0; i < others.size(); ++i)
                tickets.push_back(*busy->submit(request(story(static_cast<int>(3 * i)) + "And", 60, i),
                                                others[i].listener()));
            Got got, again;
            tickets.push_back(*busy->submit(asked, got.listener()));
            for (const Ticket& ticket : tickets) ticket.wait();
            EXPECT_EQ(got.ids[0], expected) << n_batch;
            // The prompt and the generated text are cached by now.
            busy->submit(asked, again.listener())->wait();
            EXPECT_EQ(again.ids[0], expected);
            EXPECT_GE(again.outcome[0].usage.n_cached, static_cast<int64_t>(asked.prompt.size()) - 1);
            Got more;
            busy->submit(longer, more.listener())->wait();
            EXPECT_GE(more.outcome[0].usage.n_cached, static_cast<int64_t>(longer.prompt.size()) - 1);
            EXPECT_EQ(more.ids[0], expected_more);
        }
}

TEST_F(Engines, FourTimesTheBudgetIsServedByPreemption) {
    // A cache of little more than one context, for eight requests.
    const uint64_t page = plan_cache(*loaded_.model, {.n_ctx = 64})->layout.page_bytes;
    auto small = engine({.n_ctx = 256, .kv_bytes = 5 * page, .max_running = 8});
    std::vector<Got> got(8);
    std::vector<Ticket> tickets;
    std::vector<Request> asked;
    for (size_t i = 0; i < got.size(); ++i) {
        asked.push_back(request(story(static_cast<int>(i)) + "Then", 90, i));
        if (asked.back().prompt.size() > 160) asked.back().prompt.resize(160);
        tickets.push_back(*small->submit(asked.back(), got[i].listener()));
    }
    for (const Ticket& ticket : tickets) ticket.wait();
    EXPECT_GT(small->stats().n_preemptions, 0);
    EXPECT_EQ(small->stats().n_pages, 5);
    for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].outcome[0].finish, Finish::Length);
        EXPECT_EQ(got[i].ids[0], alone(asked[i], {.n_ctx = 256, .max_running = 1})) << i;
    }
}

TEST_F(Engines, CompletionsOfOnePromptShareIt) {
    auto several = engine({.n_ctx = 512, .max_running = 4});
    Request asked = request(story(10), 20);
    asked.n = 5;
    Got got;
    several->submit(asked, got.listener())->wait();
    ASSERT_EQ(got.outcome.size(), 5u);
    const auto n_prompt = static_cast<int64_t>(asked.prompt.size());
    for (int32_t i = 0; i < 5; ++i) {
        EXPECT_EQ(got.ids[i].size(), 20u);
        EXPECT_EQ(got.outcome[i].usage.n_prompt, n_prompt);
        EXPECT_EQ(got.outcome[i].usage.n_cached, i == 0 ? 0 : n_prompt - 1);
    }
    EXPECT_NE(got.ids[0], got.ids[1]);
    asked.n = 1;
    EXPECT_EQ(got.ids[0], alone(asked, {.n_ctx = 512}));
}

TEST_F(Engines, StopStringsEndTheTextBeforeThem) {
    auto one = engine({.n_ctx = 512});
    Got whole;
    one->submit(request("Once upon a time", 60), whole.listener())->wait();
    const std::string stop = whole.text[0].substr(30, 4);
    Request asked = request("Once upon a time", 60);
    asked.stop = {"never in this text", stop};
    Got got;
    one->submit(asked, got.listener())->wait();
    EXPECT_EQ(got.outcome[0].finish, Finish::StopString);
    EXPECT_EQ(got.outcome[0].stop_index, 1);
    EXPECT_EQ(got.text[0], whole.text[0].substr(0, whole.text[0].find(stop)));
}

TEST_F(Engines, ALineWithLessIndentationEndsTheText) {
    auto one = engine({.n_ctx = 256});
    Request asked = request("A list:", 60);
    const auto forced = grammar::Grammar::from_gbnf(R"(root ::= "a:\n    b\n\n      c\n  d\n    e")");
    ASSERT_TRUE(forced) << forced.error().message;
    asked.grammar = *forced;
    const std::string all = "a:\n    b\n\n      c\n  d\n    e";
    for (const auto& [n_indent, kept] :
         {std::pair(0, all), {2, all}, {3, all.substr(0, all.find("  d"))}, {5, std::string("a:\n")}}) {
        asked.n_indent = n_indent;
        Got got;
        one->submit(asked, got.listener())->wait();
        EXPECT_EQ(got.text[0], kept) << n_indent;
        EXPECT_EQ(got.outcome[0].finish, kept == all ? Finish::EndOfGeneration : Finish::Indent);
    }
    EXPECT_STREQ(finish_name(Finish::Indent), "indent");
    // A stop string after that place has no effect, and one before it ends the text.
    asked.stop = {"e"};
    asked.n_indent = 3;
    Got got, stopped;
    one->submit(asked, got.listener())->wait();
    EXPECT_EQ(got.outcome[0].finish, Finish::Indent);
    EXPECT_EQ(got.outcome[0].stop_index, -1);
    asked.stop = {"c"};
    one->submit(asked, stopped.listener())->wait();
    EXPECT_EQ(stopped.outcome[0].finish, Finish::StopString);
    EXPECT_EQ(stopped.text[0], "a:\n    b\n\n      ");
}

TEST_F(Engines, ThePrefixCacheCanBeBypassed) {
    auto one = engine({.n_ctx = 512, .max_running = 4});
    Request asked = request(story(10), 20);
    Got first, second, several;
    one->submit(asked, first.listener())->wait();
    asked.no_prefix_cache = true;
    one->submit(asked, second.listener())->wait();
    EXPECT_EQ(second.outcome[0].usage.n_cached, 0);
    EXPECT_EQ(second.ids[0], first.ids[0]);
    // Completions of one request still share the prompt that it computed itself.
    asked.n = 3;
    one->submit(asked, several.listener())->wait();
    const auto n_prompt = static_cast<int64_t>(asked.prompt.size());
    for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(several.outcome[i].usage.n_cached, i == 0 ? 0 : n_prompt - 1);
    EXPECT_EQ(several.ids[0], first.ids[0]);
}

TEST_F(Engines, LogProbabilitiesAreTheModels) {
    auto one = engine({.n_ctx = 512});
    Request asked = request("Once upon a time", 5);
    asked.n_top = 3;
    ASSERT_TRUE(asked.sampling.set("temperature", 0.0).has_value());
    Got got;
    one->submit(asked, got.listener())->wait();
    auto session = *Session::create(loaded_.model, pool_, {.n_ctx = 64});
    ASSERT_TRUE(session->eval(asked.prompt).has_value());
    ASSERT_EQ(got.top.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
        const std::span<const float> logits = session->logits();
        double sum = 0;
        for (const float x : logits) sum += std::exp(static_cast<double>(x));
        const auto best = std::max_element(logits.begin(), logits.end());
        ASSERT_EQ(got.top[i].size(), 3u);
        EXPECT_EQ(got.top[i][0].id, best - logits.begin());
        EXPECT_EQ(got.top[i][0].id, got.ids[0][i]);
        EXPECT_NEAR(got.top[i][0].log_p, static_cast<double>(*best) - std::log(sum), 1e-4);
        EXPECT_EQ(got.log_p[i], got.top[i][0].log_p);
        EXPECT_GE(got.top[i][1].log_p, got.top[i][2].log_p);
        ASSERT_TRUE(session->eval(std::span(got.ids[0]).subspan(i, 1)).has_value());
    }
}

TEST_F(Engines, OutputSatisfiesTheGrammar) {
    auto one = engine({.n_ctx = 256});
    const auto check = [&](Result<std::shared_ptr<const grammar::Grammar>> made, const std::string& pattern) {
        ASSERT_TRUE(made.has_value()) << made.error().message;
        for (uint64_t seed = 0; seed < 6; ++seed) {
            Request asked = request("Once upon a time", 200, seed);
            asked.grammar = *made;
            asked.ignore_eos = false;
            Got got;
            one->submit(asked, got.listener())->wait();
            EXPECT_EQ(got.outcome[0].finish, Finish::EndOfGeneration) << got.outcome[0].error.message;
            EXPECT_TRUE(whole_text(pattern).found_in(got.text[0])) << got.text[0];
            // The same beside other requests and from a cached prefix.
            Got again, other;
            const Ticket beside = *one->submit(request(story(3), 30, seed), other.listener());
            one->submit(asked, again.listener())->wait();
            beside.wait();
            EXPECT_EQ(again.ids[0], got.ids[0]);
        }
    };
    check(grammar::Grammar::from_gbnf("root ::= \"yes \" [a-c]{2,5} | \"no\""), "yes [a-c]{2,5}|no");
    check(grammar::Grammar::from_regex("[0-9]{3}-[xyz]+!"), "[0-9]{3}-[xyz]+!");
    check(grammar::Grammar::from_json_schema(
              R"({"type":"object","properties":{"a_rather_long_name":{"enum":["left","right"]}},
                  "required":["a_rather_long_name"],"additionalProperties":false})",
              {.layout = grammar::JsonLayout::Compact}),
          R"re(\{"a_rather_long_name":"(left|right)"\})re");
}

TEST_F(Engines, AFullContextStopsOrShifts) {
    auto one = engine({.n_ctx = 64});
    Request asked = request("Once upon a time", 200);
    Got stopped;
    one->submit(asked, stopped.listener())->wait();
    EXPECT_EQ(stopped.outcome[0].finish, Finish::ContextFull);
    EXPECT_EQ(stopped.ids[0].size(), 64 - asked.prompt.size() + 1);
    asked.on_full = ContextPolicy::Shift;
    asked.n_keep = 2;
    Got shifted;
    one->submit(asked, shifted.listener())->wait();
    EXPECT_EQ(shifted.outcome[0].finish, Finish::Length);
    EXPECT_EQ(shifted.ids[0].size(), 200u);
    EXPECT_GT(shifted.outcome[0].usage.n_shifted, 0);
    // Refused at once unless it fits.
    asked.on_full = ContextPolicy::Error;
    const auto too_long = one->submit(asked, {});
    ASSERT_FALSE(too_long.has_value());
    EXPECT_NE(too_long.error().message.find("found 200"), std::string::npos) << too_long.error().message;
    asked.max_tokens = -1;
    const auto endless = one->submit(asked, {});
    ASSERT_FALSE(endless.has_value());
    EXPECT_NE(endless.error().message.find("no limit"), std::string::npos) << endless.error().message;
    asked.max_tokens = 64 - static_cast<int64_t>(asked.prompt.size()) + 1;
    Got fits;
    one->submit(asked, fits.listener())->wait();
    EXPECT_EQ(fits.outcome[0].finish, Finish::Length);
    ++asked.max_tokens;
    EXPECT_FALSE(one->submit(asked, {}).has_value());
}

TEST_F(Engines, ACacheOfOneContextIsEnough) {
    for (const int64_t n_ctx : {16, 64, 65, 128}) {
        auto one = engine({.n_ctx = n_ctx, .max_running = 1});
        for (uint64_t seed = 0; seed < 3; ++seed) {
            Got got;
            one->submit(request("Once upon a time", -1, seed), got.listener())->wait();
            EXPECT_EQ(got.outcome[0].finish, Finish::ContextFull);
            EXPECT_EQ(got.ids[0], alone(request("Once upon a time", -1, seed), {.n_ctx = n_ctx}));
        }
    }
}

TEST_F(Engines, CancelAndDeadlineEndARequestAtOnce) {
    auto one = engine({.n_ctx = 4096, .max_running = 2});
    Request endless = request("Once", -1);
    endless.on_full = ContextPolicy::Shift;
    Got got, timed;
    Ticket ticket = *one->submit(endless, got.listener());
    while (got.n_delta.load() < 3) std::this_thread::yield();
    ticket.cancel();
    ticket.wait();
    EXPECT_EQ(got.outcome[0].finish, Finish::Cancelled);
    // One request that would never end, and one that waits behind others beyond its deadline.
    endless.deadline_s = 0.2;
    const double start = now_seconds();
    one->submit(endless, timed.listener())->wait();
    EXPECT_EQ(timed.outcome[0].finish, Finish::Deadline);
    EXPECT_GT(now_seconds() - start, 0.2);
    EXPECT_LT(now_seconds() - start, 5);
    Got first, second, waiting;
    endless.deadline_s = 0;
    std::vector<Ticket> running = {*one->submit(endless, first.listener()),
                                   *one->submit(endless, second.listener())};
    Request late = request("Once", 1);
    late.deadline_s = 0.1;
    one->submit(late, waiting.listener())->wait();
    EXPECT_EQ(waiting.outcome[0].finish, Finish::Deadline);
    EXPECT_EQ(waiting.outcome[0].usage.n_generated, 0);
    for (Ticket& each : running) {
        each.cancel();
        each.wait();
    }
    // Other requests are not affected.
    Got fine;
    one->submit(request("Once", 3), fine.listener())->wait();
    EXPECT_EQ(fine.outcome[0].finish, Finish::Length);
}

TEST_F(Engines, AFullQueueIsReported) {
    auto one = engine({.n_ctx = 128, .max_running = 1, .max_queue = 2});
    std::vector<Got> got(40);
    std::vector<Ticket> tickets;
    int n_busy = 0;
    for (Got& each : got) {
        auto taken = one->submit(request("Once", 30), each.listener());
        if (taken) {
            tickets.push_back(*taken);
        } else {
            EXPECT_EQ(taken.error().code, ErrorCode::Busy);
            ++n_busy;
        }
    }
    EXPECT_GT(n_busy, 0);
    for (const Ticket& ticket : tickets) ticket.wait();
}

TEST_F(Engines, HigherPriorityComesFirst) {
    auto one = engine({.n_ctx = 128, .max_running = 1});
    std::vector<Got> got(4);
    std::vector<Ticket> tickets;
    for (size_t i = 0; i < 4; ++i) {
        Request asked = request("Once", 40);
        asked.priority = i == 3 ? 1 : 0;
        tickets.push_back(*one->submit(asked, got[i].listener()));
    }
    for (const Ticket& ticket : tickets) ticket.wait();
    EXPECT_LT(got[3].outcome[0].usage.queue_s, got[2].outcome[0].usage.queue_s);
}

TEST_F(Engines, InvalidRequestsAreNamed) {
    auto one = engine({.n_ctx = 64});
    const auto refused = [&](auto change, const char* says) {
        Request asked = request("Once", 3);
        change(asked);
        const auto taken = one->submit(asked, {});
        ASSERT_FALSE(taken.has_value()) << says;
        EXPECT_NE(taken.error().message.find(says), std::string::npos) << taken.error().message;
    };
    refused([](Request& r) { r.prompt.clear(); }, "found none");
    refused([](Request& r) { r.prompt.assign(65, 1); }, "65 tokens do not fit the context of 64");
    refused([](Request& r) { r.prompt[0] = -1; }, "prompt token");
    refused([](Request& r) { r.prompt[0] = 4096; }, "found 4096");
    refused([](Request& r) { r.n = 0; }, "n: expected 1 to 64");
    refused([](Request& r) { r.n_top = 65; }, "log probabilities");
    refused([](Request& r) { r.stop.assign(65, "x"); }, "stop strings");
    refused([](Request& r) { r.stop = {""}; }, "bytes of a stop string");
    EXPECT_FALSE(Engine::create(loaded_.model, loaded_.tokenizer, pool_, {.max_running = 0}).has_value());
    EXPECT_FALSE(Engine::create(loaded_.model, loaded_.tokenizer, pool_, {.n_batch = 4}).has_value());
    EXPECT_FALSE(Engine::create(loaded_.model, loaded_.tokenizer, pool_, {.kv_bytes = 1}).has_value());
    Request bad = request("Once", 3);
    ASSERT_TRUE(bad.sampling.set("logit_bias", "4096+1").has_value());
    Got got;
    one->submit(bad, got.listener())->wait();
    EXPECT_EQ(got.outcome[0].finish, Finish::Failed);
    EXPECT_NE(got.outcome[0].error.message.find("4096"), std::string::npos);
}

TEST_F(Engines, DestroyingAnEngineCancelsOpenRequests) {
    std::vector<Got> got(6);
    {
        auto one = engine({.n_ctx = 2048, .max_running = 2});
        for (Got& each : got) {
            Request endless = request("Once", -1);
            endless.on_full = ContextPolicy::Shift;
            ASSERT_TRUE(one->submit(endless, each.listener()).has_value());
        }
    }
    for (Got& each : got) EXPECT_EQ(each.outcome[0].finish, Finish::Cancelled);
}

}  // namespace
}  // namespace tessera::engine
