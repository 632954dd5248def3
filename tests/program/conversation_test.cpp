// The conversation of `tessera chat`: its tree, and its file, which restores the tree exactly or is refused
// with a reason.
#include "examples/tessera/chat/conversation.h"

#include <gtest/gtest.h>

namespace tessera::repl {
namespace {

void say(Conversation& conversation, const std::string& text) {
    Message message;
    message.content = text;
    message.from_user = conversation.here() < 0 || !conversation.message(conversation.here()).from_user;
    conversation.add(std::move(message));
}

/// Two questions, the second with two answers, and every member that a file may have.
Conversation example() {
    Conversation out;
    out.system = "Be \"brief\".\n";
    out.started = "2026-08-22T10:20:30";
    out.settings = {{"seed", "1"}, {"temperature", "0.5"}};
    say(out, "Hello");
    say(out, "Grüße \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB \\ \x01 \xE2\x80\xA8 end\n");
    say(out, "One");
    Message answer;
    answer.from_user = false;
    answer.reasoning = "hm";
    answer.cut = Cut::Length;
    answer.time = "2026-08-22T10:20:40";
    answer.calls = {{"call_1", "weather", "{\"city\": \"Paris\"}"}};
    out.add(answer);
    Message result;
    result.is_result = true;
    result.content = "20 degrees";
    out.add(result);
    say(out, "Mild.");
    out.go_to(1);
    say(out, "Two");
    say(out, "");
    return out;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), with);
}

TEST(Conversation, LinesAndBranches) {
    Conversation conversation = example();
    EXPECT_EQ(conversation.line(), (std::vector<int>{0, 1, 6, 7}));
    EXPECT_EQ(conversation.ends(), (std::vector<int>{5, 7}));
    EXPECT_EQ(conversation.last_question(), 6);
    conversation.go_to(1);
    EXPECT_EQ(conversation.ends(), (std::vector<int>{1, 5, 7}));
    conversation.go_to(-1);
    EXPECT_TRUE(conversation.line().empty());
    EXPECT_EQ(conversation.last_question(), -1);
}

TEST(Conversation, DroppingTheNewest) {
    Conversation conversation = example();
    say(conversation, "Three");
    conversation.drop_newest();
    EXPECT_EQ(conversation, example());
    conversation.go_to(5);
    conversation.drop_newest();
    EXPECT_EQ(conversation.here(), 5);
}

TEST(Conversation, TheFileRestoresTheTree) {
    for (const int here : {-1, 1, 3, 5, 7}) {
        Conversation conversation = example();
        conversation.go_to(here);
        const auto loaded = Conversation::parse(conversation.to_json());
        ASSERT_TRUE(loaded) << loaded.error().message;
        EXPECT_EQ(*loaded, conversation);
        EXPECT_EQ(loaded->to_json(), conversation.to_json());
        EXPECT_EQ(loaded->dialogue(), conversation.dialogue());
    }
    EXPECT_EQ(*Conversation::parse(Conversation().to_json()), Conversation());
}

TEST(Conversation, DialogueIsThePresentLine) {
    Conversation conversation = example();
    conversation.system.clear();
    conversation.go_to(5);
    EXPECT_NE(conversation.dialogue().find(
                  R"({"role":"user","content":"One"},{"role":"assistant","content":"",)"
                  R"("reasoning_content":"hm","tool_calls":[{"id":"call_1","type":"function",)"
                  R"("function":{"name":"weather","arguments":"{\"city\": \"Paris\"}"}}]},)"
                  R"({"role":"tool","content":"20 degrees","tool_call_id":"call_1"},)"
                  R"({"role":"assistant","content":"Mild."}])"),
              std::string::npos)
        << conversation.dialogue();
}

TEST(Conversation, EveryTruncatedPrefixIsRefused) {
    const std::string text = example().to_json();
    for (size_t n = 0; n + 1 < text.size(); n++) {
        const auto loaded = Conversation::parse(std::string_view(text).substr(0, n));
        ASSERT_FALSE(loaded) << n;
        EXPECT_EQ(loaded.error().code, ErrorCode::Malformed);
    }
}

TEST(Conversation, MalformedFilesAreNamed) {
    const std::string text = example().to_json();
    const struct {
        const char *what, *with, *says;
    } cases[] = {
        {"\"tessera-chat\"", "\"other\"", "format: expected \"tessera-chat\", found \"other\""},
        {"\"version\": 1", "\"version\": 2", "version: expected 1, found 2"},
        {"\"version\": 1", "\"version\": [1]", "version: expected 1, found array"},
        {"\"started\"", "\"begun\"", "unknown member 'begun'"},
        {"\"seed\": \"1\"", "\"seed\": 1", "settings.seed: expected a text, found 1"},
        {"\"parent\": -1", "\"parent\": 0", "messages[0].parent: expected -1 or the number of an earlier"},
        {"\"parent\": 0", "\"parent\": 1", "messages[1].parent: expected -1 or the number of an earlier"},
        {"\"parent\": 0", "\"parent\": -2", "messages[1].parent: expected -1 or the number of an earlier"},
        {"\"parent\": 0", "\"parent\": 1e99", "messages[1].parent: expected -1 or the number of an earlier"},
        {"\"parent\": 0", "\"parent\": -1", "messages[1].role: expected \"user\""},
        {"\"role\": \"assistant\"", "\"role\": \"tool\"", "messages[1].role: expected \"assistant\""},
        {"\"content\": \"One\"", "\"content\": \"\", \"time\": \"now\"",
         "messages[2]: only answers have time"},
        {"\"id\": \"call_1\"", "\"id\": 1", "messages[3].tool_calls[0].id: expected a text, found 1"},
        {"\"name\": \"weather\"", "\"named\": \"\"",
         "messages[3].tool_calls[0].function: unknown member 'named'"},
        {"\"content\": \"One\"", "\"content\": null", "messages[2].content: expected a text, found null"},
        {"\"cut\": \"length\"", "\"cut\": \"short\"",
         "messages[3].cut: expected length, context or interrupt"},
        {"\"content\": \"One\"", "\"content\": \"\", \"cut\": \"length\"", "only answers have"},
        {"\"here\": 7", "\"here\": 6", "messages[6]: a line ends here"},
        {"\"here\": 7", "\"here\": 8", "here: expected -1 or the number of an earlier message, found 8"},
        {"\"here\": 7", "\"here\": 99999999999999999999", "here: expected -1 or"},
        {"\"Hello\"", "\"\xFF\"", "expected a conversation in JSON"},
    };
    for (const auto& [what, with, says] : cases) {
        const auto loaded = Conversation::parse(replaced(text, what, with));
        ASSERT_FALSE(loaded) << with;
        EXPECT_NE(loaded.error().message.find(says), std::string::npos) << loaded.error().message;
    }
    EXPECT_FALSE(Conversation::parse("[]"));
}

/// A recursive reader, or one that searches members linearly, would not finish these.
TEST(Conversation, DeepAndWideFilesAreRefusedSoon) {
    constexpr size_t kMany = 50'000;
    const std::string deep = std::string(kMany, '[') + std::string(kMany, ']');
    EXPECT_FALSE(Conversation::parse(deep));
    EXPECT_FALSE(Conversation::parse(replaced(example().to_json(), "\"Hello\"", deep)));
    std::string wide = "\"settings\": {";
    for (size_t i = 0; i < kMany; i++) wide += "\"k" + std::to_string(i) + "\": \"\", ";
    const auto loaded = Conversation::parse(replaced(example().to_json(), "\"settings\": {", wide));
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->settings.size(), kMany + 2);
}

}  // namespace
}  // namespace tessera::repl
