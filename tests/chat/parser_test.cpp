// Answers in every format: parsed whole and cut at every place, damaged, and as the model's own template
// prints them.
#include <set>

#include "common/rng.h"
#include "src/text/chat/parsers/output_parser.h"
#include "src/text/chat/template.h"
#include "tests/jinja/support.h"

namespace tessera::chat {
namespace {

using test::read_json;

// Two tools as most examples use them.
Value tools() {
    return *jinja::parse_json(R"([
        {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
            "location": {"type": "string"}, "days": {"type": "integer"}, "code": {"type": "string"}}}}},
        {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {
            "query": {"type": "string"}, "filters": {"type": "object"}}}}}])");
}

struct Example {
    const char* format;
    const char* opening;
    const char* text;
    Answer expected;
    size_t n_notes = 0;
};

const char* const kWeather = R"({"location": "Paris", "days": 2})";
const char* const kSearch = R"({"query": "a \"b\"", "filters": {"tags": ["é", true]}})";

const std::vector<ToolCall> kOne = {{"", "get_weather", kWeather}};
const std::vector<ToolCall> kBoth = {{"", "get_weather", kWeather}, {"", "search", kSearch}};

std::vector<Example> tag_examples() {
    return {
        {"hermes",
         "<|im_start|>assistant\n",
         "<think>\nLet me see.\n</think>\n\nLooking.\n<tool_call>\n{\"name\": \"get_weather\", "
         "\"arguments\": "
         "{\"location\": \"Paris\", \"days\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"search\", "
         "\"arguments\": "
         "{\"query\": \"a \\\"b\\\"\", \"filters\": {\"tags\": [\"é\", true]}}}\n</tool_call>",
         {"Looking.", "Let me see.", kBoth, {}}},
        {"hermes",
         "<|im_start|>assistant\n<think>\n",
         "Inside.\n</think>\n\nOutside.\n",
         {"Outside.\n", "Inside.", {}, {}}},
        {"hermes",
         "",
         "  Indented <thin air> text < tool_call>\n",
         {"  Indented <thin air> text < tool_call>\n", "", {}, {}}},
        {"hermes",
         "",
         "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"code\": "
         "\"</tool_call>\"}}</tool_call>",
         {"", "", {{"", "get_weather", R"({"code": "</tool_call>"})"}}, {}}},
        // The end tag is missing, or a new call begins instead.
        {"hermes",
         "",
         "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"location\": \"Paris\", \"days\": 2}}",
         {"", "", kOne, {}}},
        {"hermes",
         "",
         "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"location\": \"Paris\", \"days\": 2}}\n"
         "<tool_call>{\"name\": \"search\", \"arguments\": "
         "{\"query\": \"a \\\"b\\\"\", \"filters\": {\"tags\": [\"é\", true]}}}</tool_call>",
         {"", "", kBoth, {}}},
        // Text that is not a call is kept, and the next call is still parsed.
        {"hermes",
         "",
         "a\n<tool_call>\nnot json\n</tool_call>\nb",
         {"a\n<tool_call>\nnot json\n</tool_call>\nb", "", {}, {}},
         1},
        {"hermes",
         "",
         "<tool_call>bad</tool_call>\n<tool_call>{\"name\": \"get_weather\", \"arguments\": "
         "{\"location\": \"Paris\", \"days\": 2}}</tool_call>",
         {"<tool_call>bad</tool_call>\n", "", kOne, {}},
         1},
        {"hermes", "", "x <tool_call>{\"name\": \"get_w", {"x <tool_call>{\"name\": \"get_w", "", {}, {}}, 1},
        {"qwen3-coder",
         "",
         "I "
         "look.\n\n<tool_call>\n<function=get_weather>\n<parameter=location>\nParis\n</"
         "parameter>\n<parameter=days>\n2\n"
         "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=search>\n<parameter=query>\na "
         "\"b\"\n</parameter>\n"
         "<parameter=filters>\n{\"tags\": [\"é\", true]}\n</parameter>\n</function>\n</tool_call>",
         {"I look.", "", kBoth, {}}},
        {"qwen3-coder",
         "",
         "<function=get_weather>\n<parameter=location>\n7\n</parameter>\n<parameter=code>\n  if a "
         "</parameter> b:\n</parameter>"
         "\n</function>",
         {"", "", {{"", "get_weather", R"({"location": "7", "code": "  if a </parameter> b:"})"}}, {}}},
        {"glm",
         "<|assistant|>\n<think>",
         "Hm.</think>\nLook.\n<tool_call>get_weather\n<arg_key>location</arg_key>\n<arg_value>Paris</"
         "arg_value>\n"
         "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</"
         "tool_call>\n<tool_call>search<arg_key>query</arg_key>"
         "<arg_value>a \"b\"</arg_value><arg_key>filters</arg_key><arg_value>{\"tags\": [\"é\", "
         "true]}</arg_value></tool_call>",
         {"Look.", "Hm.", kBoth, {}}},
    };
}

std::vector<Example> name_examples() {
    return {
        {"llama3",
         "",
         R"({"name": "get_weather", "parameters": {"location": "Paris", "days": 2}})",
         {"", "", kOne, {}}},
        {"llama3",
         "",
         R"({"name": "get_weather", "parameters": {"location": "Paris", "days": 2}}; )"
         R"({"name": "search", "parameters": {"query": "a \"b\"", "filters": {"tags": ["é", true]}}})",
         {"", "", kBoth, {}}},
        {"llama3", "", R"({"answer": 42})", {R"({"answer": 42})", "", {}, {}}},
        {"llama3",
         "",
         R"({"name": "unknown", "parameters": {}})",
         {R"({"name": "unknown", "parameters": {}})", "", {}, {}}},
        {"llama3",
         "",
         R"(<|python_tag|>get_weather.call(location="Paris", days=2)<|eom_id|>)",
         {"", "", kOne, {}},
         0},
        {"llama3",
         "",
         "<|python_tag|>print('x')\nprint(2)",
         {"", "", {{"", "python", "{\"code\": \"print('x')\\nprint(2)\"}"}}, {}}},
        {"llama3", "", "Hello {x}", {"Hello {x}", "", {}, {}}},
        {"mistral",
         "",
         R"(Look.[TOOL_CALLS][{"name": "get_weather", "arguments": {"location": "Paris", "days": 2}, "id": "abc"}])",
         {"Look.", "", {{"abc", "get_weather", kWeather}}, {}}},
        {"mistral",
         "",
         R"([THINK]Hm.[/THINK]Look.[TOOL_CALLS]get_weather[ARGS]{"location": "Paris", "days": 2})"
         R"([TOOL_CALLS]search[CALL_ID]x9[ARGS]{"query": "a \"b\"", "filters": {"tags": ["é", true]}})",
         {"Look.", "Hm.", {kBoth[0], {"x9", "search", kSearch}}, {}}},
        {"gemma",
         "",
         "<|channel>thought\nHm.\n<channel|>Look.<|tool_call>call:get_weather{days:2,location:<|\"|>Paris<|"
         "\"|>}<tool_call|>"
         "<|tool_call>call:search{filters:{tags:[<|\"|>é<|\"|>,true]},query:<|\"|>a \"b\"<|\"|>}<tool_call|>",
         {"Look.",
          "Hm.",
          {{"", "get_weather", R"({"days": 2, "location": "Paris"})"},
           {"", "search", R"({"filters": {"tags": ["é", true]}, "query": "a \"b\""})"}},
          {}}},
    };
}

std::vector<Example> harmony_examples() {
    return {
        {"gpt-oss",
         "<|start|>assistant",
         "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Look.<|"
         "end|>"
         "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
         "{\"location\": \"Paris\", \"days\": 2}<|call|>",
         {"Look.", "Hm.", kOne, {}}},
        {"gpt-oss",
         "<|start|>assistant",
         "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|"
         "><|start|>"
         "assistant<|channel|>final<|message|>It is\n 18.<|return|>",
         {"It is\n 18.", "One.\n\nTwo.", {}, {}}},
        {"gpt-oss",
         "<|start|>assistant",
         " to=functions.get_weather<|channel|>commentary json<|message|>{\"location\": \"Paris\", \"days\": "
         "2}",
         {"", "", kOne, {}}},
        {"gpt-oss",
         "<|start|>assistant<|channel|>final<|message|>",
         "Straight on",
         {"Straight on", "", {}, {}}},
        {"gpt-oss",
         "<|start|>assistant",
         "<|channel|>commentary to=functions.get_weather<|message|>no json<|call|>",
         {"<|channel|>commentary to=functions.get_weather<|message|>no json", "", {}, {}},
         1},
        {"gpt-oss", "<|start|>assistant", "No marks at all", {"No marks at all", "", {}, {}}, 1},
    };
}

std::vector<Example> mark_examples() {
    return {
        {"deepseek",
         "<｜Assistant｜><think>\n",
         "Hm.\n</"
         "think>\nLook.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```"
         "json\n"
         "{\"location\": \"Paris\", \"days\": "
         "2}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>search<｜tool▁sep｜>"
         "{\"query\": \"a \\\"b\\\"\", \"filters\": {\"tags\": [\"é\", "
         "true]}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         {"Look.", "Hm.", kBoth, {}}},
        {"deepseek-dsml",
         "",
         "</think>Look.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
         "name=\"location\" "
         "string=\"true\">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
         "string=\"false\">2</｜DSML｜parameter>\n"
         "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"search\">\n<｜DSML｜parameter name=\"query\" "
         "string=\"true\">a \"b\""
         "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"filters\" string=\"false\">{\"tags\": [\"é\", "
         "true]}"
         "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
         {"</think>Look.", "", kBoth, {}}},
        {"granite",
         "",
         R"(<think>Hm.</think><response>Look.</response><|tool_call|>[{"name": "get_weather", "arguments": )"
         R"({"location": "Paris", "days": 2}}])",
         {"Look.", "Hm.", kOne, {}}},
        {"lfm2",
         "",
         "Look.<|tool_call_start|>[get_weather(location='Paris', days=2), search(query='a \"b\"', "
         "filters={'tags': ['é', "
         "True]})]<|tool_call_end|>",
         {"Look.", "", kBoth, {}}},
        {"lfm2",
         "",
         R"(<|tool_call_start|>[{"name": "get_weather", "arguments": {"location": "Paris", "days": 2}}]<|tool_call_end|>x)",
         {"x", "", kOne, {}}},
        {"phi4",
         "",
         R"(<|tool_call|>[{"type": "function", "function": {"name": "get_weather", "arguments": {"location": "Paris", )"
         R"("days": 2}}}]<|/tool_call|>)",
         {"", "", kOne, {}}},
        {"command-r",
         "",
         "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
         "\"tool_name\": "
         "\"get_weather\", \"parameters\": {\"location\": \"Paris\", \"days\": 2}}\n]<|END_ACTION|>",
         {"", "Hm.", {{"0", "get_weather", kWeather}}, {}}},
        {"command-r", "", "<|START_RESPONSE|>It is 18.<|END_RESPONSE|>", {"It is 18.", "", {}, {}}},
        {"command-r-plus",
         "",
         "Action: ```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        \"parameters\": "
         "{\"location\": \"Paris\", \"days\": 2}\n    }\n]```",
         {"", "", kOne, {}}},
    };
}

std::vector<Example> other_examples() {
    return {
        {"minimax",
         "<think>\n",
         "Hm.\n</think>\n\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
         "name=\"location\">Paris</parameter>\n"
         "<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"search\">\n<parameter "
         "name=\"query\">a \"b\""
         "</parameter>\n<parameter name=\"filters\">{\"tags\": [\"é\", "
         "true]}</parameter>\n</invoke>\n</minimax:tool_call>",
         {"", "Hm.", kBoth, {}}},
        {"seed",
         "",
         "<seed:think>Hm.</"
         "seed:think>Look.\n<seed:tool_call>\n<function=get_weather>\n<parameter=location>Paris</parameter>\n"
         "<parameter=days>2</parameter>\n</function>\n</seed:tool_call>",
         {"Look.", "Hm.", kOne, {}}},
        {"minicpm",
         "",
         "Look.\n<function name=\"get_weather\"><param name=\"location\">Paris</param><param "
         "name=\"days\">2</param></function>\n"
         "<function name=\"search\"><param name=\"query\">a \"b\"</param><param name=\"filters\">{'tags': "
         "['é', True]}</param>"
         "</function>",
         {"Look.", "", kBoth, {}}},
        {"nemotron",
         "",
         R"(<TOOLCALL>[{"name": "get_weather", "arguments": {"location": "Paris", "days": 2}}]</TOOLCALL>)",
         {"", "", kOne, {}}},
        {"apriel",
         "",
         R"(<tool_calls>[{"name": "get_weather", "arguments": {"location": "Paris", "days": 2}, "id": "7"}]</tool_calls>)",
         {"", "", {{"7", "get_weather", kWeather}}, {}}},
        {"apertus",
         "",
         "<|inner_prefix|>Hm.<|inner_suffix|>Look.<|tools_prefix|>[{\"get_weather\": {\"location\": "
         "\"Paris\", \"days\": 2}}]"
         "<|tools_suffix|>",
         {"Look.", "Hm.", kOne, {}}},
        {"gigachat",
         "",
         R"(<|function_call|>{"name": "get_weather", "arguments": {"location": "Paris", "days": 2}})",
         {"", "", kOne, {}}},
        {"firefunction",
         "",
         R"(Look. functools[{"name": "get_weather", "arguments": {"location": "Paris", "days": 2}}])",
         {"Look.", "", kOne, {}}},
        {"plain", "", "Just <b>text</b>.", {"Just <b>text</b>.", "", {}, {}}},
    };
}

std::vector<Example> examples() {
    std::vector<Example> all;
    for (const auto& group :
         {tag_examples(), name_examples(), harmony_examples(), mark_examples(), other_examples()})
        all.insert(all.end(), group.begin(), group.end());
    return all;
}

Answer read(const Format& format, const ParserOptions& options, std::string_view text, size_t cut,
            std::string* streamed) {
    const auto parser = OutputParser::make(format, options);
    std::vector<Delta> deltas;
    const auto take = [&] {
        for (Delta& delta : parser->take_deltas()) deltas.push_back(std::move(delta));
    };
    if (cut == std::string_view::npos) {
        for (const char c : text) {
            parser->push({&c, 1});
            take();
        }
    } else {
        parser->push(text.substr(0, cut));
        take();
        parser->push(text.substr(cut));
    }
    parser->finish();
    take();
    if (streamed) {
        streamed->clear();
        std::string content, reasoning;
        size_t n_calls = 0;
        std::vector<std::string> arguments(parser->answer().calls.size());
        for (const Delta& delta : deltas) {
            if (delta.kind == Delta::Kind::Content) content += delta.text;
            if (delta.kind == Delta::Kind::Reasoning) reasoning += delta.text;
            if (delta.kind == Delta::Kind::CallArguments) arguments.at(delta.call_index) += delta.text;
            if (delta.kind == Delta::Kind::Call || delta.kind == Delta::Kind::CallBegin) {
                EXPECT_EQ(delta.call_index, n_calls++);
            }
            if (delta.kind == Delta::Kind::Call)
                arguments.at(delta.call_index) = parser->answer().calls[delta.call_index].arguments;
        }
        for (size_t i = 0; i < arguments.size(); i++)
            EXPECT_EQ(arguments[i], parser->answer().calls[i].arguments);
        EXPECT_EQ(n_calls, parser->answer().calls.size());
        *streamed = content + "\x01" + reasoning;
    }
    return parser->answer();
}

std::string shown(const Answer& answer) {
    std::string out = "content '" + answer.content + "' reasoning '" + answer.reasoning + "'";
    for (const ToolCall& call : answer.calls)
        out += " call " + call.id + " " + call.name + " " + call.arguments;
    for (const std::string& note : answer.notes) out += " note " + note;
    return out;
}

TEST(OutputParser, examples_whole_and_at_every_cut) {
    size_t n_cuts = 0;
    std::set<std::string_view> seen;
    for (const Example& example : examples()) {
        const Format* format = find_format(example.format);
        ASSERT_NE(format, nullptr) << example.format;
        seen.insert(format->name);
        const ParserOptions options = {tools(), example.opening, ""};
        const std::string_view text = example.text;
        const Answer whole = read(*format, options, text, 0, nullptr);
        EXPECT_EQ(whole.content, example.expected.content) << example.format << ": " << text;
        EXPECT_EQ(whole.reasoning, example.expected.reasoning) << example.format << ": " << text;
        EXPECT_TRUE(whole.calls == example.expected.calls) << example.format << ": " << text << "\n"
                                                           << shown(whole);
        EXPECT_EQ(whole.notes.size(), example.n_notes) << example.format << ": " << text << "\n"
                                                       << shown(whole);
        for (size_t cut = 0; cut <= text.size() + 1; cut++, n_cuts++) {
            std::string streamed;
            const Answer cut_answer =
                read(*format, options, text, cut > text.size() ? std::string_view::npos : cut, &streamed);
            ASSERT_TRUE(cut_answer == whole)
                << example.format << " cut at " << cut << ": " << shown(cut_answer);
            ASSERT_EQ(streamed, whole.content + "\x01" + whole.reasoning)
                << example.format << " cut at " << cut;
        }
    }
    EXPECT_GT(n_cuts, 5000u);
    EXPECT_EQ(seen.size(), formats().size()) << "a format has no example";
}

/// The same value as our own JSON writer prints it.
std::string rewritten(const std::string& json) {
    const auto value = jinja::parse_json(json);
    return value ? jinja::dump_json(*value).value_or("") : "no JSON: " + json;
}

// All examples contain the same calls, streamed or parsed whole, and every cut gives the same result.
TEST(OutputParser, calls_that_stream) {
    std::set<std::string_view> early, late;
    for (const Example& example : examples()) {
        const Format* format = find_format(example.format);
        const ParserOptions options = {tools(), example.opening, "", true};
        const std::string_view text = example.text;
        std::string streamed;
        const Answer whole = read(*format, options, text, 0, &streamed);
        for (size_t cut = 0; cut <= text.size() + 1; cut += 3)
            ASSERT_TRUE(read(*format, options, text, cut > text.size() ? std::string_view::npos : cut,
                             &streamed) == whole)
                << example.format << " cut at " << cut;
        // A truncated call is still a call and not content.
        if (whole.notes.size() != example.n_notes || whole.calls.size() != example.expected.calls.size())
            continue;
        EXPECT_EQ(whole.content, example.expected.content);
        for (size_t i = 0; i < whole.calls.size(); i++) {
            EXPECT_EQ(whole.calls[i].id, example.expected.calls[i].id);
            EXPECT_EQ(whole.calls[i].name, example.expected.calls[i].name);
            EXPECT_EQ(rewritten(whole.calls[i].arguments), rewritten(example.expected.calls[i].arguments));
        }
        const auto parser = OutputParser::make(*format, options);
        parser->push(text);
        parser->finish();
        for (const Delta& delta : parser->take_deltas())
            if (delta.kind == Delta::Kind::CallBegin) early.insert(format->name);
        if (!whole.calls.empty()) late.insert(format->name);
    }
    for (const std::string_view name : early) late.erase(name);
    // As docs/guide/server.md lists them.
    const std::set<std::string_view> expected = {"apertus", "deepseek", "deepseek-dsml", "gemma",
                                                 "glm",     "lfm2",     "minicpm",       "minimax",
                                                 "phi4",    "seed",     "qwen3-coder"};
    EXPECT_EQ(late, expected);
}

TEST(OutputParser, a_call_is_streamed_before_it_is_complete) {
    const auto parser = OutputParser::make(*find_format("hermes"), {tools(), "", "", true});
    const auto pushed = [&parser](std::string_view text) {
        parser->push(text);
        std::string out;
        for (const Delta& delta : parser->take_deltas())
            out += delta.kind == Delta::Kind::CallBegin       ? "begin;"
                   : delta.kind == Delta::Kind::CallArguments ? delta.text + ";"
                                                              : "?";
        return out;
    };
    EXPECT_EQ(pushed("<tool_call>\n{\"name\": \"get_wea"), "");
    EXPECT_EQ(pushed("ther\", \"arguments\": {"), "begin;{;");
    EXPECT_EQ(pushed("\"location\": \"Pa}\\\"ris\", "), "\"location\": \"Pa}\\\"ris\", ;");
    EXPECT_EQ(pushed("\"days\": [2"), "\"days\": [2;");
    parser->finish();
    const std::string arguments = R"({"location": "Pa}\"ris", "days": [2)";
    EXPECT_TRUE(parser->answer().calls == std::vector<ToolCall>({{"", "get_weather", arguments}}));
    EXPECT_EQ(parser->answer().notes.size(), 1u);
    EXPECT_EQ(parser->answer().content, "");
}

TEST(OutputParser, calls_of_no_tool_do_not_begin_early) {
    for (const char* text :
         {R"(<tool_call>{"name": "unknown", "arguments": {)", R"(<tool_call>{"arguments": {"a": 1)",
          R"(<tool_call>{"name": "get_weather", "arguments": "{)", "<tool_call>```json\n{",
          R"(<tool_call>{"name": "get\u005fweather", "arguments": {)"}) {
        const auto parser = OutputParser::make(*find_format("hermes"), {tools(), "", "", true});
        parser->push(text);
        EXPECT_TRUE(parser->take_deltas().empty()) << text;
        parser->finish();
        EXPECT_EQ(parser->answer().content, text);
    }
}

ParserOptions without_calls(std::string_view opening) {
    ParserOptions out;
    out.tools = tools();
    out.opening = opening;
    out.stream_calls = out.no_calls = true;
    return out;
}

ParserOptions with_reasoning(std::string_view opening) {
    ParserOptions out;
    out.tools = tools();
    out.opening = opening;
    out.keep_reasoning = true;
    return out;
}

// Marks that are to be kept as content are kept in every format; the rest is parsed as usual.
TEST(OutputParser, calls_and_reasoning_that_stay_content) {
    for (const Example& example : examples()) {
        const Format* format = find_format(example.format);
        const ParserOptions without = without_calls(example.opening);
        const ParserOptions kept = with_reasoning(example.opening);
        for (const size_t cut : {size_t{0}, std::string_view(example.text).size() / 2}) {
            std::string streamed;
            const Answer no_calls = read(*format, without, example.text, cut, &streamed);
            EXPECT_TRUE(no_calls.calls.empty()) << example.format << ": " << example.text;
            EXPECT_GE(no_calls.content.size(),
                      example.expected.content.size() + (example.expected.calls.empty() ? 0 : 1))
                << example.format << ": " << shown(no_calls);
            const Answer whole = read(*format, kept, example.text, cut, &streamed);
            EXPECT_TRUE(whole.calls == example.expected.calls) << example.format << ": " << shown(whole);
            EXPECT_EQ(whole.reasoning, "");
            // The text of this format may consist of several messages with marks between them.
            std::string_view left = example.expected.reasoning;
            for (size_t n; !left.empty(); left.remove_prefix(std::min(left.size(), n + 2))) {
                n = std::min(left.find("\n\n"), left.size());
                EXPECT_NE(whole.content.find(left.substr(0, n)), std::string::npos) << shown(whole);
            }
        }
    }
    const auto content = [](const char* format, const ParserOptions& options, std::string_view text) {
        return read(*find_format(format), options, text, 0, nullptr).content;
    };
    const ParserOptions kept = with_reasoning("");
    const ParserOptions open = with_reasoning("<|im_start|>assistant\n<think>\n");
    EXPECT_EQ(content("hermes", kept, "<think>\nHm. </think>\n\nYes."), "<think>\nHm. </think>\n\nYes.");
    EXPECT_EQ(content("hermes", open, "Hm.\n</think>\nYes."), "<think>\nHm.\n</think>\nYes.");
    EXPECT_EQ(
        content("gpt-oss", kept,
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes."),
        "<|channel|>analysis<|message|>Hm.<|end|>\n\nYes.");
    const ParserOptions none = without_calls("");
    const std::string_view call = R"(<tool_call>{"name": "search", "arguments": {}}</tool_call>)";
    EXPECT_EQ(content("hermes", none, call), call);
    const std::string_view bare = R"({"name": "search", "parameters": {}})";
    EXPECT_EQ(content("llama3", none, bare), bare);
}

TEST(OutputParser, format_of_a_template) {
    EXPECT_EQ(choose_format("<|im_start|>").name, "plain");
    EXPECT_EQ(choose_format("... <tool_call> ...").name, "hermes");
    EXPECT_EQ(choose_format("... <tool_call> <function= ...").name, "qwen3-coder");
    // The prompt then describes the tools and requests calls of the plain format.
    EXPECT_EQ(choose_format(find_builtin("llama3"), false).name, "plain");
    EXPECT_EQ(choose_format(find_builtin("llama3")).name, "llama3");
}

TEST(OutputParser, content_streams_as_it_comes) {
    const auto parser = OutputParser::make(*find_format("hermes"), {});
    parser->push("Once upon");
    EXPECT_EQ(parser->answer().content, "Once upon");
    parser->push(" a <tool");
    EXPECT_EQ(parser->answer().content, "Once upon a");
    parser->push("box>");
    EXPECT_EQ(parser->answer().content, "Once upon a <toolbox>");
}

TEST(OutputParser, the_end_of_the_turn_is_no_content) {
    const auto parser = OutputParser::make(*find_format("hermes"), {tools(), "", "<|im_end|>"});
    parser->push("Hello\n<|im_end|>");
    parser->finish();
    EXPECT_EQ(parser->answer().content, "Hello");
}

// 10^5 damaged answers: parsing always succeeds, gives the same for any cut, and loses no text outside of
// tags and calls.
TEST(OutputParser, damaged_answers) {
    const std::vector<Example> all = examples();
    std::vector<std::string> pieces = {"<",  ">",  "{", "}",    "\"", "[",  "]", "\n",
                                       "\\", "</", "|", "\xff", " ",  "｜", "'"};
    for (const Format& format : formats()) {
        for (const TagPair& pair : format.reasoning)
            pieces.insert(pieces.end(), {std::string(pair.begin), std::string(pair.end)});
        for (const CallTags& tags : format.calls)
            pieces.insert(pieces.end(), {std::string(tags.begin), std::string(tags.end)});
    }
    Rng rng(11);
    const auto below = [&](size_t n) { return static_cast<size_t>(rng.next_u64() % n); };
    const Value given = tools();
    for (int round = 0; round < 100000; round++) {
        const Example& example = all[below(all.size())];
        std::string text = example.text;
        for (size_t n = 1 + below(4); n > 0 && !text.empty(); n--) {
            const size_t at = below(text.size());
            switch (below(4)) {
                case 0:
                    text.insert(at, pieces[below(pieces.size())]);
                    break;
                case 1:
                    text.erase(at, 1 + below(12));
                    break;
                case 2:
                    text[at] = static_cast<char>(below(256));
                    break;
                default:
                    text.insert(at, text.substr(below(text.size()), below(60)));
            }
        }
        const Format& format =
            below(8) == 0 ? formats()[below(formats().size())] : *find_format(example.format);
        const ParserOptions options = {given, example.opening, below(2) ? "<|im_end|>" : ""};
        const Answer whole = read(format, options, text, 0, nullptr);
        const size_t cut = below(8) == 0 ? std::string::npos : below(text.size() + 1);
        const Answer other = read(format, options, text, cut, nullptr);
        ASSERT_TRUE(whole == other) << format.name << " cut " << cut << " text " << text << "\n"
                                    << shown(whole) << "\n"
                                    << shown(other);
        ASSERT_LE(whole.content.size() + whole.reasoning.size(), text.size() + 64);
        for (const ToolCall& call : whole.calls) {
            ASSERT_FALSE(call.name.empty());
            const auto arguments = jinja::parse_json(call.arguments);
            ASSERT_TRUE(arguments && arguments->is_dict())
                << format.name << ": " << call.arguments << " of " << text;
        }
    }
}

// Time is linear in the length of the answer: repeated tags, open brackets, unclosed calls.
TEST(OutputParser, long_answers) {
    for (const Format& format : formats()) {
        std::vector<std::string> units = {"<", "{", "word ", " "};
        for (const CallTags& tags : format.calls) {
            units.emplace_back(tags.begin);
            units.emplace_back(std::string(tags.begin) + "{");
            units.emplace_back(std::string(tags.begin) + std::string(tags.end));
            units.emplace_back(std::string(tags.end) + "[");
        }
        for (const std::string& unit : units) {
            std::string text(format.calls.empty() ? std::string_view() : format.calls[0].begin);
            while (text.size() < 200000) text += unit;
            (void)read(format, {tools(), "", ""}, text, 1000, nullptr);
        }
    }
}

// For every template of the collection that prints calls, parsing the printed assistant turn gives the turn
// back.
TEST(OutputParser, templates_there_and_back) {
    TSR_NEED_SHARED("golden/templates");
    size_t n_read = 0;
    std::set<std::string_view> formats_seen;
    std::string wrong;
    for (const auto& path : test::golden_templates()) {
        const Value suite = read_json("golden/templates/" + path.filename().string());
        const std::string source =
            test::read_file(test::shared("data/templates/" + suite.find("template")->as_text()));
        const auto text = [&](const char* name) { return std::string(text_member(suite, name)); };
        const auto loaded = ChatTemplate::load_strictly(source, {text("bos_token"), text("eos_token")});
        ASSERT_TRUE(loaded.has_value()) << path;
        // Two templates write calls in formats without a parser.
        const std::string name = path.stem().string();
        if (name.find("Solar") != std::string::npos || name.find("functionary") != std::string::npos)
            continue;
        if (!loaded->abilities().tool_calls) continue;
        const auto dialogue = parse_dialogue(R"({"messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "function": {"name": "get_weather",
                "arguments": {"days": 2, "location": "Paris, \"Île\" de France"}}}]}],
            "tools": [{"type": "function", "function": {"name": "get_weather", "description": "d", "parameters":
                {"type": "object", "properties": {"days": {"type": "integer", "description": "n"},
                 "location": {"type": "string", "description": "w"}}, "required": ["location"]}}}],
            "add_generation_prompt": false})");
        ASSERT_TRUE(dialogue.has_value());
        Dialogue before = *dialogue;
        before.messages = Value::list({dialogue->messages.items()[0]});
        before.add_generation_prompt = true;
        const auto question = loaded->render(before);
        const auto answered = loaded->render(*dialogue);
        if (!question || !answered) continue;
        // The text that the model would have written: the prompt after the part that both prompts share, from
        // the begin of a tag on.
        size_t shared = 0;
        while (shared < std::min(question->text.size(), answered->text.size()) &&
               question->text[shared] == answered->text[shared])
            shared++;
        const auto ends_tag = [&](size_t at) {
            return std::string_view("\n>]").find(question->text[at - 1]) != std::string_view::npos;
        };
        while (shared > 0 && shared < question->text.size() && !ends_tag(shared)) shared--;
        const size_t opening = question->text.size() - question->opening.size();
        const Format& format = choose_format(loaded->source());
        const auto parser = OutputParser::make(
            format, {dialogue->tools, question->text.substr(opening, shared - std::min(shared, opening)),
                     loaded->turn_end()});
        parser->push(std::string_view(answered->text).substr(shared));
        parser->finish();
        const Answer& answer = parser->answer();
        const bool right =
            answer.calls.size() == 1 && answer.calls[0].name == "get_weather" &&
            answer.calls[0].arguments == R"({"days": 2, "location": "Paris, \"Île\" de France"})";
        if (right) {
            n_read++;
            formats_seen.insert(format.name);
        } else {
            wrong += path.stem().string() + " (" + std::string(format.name) + "): " + shown(answer) +
                     "\n   from " + answered->text.substr(shared) + "\n";
        }
    }
    EXPECT_GE(n_read, 25u) << wrong;
    EXPECT_GE(formats_seen.size(), 12u);
    EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace tessera::chat
