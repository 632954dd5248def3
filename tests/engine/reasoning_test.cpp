// The limit of reasoning is exact to the token, for every way in which its marks are split into tokens.
#include "src/engine/reasoning.h"

#include "tests/engine/support.h"

namespace tessera::engine {
namespace {

const ReasoningLimit kThink = {"<think>", "</think>", "</think>", false, 3};

TEST(ReasoningWatch, CountsWhatStandsBetweenTheMarks) {
    for (const bool whole : {true, false}) {
        ReasoningWatch watch(kThink);
        for (const char* token : {"a", "b", "c", "d", "<thin", "a"}) watch.push(token);
        watch.push(whole ? "<think>" : "<th");
        if (!whole) watch.push("ink>");
        for (const char* token : {"1", "2"}) watch.push(token);
        EXPECT_FALSE(watch.is_spent());
        watch.push("3");
        EXPECT_TRUE(watch.is_spent());
        watch.push("</think>");
        EXPECT_FALSE(watch.is_spent());
        // Reasoning that begins again counts together with the earlier part.
        watch.push("x <think>");
        EXPECT_TRUE(watch.is_spent());
        watch.set_closed();
        EXPECT_FALSE(watch.is_spent());
    }
}

TEST(ReasoningWatch, AnEndThatHasBegunMayBeFinished) {
    ReasoningLimit open = kThink;
    open.is_open = true;
    ReasoningWatch watch(open);
    for (const char* token : {"1", "2", "</"}) watch.push(token);
    EXPECT_FALSE(watch.is_spent());
    watch.push("think");
    EXPECT_FALSE(watch.is_spent());
    watch.push("er");
    EXPECT_TRUE(watch.is_spent());
    // But only once.
    ReasoningWatch stuck(open);
    for (int i = 0; i < 20; i++) stuck.push("<");
    EXPECT_TRUE(stuck.is_spent());
}

TEST_F(Engines, ReasoningEndsAtItsLimit) {
    auto one = engine({.n_ctx = 512, .max_running = 2});
    const Request free = request("Once upon a time<think>", 60);
    Got before;
    one->submit(free, before.listener())->wait();
    for (const int64_t limit : {0, 1, 7, 30}) {
        Request asked = free;
        asked.reasoning = {"<think>", "</think>", "</think>", true, limit};
        asked.n = 2;
        Got got;
        one->submit(asked, got.listener())->wait();
        const auto first = static_cast<std::ptrdiff_t>(limit);
        for (const int32_t i : {0, 1}) {
            const std::vector<int32_t>& ids = got.ids[i];
            EXPECT_EQ(got.outcome[i].finish, Finish::Length);
            ASSERT_EQ(ids.size(), 60u);
            const std::vector<int32_t> thought(ids.begin(), ids.begin() + first);
            const std::string behind = loaded_.tokenizer->decode(std::span(ids).subspan(thought.size()));
            EXPECT_EQ(behind.find("</think>"), behind[0] == ' ' ? 1u : 0u) << behind;
            EXPECT_EQ(behind.rfind("</think>"), behind.find("</think>"));
            if (i == 0) {
                EXPECT_TRUE(std::equal(thought.begin(), thought.end(), before.ids[0].begin())) << limit;
            }
        }
    }
    // A limit that is never reached, and no reasoning, change nothing.
    for (const auto& limit : {ReasoningLimit{"<think>", "</think>", "</think>", true, 100},
                              ReasoningLimit{"<think>", "</think>", "</think>", false, 0}}) {
        Request asked = free;
        asked.reasoning = limit;
        Got got;
        one->submit(asked, got.listener())->wait();
        EXPECT_EQ(got.ids[0], before.ids[0]);
    }
}

}  // namespace
}  // namespace tessera::engine
