// Prompts from dialogues and the constraints on their answers: in each format whose calls can be enforced,
// the grammar accepts exactly the texts that the answer parser reads back.
#include "src/engine/response_format.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "src/engine/infill.h"
#include "tests/grammar/support.h"
#include "tests/text/byte_vocabulary.h"

namespace tessera::engine {
namespace {

const char* const kTools = R"([
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
        "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}}},
    {"name": "stop"}])";

const char* const kMessages = R"([{"role": "user", "content": "Hello"}])";

/// A vocabulary of bytes and a few control tokens, with the caller's template.
struct Vocabulary {
    std::shared_ptr<const text::Tokenizer> tokenizer;
    gguf::File file;
};

Vocabulary vocabulary(test::MemoryGguf& memory, const std::string& chat_template,
                      const std::vector<std::string>& controls) {
    auto list = test::TokenList::with_bytes();
    for (const std::string& text : controls) list.add(text, 0, 3);
    memory = list.gguf();
    memory.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
    if (!chat_template.empty()) memory.text("tokenizer.chat_template", chat_template);
    auto file = memory.parse();
    EXPECT_TRUE(file.has_value()) << file.error().message;
    auto tokenizer = text::Tokenizer::load(*file);
    EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    return {*tokenizer, std::move(*file)};
}

std::shared_ptr<const Chat> chat_of(const Vocabulary& vocabulary, const ChatOptions& options = {}) {
    auto chat = Chat::create(vocabulary.file, vocabulary.tokenizer, options);
    EXPECT_TRUE(chat.has_value()) << (chat ? "" : chat.error().message);
    return *chat;
}

/// A prompt with the tools, whose answer is in the format.
ChatPrompt prompt_in(const chat::Format& format, const chat::ToolCallFormat* form) {
    ChatPrompt out;
    out.format = &format;
    out.tool_call_format = form;
    out.reasoning = format.reasoning;
    out.tools = *read_tools(kTools);
    return out;
}

std::string written(const chat::ToolCallFormat& form, const std::vector<std::string>& calls) {
    std::string out(form.trigger);
    out += form.before;
    for (const std::string& call : calls)
        out += (&call == calls.data() ? "" : form.list_separator.data()) + call;
    return out + std::string(form.after);
}

/// A call of a function with one argument, text, or with none.
std::string call_in(const chat::ToolCallFormat& form, const std::string& name, const std::string& city = {}) {
    const std::string json = city.empty() ? "{}" : "{\"city\": \"" + city + "\"}";
    if (form.name_end.empty())
        return strf("{\"%s\": \"%s\", \"%s\": %s}", std::string(form.name_key).c_str(), name.c_str(),
                    std::string(form.arguments_key).c_str(), json.c_str());
    std::string out = std::string(form.call_begin) + name + std::string(form.name_end);
    if (!form.arguments) {
        out += json;
    } else if (!city.empty()) {
        const chat::ArgumentForm& arguments = *form.arguments;
        using Text = chat::ArgumentForm::Text;
        const bool other_end = !arguments.text_key_end.empty();
        out += arguments.key_begin;
        out += "city";
        out += other_end ? arguments.text_key_end : arguments.key_end;
        const std::string quote = arguments.text == Text::Json ? "\"" : std::string(arguments.quote);
        out += quote + city + quote;
        out += arguments.value_end;
    }
    return out + std::string(form.call_end);
}

TEST(AnswerForm, calls_are_constrained_to_what_the_parser_reads) {
    int n_forms = 0;
    for (const chat::Format& format : chat::formats())
        for (const chat::ToolCallFormat& form : format.written) {
            SCOPED_TRACE(std::string(format.name));
            ++n_forms;
            const ChatPrompt prompt = prompt_in(format, &form);
            const auto tools = tool_calls_of(prompt, {.required = true});
            ASSERT_TRUE(tools.has_value()) << tools.error().message;
            const auto grammar = grammar::Grammar::from_tools(*tools);
            ASSERT_TRUE(grammar.has_value()) << grammar.error().message;
            auto matcher = test::matcher_for(*grammar);
            const std::string call = call_in(form, "weather", "Oslo");
            const std::string text = written(form, {call});
            EXPECT_TRUE(matcher.accept_bytes(text).has_value() && matcher.is_accepting()) << text;
            matcher.reset();
            EXPECT_FALSE(matcher.accept_bytes(written(form, {call_in(form, "wether", "Oslo")})).has_value());
            EXPECT_FALSE(matcher.accept_bytes(written(form, {call_in(form, "weather")})).has_value());
            EXPECT_FALSE(matcher.accept_bytes("Hello").has_value());

            auto parser = chat::OutputParser::make(format, prompt.parser_options());
            parser->push(text);
            parser->finish();
            EXPECT_EQ(parser->answer().content, "");
            ASSERT_EQ(parser->answer().calls.size(), 1u) << text;
            EXPECT_EQ(parser->answer().calls[0].name, "weather");
            EXPECT_EQ(parser->answer().calls[0].arguments, R"({"city": "Oslo"})");
        }
    EXPECT_GE(n_forms, 25);
}

TEST(AnswerForm, several_calls_stand_as_the_format_has_them) {
    for (const chat::Format& format : chat::formats()) {
        // After a bare call only another call of the same list is accepted.
        if (format.name == "llama3" || format.name == "gigachat") continue;
        SCOPED_TRACE(std::string(format.name));
        const chat::ToolCallFormat& form = format.written.front();
        const ChatPrompt prompt = prompt_in(format, &form);
        const std::string one = call_in(form, "weather", "Oslo");
        const std::string two =
            form.list_separator.empty() && !form.is_list
                ? written(form, {one}) + std::string(form.separator) + written(form, {one})
                : written(form, {one, one});
        for (const bool parallel : {false, true}) {
            auto tools = tool_calls_of(prompt, {.required = true, .parallel = parallel});
            auto matcher = test::matcher_for(*grammar::Grammar::from_tools(*tools));
            EXPECT_EQ(matcher.accept_bytes(two).has_value() && matcher.is_accepting(), parallel) << two;
        }
        auto parser = chat::OutputParser::make(format, prompt.parser_options());
        parser->push(two);
        parser->finish();
        EXPECT_EQ(parser->answer().calls.size(), 2u);
    }
}

TEST(AnswerForm, one_function_or_none) {
    const chat::Format& format = *chat::find_format("hermes");
    const ChatPrompt prompt = prompt_in(format, &format.written.front());
    auto tools = tool_calls_of(prompt, {.function = "stop"});
    ASSERT_TRUE(tools.has_value());
    ASSERT_EQ(tools->tools.size(), 1u);
    EXPECT_EQ(tools->tools[0].name, "stop");
    auto missing = tool_calls_of(prompt, {.function = "go"});
    ASSERT_FALSE(missing.has_value());
    EXPECT_NE(missing.error().message.find("'go'"), std::string::npos);
    EXPECT_EQ(tool_calls_of(prompt_in(*chat::find_format("glm"), nullptr), {}).error().code,
              ErrorCode::Unsupported);
    ChatPrompt none = prompt;
    none.tools = chat::Value::none();
    EXPECT_EQ(tool_calls_of(none, {}).error().code, ErrorCode::InvalidArgument);
}

TEST(AnswerForm, reasoning_may_stand_in_front) {
    const chat::Format& format = *chat::find_format("hermes");
    ChatPrompt prompt = prompt_in(format, &format.written.front());
    const auto matcher_of = [&](const ChatPrompt& one) {
        return test::matcher_for(*grammar::Grammar::json_object({}, reasoning_of(one)));
    };
    const auto accepts = [](grammar::Matcher matcher, const std::string& text) {
        return matcher.accept_bytes(text).has_value() && matcher.is_accepting();
    };
    EXPECT_TRUE(accepts(matcher_of(prompt), "{}"));
    EXPECT_TRUE(accepts(matcher_of(prompt), "<think>\n{ no JSON </thin</think>\n\n{}"));
    EXPECT_FALSE(accepts(matcher_of(prompt), "thought</think>{}"));
    prompt.prompt.opening = "<|im_start|>assistant\n<think>\n";
    EXPECT_TRUE(accepts(matcher_of(prompt), "thought</think>\n{}"));
    EXPECT_FALSE(accepts(matcher_of(prompt), "{}"));
    auto tools = tool_calls_of(prompt, {.required = true});
    auto matcher = test::matcher_for(*grammar::Grammar::from_tools(*tools));
    EXPECT_TRUE(accepts(matcher,
                        "Well. <tool_call> or not?</think>\n\n<tool_call>\n"
                        "{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>"));
}

TEST(AnswerForm, reasoning_is_for_models_whose_template_knows_it) {
    test::MemoryGguf memory;
    const Vocabulary words = vocabulary(memory, "", {});
    const char* const messages = "{% for m in messages %}{{ m.content }}{% endfor %}";
    const auto reasoning = [&](const std::string& source) {
        return reasoning_of(
            *chat_of(words, {.template_text = source})->render(*read_dialogue(kMessages, {}, {})));
    };
    EXPECT_EQ(reasoning(messages).end, "");
    EXPECT_EQ(reasoning(messages + std::string("{# </think> #}")).end, "</think>");
    EXPECT_FALSE(reasoning(messages + std::string("{# </think> #}")).is_open);
    EXPECT_TRUE(
        reasoning(messages + std::string("{% if add_generation_prompt %}A:<think>\n{% endif %}")).is_open);
}

TEST(AnswerForm, marks_may_be_control_tokens) {
    const chat::Format& format = *chat::find_format("mistral");
    ChatPrompt prompt = prompt_in(format, &format.written.back());
    auto tools = tool_calls_of(prompt, {.required = true});
    std::vector<grammar::TokenText> tokens;
    for (int byte = 0; byte < 256; byte++) tokens.push_back({std::string(1, static_cast<char>(byte))});
    tokens.push_back({"[TOOL_CALLS]", grammar::TokenText::Kind::Special});
    tokens.push_back({"</s>", grammar::TokenText::Kind::End});
    auto matcher =
        test::matcher_for(*grammar::Grammar::from_tools(*tools), *grammar::TokenTrie::create(tokens));
    EXPECT_TRUE(matcher.allows(256));
    EXPECT_FALSE(matcher.allows('x'));
    ASSERT_TRUE(matcher.accept(256).has_value());
    EXPECT_TRUE(matcher.accept_bytes(R"([{"name": "stop", "arguments": {}}])").has_value());
    EXPECT_TRUE(matcher.is_accepting());
}

TEST(Chats, begin_with_one_token_that_begins_a_text) {
    test::MemoryGguf memory;
    const Vocabulary words = vocabulary(memory, "", {"<|im_start|>", "<|im_end|>"});
    for (const std::string_view name : chat::builtin_names()) {
        SCOPED_TRACE(std::string(name));
        const auto chat = chat_of(words, {.template_name = name});
        const auto prompt = chat->render(*read_dialogue(kMessages, {}, {}));
        ASSERT_TRUE(prompt.has_value()) << prompt.error().message;
        ASSERT_GE(prompt->tokens.size(), 2u);
        EXPECT_EQ(prompt->tokens[0], 1);
        EXPECT_NE(prompt->tokens[1], 1);
    }
    const auto chat = chat_of(words);
    EXPECT_EQ(chat->plain().turn_end(), "<|im_end|>");
    EXPECT_EQ(chat->format().name, "plain");
}

TEST(Chats, stop_where_no_token_ends_the_turn) {
    test::MemoryGguf memory;
    const Vocabulary without = vocabulary(memory, "", {});
    EXPECT_EQ(chat_of(without)->stop(), "<|im_end|>");
    test::MemoryGguf other;
    const Vocabulary with = vocabulary(other, "", {"<|im_start|>", "<|im_end|>"});
    EXPECT_EQ(chat_of(with)->stop(), "");
}

TEST(Chats, refuse_what_they_are_given_by_name) {
    test::MemoryGguf memory;
    const Vocabulary words = vocabulary(memory, "", {});
    const auto error = [&](const ChatOptions& options) {
        const auto chat = Chat::create(words.file, words.tokenizer, options);
        return chat ? std::string() : chat.error().message;
    };
    EXPECT_NE(error({.template_name = "chatlm"}).find("chatml"), std::string::npos);
    EXPECT_NE(error({.template_text = "{% if"}).find("line 1"), std::string::npos);
    EXPECT_NE(error({.template_text = "x", .template_name = "chatml"}).find("both"), std::string::npos);
    EXPECT_NE(error({.format = "herpes"}).find("hermes"), std::string::npos);
    EXPECT_NE(read_dialogue("[", {}, {}).error().message.find("messages"), std::string::npos);
    EXPECT_NE(read_dialogue(kMessages, "{}", {}).error().message.find("tools"), std::string::npos);
    EXPECT_NE(read_dialogue(kMessages, {}, "[]").error().message.find("kwargs"), std::string::npos);
}

TEST(Chats, a_broken_template_of_the_model_is_replaced) {
    test::MemoryGguf memory;
    const Vocabulary words = vocabulary(memory, "{{ broken", {});
    const auto chat = chat_of(words);
    ASSERT_EQ(chat->plain().warnings().size(), 1u);
    EXPECT_NE(chat->plain().warnings()[0].find("ChatML"), std::string::npos);
}

TEST(Chats, the_template_for_tools_is_for_tools) {
    test::MemoryGguf memory = test::TokenList::with_bytes().gguf();
    memory.text("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
    memory.text("tokenizer.chat_template.tool_use",
                "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}<tool_call>");
    auto file = memory.parse();
    const auto chat = *Chat::create(*file, *text::Tokenizer::load(*file), {});
    EXPECT_EQ(chat->render(*read_dialogue(kMessages, {}, {}))->prompt.text, "Hello");
    const auto prompt = chat->render(*read_dialogue(kMessages, kTools, {}));
    ASSERT_TRUE(prompt.has_value()) << prompt.error().message;
    EXPECT_NE(prompt->prompt.text.find("weather"), std::string::npos);
    EXPECT_EQ(prompt->format->name, "hermes");
    EXPECT_TRUE(prompt->tool_call_format);
}

std::string spelled(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
    return tokenizer.decode(ids, {.show_special = true});
}

TEST(Infills, use_the_marks_of_the_model) {
    auto bytes = test::ByteVocabulary::with_bytes();
    for (const char* mark :
         {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"})
        bytes.list.add(mark, 0, 3);
    auto memory = bytes.gguf();
    auto file = memory.parse();
    ASSERT_TRUE(file.has_value());
    const auto tokenizer = *text::Tokenizer::load(*file);
    Infill infill{.prefix = "int f(", .suffix = ") {}", .middle = "int"};
    const auto tokens = [&] {
        const auto ids = infill_tokens(*tokenizer, infill);
        return ids ? spelled(*tokenizer, *ids) : ids.error().message;
    };
    EXPECT_EQ(tokens(), "<|fim_prefix|>int f(<|fim_suffix|>) {}<|fim_middle|>int");
    infill.suffix_first = true;
    EXPECT_EQ(tokens(), "<|fim_suffix|>) {}<|fim_prefix|>int f(<|fim_middle|>int");
    const InfillFile files[] = {{"a.h", "int a;"}, {"", "b"}};
    infill = {
        .prefix = "<|fim_middle|>", .suffix = "", .middle = "", .files = files, .name = "c.c", .repo = "r"};
    EXPECT_EQ(tokens(),
              "<|repo_name|>r\n<|file_sep|>a.h\nint a;\n<|file_sep|>b\n<|file_sep|>c.c\n"
              "<|fim_prefix|><|fim_middle|><|fim_suffix|><|fim_middle|>");
    EXPECT_EQ(std::ranges::count(*infill_tokens(*tokenizer, infill), tokenizer->vocab().special().fim_middle),
              1);

    test::MemoryGguf none;
    const Vocabulary words = vocabulary(none, "", {});
    const auto refused = infill_tokens(*words.tokenizer, infill);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
}

}  // namespace
}  // namespace tessera::engine
