// Reading dialogues: accepted forms, refusals, and the place that an error names.
#include <gtest/gtest.h>

#include "src/text/chat/dialogue.h"
#include "src/text/jinja/json.h"

namespace tessera::chat {
namespace {

std::string messages_of(std::string_view json) {
    const auto dialogue = parse_dialogue(json);
    return dialogue ? *jinja::dump_json(dialogue->messages) : "error: " + dialogue.error().message;
}

TEST(Dialogue, forms_of_messages) {
    EXPECT_EQ(messages_of(R"([{"role": "user", "content": "Hi"}])"),
              R"([{"role": "user", "content": "Hi"}])");
    EXPECT_EQ(
        messages_of(R"({"messages": [{"role": "user", "content": "Hi"}], "model": "x", "stream": true})"),
        R"([{"role": "user", "content": "Hi"}])");
    // Missing and null contents are empty; arguments become objects if their text is one.
    EXPECT_EQ(messages_of(R"([{"role": "assistant", "content": null, "reasoning": "r", "tool_calls":
                  [{"id": "1", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}])"),
              R"([{"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": [{"id": "1", )"
              R"("function": {"name": "f", "arguments": {"a": 1}}, "type": "function"}]}])");
    EXPECT_EQ(
        messages_of(
            R"([{"role": "assistant", "tool_calls": [{"id": "1", "name": "f", "arguments": {"a": 1}}]}])"),
        R"([{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", )"
        R"("function": {"name": "f", "arguments": {"a": 1}}}]}])");
    EXPECT_EQ(messages_of(R"([{"role": "assistant", "content": "x", "tool_calls": []}])"),
              R"([{"role": "assistant", "content": "x"}])");
    // Arguments whose text is not a JSON object are kept as the model wrote them.
    EXPECT_NE(
        messages_of(
            R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{x"}}]}])")
            .find(R"("arguments": "{x")"),
        std::string::npos);
}

TEST(Dialogue, errors_name_the_place) {
    const std::pair<const char*, const char*> rows[] = {
        {R"({})", "messages: expected a list, found nothing"},
        {R"([])", "messages: expected at least one message, found none"},
        {R"([1])", "messages[0]: expected a message such as {\"role\": ..., \"content\": ...}, found int"},
        {R"([{"content": "x"}])", "messages[0].role: expected a text, found nothing"},
        {R"([{"role": "user", "content": 5}])",
         "messages[0].content: expected text or a list of parts, found int"},
        {R"([{"role": "user", "content": [{"text": "x"}]}])",
         "messages[0].content[0].type: expected a text, found nothing"},
        {R"([{"role": "user", "content": [{"type": "text"}]}])",
         "messages[0].content[0].text: expected a text, found nothing"},
        {R"([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": {}}])",
         "messages[1].tool_calls: expected a list, found dict"},
        {R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])",
         "messages[0].tool_calls[0].function.name: expected a text, found nothing"},
        {R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 3}}]}])",
         "messages[0].tool_calls[0].function.arguments: expected an object or its JSON text, found int"},
        {R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]})",
         "tools[0].function: expected an object, found nothing"},
        {R"({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": []})",
         "chat_template_kwargs: expected an object, found list"},
        {R"({"messages": [{"role": "user", "content": "x"}], "enable_thinking": "no"})",
         "enable_thinking: expected true or false, found str"},
        {R"({"messages": [{"role": "user", "content": "x"}], "continue_final_message": true, )"
         R"("add_generation_prompt": true})",
         "expected at most one of add_generation_prompt and continue_final_message, found both"},
    };
    for (const auto& [json, message] : rows)
        EXPECT_EQ(messages_of(json), std::string("error: ") + message) << json;
    EXPECT_FALSE(parse_dialogue("{").has_value());
}

TEST(Dialogue, bare_functions_are_wrapped) {
    const auto dialogue =
        parse_dialogue(R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f"}]})");
    ASSERT_TRUE(dialogue.has_value());
    EXPECT_EQ(*jinja::dump_json(dialogue->tools), R"([{"type": "function", "function": {"name": "f"}}])");
    EXPECT_TRUE(
        parse_dialogue(R"({"messages": [{"role": "user", "content": "x"}], "tools": []})")->tools.is_none());
}

TEST(Dialogue, raw_is_passed_through) {
    const char* const json = R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [
        {"function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": 5}],
        "tools": [{"name": "f"}], "documents": "none", "chat_template_kwargs": {"k": 1},
        "add_generation_prompt": false, "enable_thinking": true})";
    const Value value = jinja::parse_json(json).value();
    const auto raw = parse_raw_dialogue(json);
    ASSERT_TRUE(raw.has_value()) << raw.error().message;
    const auto json_of = [](const Value& part) { return jinja::dump_json(part).value(); };
    for (const auto& [name, part] : {std::pair<const char*, const Value*>{"messages", &raw->messages},
                                     {"tools", &raw->tools},
                                     {"documents", &raw->documents},
                                     {"chat_template_kwargs", &raw->kwargs}})
        EXPECT_EQ(json_of(*part), json_of(*value.find(name))) << name;
    EXPECT_FALSE(raw->add_generation_prompt);
    EXPECT_EQ(raw->enable_thinking, std::optional(true));
    EXPECT_FALSE(parse_raw_dialogue("{}").has_value());
    EXPECT_FALSE(parse_raw_dialogue("[").has_value());
}

}  // namespace
}  // namespace tessera::chat
