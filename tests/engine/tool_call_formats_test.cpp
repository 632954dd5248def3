// Random answers constrained to the calls of each format: random tokens among the allowed ones. The parser of
// the format reads the result as a call whose arguments satisfy the function's schema.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "src/engine/response_format.h"
#include "tests/grammar/support.h"

namespace tessera::engine {
namespace {

using Words = std::vector<uint64_t>;

const char* const kFormatTools = R"([
    {"type": "function", "function": {"name": "book_room", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"},
        "code": {"type": "string", "pattern": "^[a-z<]{2,5}$"},
        "note": {"type": ["string", "null"], "maxLength": 9},
        "n": {"type": "integer", "minimum": 0, "maximum": 99},
        "unit": {"enum": ["c", "f", 3]},
        "kind": {"type": "string", "enum": ["one", "two"]},
        "late": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 3},
        "at": {"type": "object", "properties": {"x": {"type": "number", "minimum": -9, "maximum": 9},
            "name": {"type": "string", "minLength": 1, "maxLength": 5}}, "required": ["x"],
            "additionalProperties": false}},
        "required": ["city", "n", "at"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "stop"}}])";

/// The part of JSON schema that the tools above use.
bool is_valid(const test::Json& schema, const test::Json& value);

bool has_type(const std::string& type, const test::Json& value) {
    if (type == "string") return value.is_string();
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (type == "integer")
        return value.is_number_integer() ||
               (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
    return type == "number" && value.is_number();
}

bool is_valid_object(const test::Json& schema, const test::Json& value) {
    for (const auto& name : schema.value("required", test::Json::array()))
        if (!value.contains(name.get<std::string>())) return false;
    const test::Json properties = schema.value("properties", test::Json::object());
    for (const auto& [name, member] : value.items()) {
        if (properties.contains(name) ? !is_valid(properties[name], member)
                                      : schema.contains("additionalProperties"))
            return false;
    }
    return true;
}

bool is_valid(const test::Json& schema, const test::Json& value) {
    if (schema.contains("type")) {
        const test::Json& type = schema["type"];
        const test::Json types = type.is_array() ? type : test::Json::array({type});
        if (std::none_of(types.begin(), types.end(),
                         [&](const auto& one) { return has_type(one.template get<std::string>(), value); }))
            return false;
    }
    if (schema.contains("enum")) {
        const test::Json& values = schema["enum"];
        if (std::find(values.begin(), values.end(), value) == values.end()) return false;
    }
    if (value.is_number() && schema.contains("minimum") &&
        (value.get<double>() < schema["minimum"] || value.get<double>() > schema["maximum"]))
        return false;
    if (value.is_string()) {
        const auto text = value.get<std::string>();
        const auto starts = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
        const auto n = std::count_if(text.begin(), text.end(), starts);
        if (n < schema.value("minLength", 0) || n > schema.value("maxLength", 1 << 30)) return false;
        if (schema.contains("pattern") &&
            (n < 2 || n > 5 || text.find_first_not_of("abcdefghijklmnopqrstuvwxyz<") != text.npos))
            return false;
    }
    if (value.is_array()) {
        if (static_cast<int>(value.size()) > schema.value("maxItems", 1 << 30)) return false;
        for (const auto& item : value)
            if (!is_valid(schema["items"], item)) return false;
    }
    return !value.is_object() || is_valid_object(schema, value);
}

const test::Json* parameters_of(const test::Json& tools, const std::string& name) {
    for (const auto& tool : tools)
        if (tool["function"]["name"] == name)
            return tool["function"].contains("parameters") ? &tool["function"]["parameters"] : nullptr;
    ADD_FAILURE() << "no tool " << name;
    return nullptr;
}

/// Random tokens until the grammar accepts; beyond some length closing tokens are preferred. Empty if the
/// text does not end.
std::string random_answer(grammar::Matcher& matcher, const Words& closing, std::mt19937_64& random) {
    const grammar::TokenTrie& trie = matcher.cache().trie();
    std::string out;
    for (size_t step = 0; step < 3000; step++) {
        if (matcher.is_accepting() && (matcher.is_finished() || step > 40)) return out;
        Words allowed = test::mask_of(matcher), preferred = allowed;
        std::vector<int32_t> all, close;
        for (int32_t id = 0; id < trie.n_tokens(); id++) {
            if (!test::has(allowed, id) || trie.kind(id) == grammar::TokenText::Kind::End) continue;
            all.push_back(id);
            if (test::has(closing, id)) close.push_back(id);
        }
        if (all.empty()) return {};
        const bool prefers = !close.empty() && random() % 60 < step + 6;
        const std::vector<int32_t>& from = prefers ? close : all;
        const int32_t id = from[random() % from.size()];
        if (!matcher.accept(id)) return {};
        out += trie.bytes(id);
    }
    return {};
}

struct Scene {
    ChatPrompt prompt;
    test::Json tools = test::Json::parse(kFormatTools);
    std::shared_ptr<const grammar::TokenTrie> trie;
    Words closing;
};

/// Every byte, and the marks of the format as tokens: in every other format as control tokens.
Scene scene_of(const chat::Format& format, const chat::ToolCallFormat& form, bool special_marks) {
    Scene out;
    out.prompt.format = &format;
    out.prompt.tool_call_format = &form;
    out.prompt.reasoning = format.reasoning;
    out.prompt.tools = *read_tools(kFormatTools);
    std::vector<grammar::TokenText> tokens;
    for (int byte = 0; byte < 256; byte++) tokens.push_back({std::string(1, static_cast<char>(byte))});
    std::vector<std::string_view> marks = {form.after, form.call_end, form.name_end};
    if (form.arguments)
        for (const std::string_view mark : {form.arguments->key_end, form.arguments->value_end,
                                            form.arguments->quote, form.arguments->text_key_end})
            marks.push_back(mark);
    std::sort(marks.begin(), marks.end());
    marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
    const auto kind = special_marks ? grammar::TokenText::Kind::Special : grammar::TokenText::Kind::Text;
    for (const std::string_view mark : marks)
        if (mark.size() > 1) tokens.push_back({std::string(mark), kind});
    tokens.push_back({"<|never|>", grammar::TokenText::Kind::Special});
    tokens.push_back({"</s>", grammar::TokenText::Kind::End});
    out.trie = *grammar::TokenTrie::create(tokens);
    out.closing.resize(out.trie->mask_words());
    const auto close = [&](size_t id) { out.closing[id / 64] |= uint64_t{1} << (id % 64); };
    for (const char c : std::string_view("\"}])")) close(static_cast<uint8_t>(c));
    for (size_t id = 256; form.arguments && id < tokens.size(); id++)
        if (tokens[id].bytes == form.arguments->value_end || tokens[id].bytes == form.arguments->quote)
            close(id);
    return out;
}

chat::Answer read(const Scene& scene, const std::string& text) {
    auto parser = chat::OutputParser::make(*scene.prompt.format, scene.prompt.parser_options());
    parser->push(text);
    parser->finish();
    return parser->answer();
}

class ToolCallFormats : public testing::TestWithParam<const chat::Format*> {};

TEST_P(ToolCallFormats, RandomCallsAreReadBackAndValid) {
    std::mt19937_64 random(5);
    const int n_runs = 25;
    for (const chat::ToolCallFormat& form : GetParam()->written) {
        SCOPED_TRACE(std::string(form.trigger));
        for (const bool special_marks : {false, true}) {
            const Scene s = scene_of(*GetParam(), form, special_marks);
            const auto tools = tool_calls_of(s.prompt, {.required = true, .parallel = true});
            ASSERT_TRUE(tools.has_value()) << tools.error().message;
            const auto grammar = grammar::Grammar::from_tools(*tools);
            ASSERT_TRUE(grammar.has_value()) << grammar.error().message;
            auto matcher = test::matcher_for(*grammar, s.trie);
            for (int run = 0; run < n_runs; run++) {
                matcher.reset();
                const std::string begin = std::string(form.trigger) + std::string(form.before) +
                                          (form.name_end.empty() ? "{" : std::string(form.call_begin));
                ASSERT_TRUE(matcher.accept_bytes(begin)) << begin;
                const std::string text = begin + random_answer(matcher, s.closing, random);
                ASSERT_GT(text.size(), begin.size()) << "no end came";
                const chat::Answer answer = read(s, text);
                ASSERT_GE(answer.calls.size(), 1u) << text << (answer.notes.empty() ? "" : answer.notes[0]);
                EXPECT_EQ(answer.content, "") << text;
                EXPECT_TRUE(answer.notes.empty()) << text;
                for (const chat::ToolCall& call : answer.calls) {
                    const test::Json* const schema = parameters_of(s.tools, call.name);
                    const auto arguments = test::Json::parse(call.arguments, nullptr, false);
                    ASSERT_TRUE(arguments.is_object()) << text;
                    EXPECT_TRUE(!schema || is_valid(*schema, arguments)) << call.arguments << "\n" << text;
                }
            }
        }
    }
}

TEST_P(ToolCallFormats, TextIsFreeUntilACallBegins) {
    for (const chat::ToolCallFormat& form : GetParam()->written) {
        SCOPED_TRACE(std::string(form.trigger));
        const Scene s = scene_of(*GetParam(), form, false);
        const auto matcher_of = [&](const ToolCallOptions& options) {
            return test::matcher_for(*grammar::Grammar::from_tools(*tool_calls_of(s.prompt, options)),
                                     s.trie);
        };
        const std::string begin = std::string(form.trigger) + std::string(form.before) +
                                  (form.name_end.empty() ? "{" : std::string(form.call_begin));
        const std::string said = form.trigger.empty() ? "" : "Let me look. ";
        auto lazy = matcher_of({});
        EXPECT_TRUE(lazy.is_accepting());
        EXPECT_TRUE(lazy.accept_bytes("No { call } <is needed>"));
        EXPECT_TRUE(lazy.is_accepting());
        lazy.reset();
        ASSERT_TRUE(lazy.accept_bytes(said + begin));
        EXPECT_FALSE(lazy.is_accepting());
        // From here on names of unknown tools are masked.
        if (!form.name_end.empty()) {
            EXPECT_TRUE(lazy.allows('b'));
            EXPECT_TRUE(lazy.allows('s'));
            EXPECT_FALSE(lazy.allows('x'));
            EXPECT_FALSE(lazy.accept_bytes("unknown"));
        }
        auto named = matcher_of({.required = true, .function = "stop"});
        EXPECT_FALSE(named.accept_bytes("No"));
        EXPECT_TRUE(named.accept_bytes(begin));
        EXPECT_EQ(named.allows('b'), false);
        auto none = matcher_of({.none = true});
        EXPECT_TRUE(none.accept_bytes("Let me look."));
        EXPECT_TRUE(none.is_accepting());
        none.reset();
        EXPECT_FALSE(none.accept_bytes(said + begin));
    }
}

std::vector<const chat::Format*> enforced() {
    std::vector<const chat::Format*> out;
    for (const chat::Format& format : chat::formats())
        if (!format.written.empty()) out.push_back(&format);
    return out;
}

INSTANTIATE_TEST_SUITE_P(Formats, ToolCallFormats, testing::ValuesIn(enforced()), [](const auto& format) {
    std::string name(format.param->name);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

TEST(ToolCallFormatTable, EveryFormatIsEnforced) { EXPECT_EQ(enforced().size(), chat::formats().size()); }

TEST(ToolCallFormatTable, ValuesThatANotationCannotWriteAreRefused) {
    const auto refusal = [](const char* format_name, const std::string& parameters) {
        const chat::Format& format = *chat::find_format(format_name);
        ChatPrompt prompt;
        prompt.format = &format;
        prompt.tool_call_format = &format.written.front();
        prompt.tools = *read_tools(R"([{"type": "function", "function": {"name": "f", "parameters": )" +
                                   parameters + "}}]");
        const auto grammar = grammar::Grammar::from_tools(*tool_calls_of(prompt, {}));
        return grammar ? std::string() : grammar.error().message;
    };
    EXPECT_NE(refusal("gemma", R"({"type": "object", "properties": {"a b": {}}})").find("'a b'"),
              std::string::npos);
    EXPECT_EQ(refusal("hermes", R"({"type": "object", "properties": {"a b": {}}})"), "");
    EXPECT_NE(refusal("lfm2", R"({"type": "object", "properties": {"a": {}}, "minProperties": 1})")
                  .find("minProperties"),
              std::string::npos);
    EXPECT_NE(refusal("glm", R"({"type": "object", "properties": {"a": false}, "required": ["a"]})")
                  .find("\"a\" is required"),
              std::string::npos);
    EXPECT_EQ(refusal("qwen3-coder",
                      R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 100000}}})"),
              "");
}

}  // namespace
}  // namespace tessera::engine
