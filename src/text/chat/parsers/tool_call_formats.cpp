// The notations of calls, for grammars that constrain a model's calls. The parser of the same format
// (formats.cpp) accepts every text that these notations allow; the tests generate such texts at random. A new
// notation is a row here.
#include "src/text/chat/parsers/formats.h"

#include <utility>

namespace tessera::chat {

namespace {

const ToolCallFormat kHermesCall = {.trigger = "<tool_call>", .before = "\n", .after = "\n</tool_call>"};

/// [call, call] between two marks.
ToolCallFormat listed_calls(std::string_view trigger, std::string_view after,
                            std::string_view name_key = "name",
                            std::string_view arguments_key = "arguments") {
    return {trigger, "[", after, ", ", name_key, arguments_key};
}

/// <parameter=key>value</parameter>, from its parts.
ArgumentForm element_arguments(std::string_view key_begin, std::string_view key_end,
                               std::string_view value_end, std::string_view close_tag) {
    return {.key_begin = key_begin,
            .key_end = key_end,
            .value_end = value_end,
            .text = ArgumentForm::Text::Plain,
            .not_in_text = {close_tag},
            .strips_lines = !key_end.ends_with('\n')};
}

const ArgumentForm kCoderArguments =
    element_arguments("<parameter=", ">\n", "\n</parameter>\n", "</parameter>");
const ArgumentForm kSeedArguments = element_arguments("<parameter=", ">", "</parameter>\n", "</parameter>");
const ArgumentForm kInvokeArguments =
    element_arguments("<parameter name=\"", "\">", "</parameter>\n", "</parameter>");
const ArgumentForm kMiniCpmArguments = element_arguments("<param name=\"", "\">", "</param>", "</param>");
const ArgumentForm kDsmlArguments = [] {
    ArgumentForm out = element_arguments("<｜DSML｜parameter name=\"", "\" string=\"false\">",
                                         "</｜DSML｜parameter>\n", "</｜DSML｜parameter>");
    out.text_key_end = "\" string=\"true\">";
    return out;
}();
const ArgumentForm kPairArguments = {.key_begin = "<arg_key>",
                                     .key_end = "</arg_key>\n<arg_value>",
                                     .value_end = "</arg_value>\n",
                                     .text = ArgumentForm::Text::Plain,
                                     .not_in_text = {"</arg_value>", "<arg_key>"}};
const ArgumentForm kPythonArguments = {.key_end = "=", .separator = ", ", .python_words = true};
const ArgumentForm kGemmaArguments = {.key_end = ":",
                                      .separator = ",",
                                      .text = ArgumentForm::Text::Marked,
                                      .quote = "<|\"|>",
                                      .not_in_text = {"<|\"|>"}};

/// <function=name> ... </function> between two marks.
ToolCallFormat elements(std::string_view trigger, std::string_view after, const ArgumentForm& arguments) {
    return {.trigger = trigger,
            .before = "\n",
            .after = after,
            .name_end = ">\n",
            .call_begin = "<function=",
            .call_end = "</function>",
            .arguments = &arguments};
}

ToolCallFormat dsml(std::string_view trigger, std::string_view after) {
    return {.trigger = trigger,
            .before = "\n",
            .after = after,
            .list_separator = "\n",
            .name_end = "\">\n",
            .call_begin = "<｜DSML｜invoke name=\"",
            .call_end = "</｜DSML｜invoke>",
            .arguments = &kDsmlArguments};
}

const std::vector<ToolCallFormat> kHarmonyCalls = {
    {.trigger = "<|channel|>commentary to=functions.",
     .before = "",
     .after = "",
     .name_end = " <|constrain|>json<|message|>",
     .separator = "<|call|><|start|>assistant",
     .last = "<|call|>",
     .forbidden = "<|start|>assistant to=",
     .reasoning = {"<|channel|>analysis<|message|>", "<|end|><|start|>assistant"}}};

const std::vector<ToolCallFormat> kDeepSeekCalls = {
    {.trigger = "<｜tool▁calls▁begin｜>",
     .before = "",
     .after = "<｜tool▁calls▁end｜>",
     .list_separator = "\n",
     .mark = "```json",
     .name_end = "\n```json\n",
     .call_begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .call_end = "\n```<｜tool▁call▁end｜>"},
    {.trigger = "<｜tool▁calls▁begin｜>",
     .before = "",
     .after = "<｜tool▁calls▁end｜>",
     .name_end = "<｜tool▁sep｜>",
     .call_begin = "<｜tool▁call▁begin｜>",
     .call_end = "<｜tool▁call▁end｜>",
     .is_list = true}};

ToolCallFormat command_r_plus(std::string_view trigger) {
    return {.trigger = trigger,
            .before = "\n[",
            .after = "]\n```",
            .list_separator = ", ",
            .name_key = "tool_name",
            .arguments_key = "parameters"};
}

using FormatCalls = std::pair<std::string_view, std::vector<ToolCallFormat>>;

const std::vector<FormatCalls>& format_calls() {
    static const std::vector<FormatCalls> rows = {
        {"gpt-oss", kHarmonyCalls},
        {"gemma",
         {{.trigger = "<|tool_call>",
           .before = "",
           .after = "<tool_call|>",
           .name_end = "{",
           .call_begin = "call:",
           .call_end = "}",
           .arguments = &kGemmaArguments,
           .separator = ""}}},
        {"deepseek-dsml",
         {dsml("<｜DSML｜function_calls>", "\n</｜DSML｜function_calls>"),
          dsml("<｜DSML｜tool_calls>", "\n</｜DSML｜tool_calls>")}},
        {"deepseek", kDeepSeekCalls},
        {"command-r", {listed_calls("<|START_ACTION|>", "]<|END_ACTION|>", "tool_name", "parameters")}},
        {"command-r-plus",
         {command_r_plus("Action: ```json"), command_r_plus("Action:```json"),
          command_r_plus("Action:\n```json")}},
        {"mistral",
         {{.trigger = "[TOOL_CALLS]",
           .before = "",
           .after = "",
           .mark = "[ARGS]",
           .name_end = "[ARGS]",
           .separator = ""},
          listed_calls("[TOOL_CALLS]", "]")}},
        {"lfm2",
         {{.trigger = "<|tool_call_start|>",
           .before = "[",
           .after = "]<|tool_call_end|>",
           .list_separator = ", ",
           .name_end = "(",
           .call_end = ")",
           .arguments = &kPythonArguments}}},
        {"minimax",
         {{.trigger = "<minimax:tool_call>",
           .before = "\n",
           .after = "\n</minimax:tool_call>",
           .list_separator = "\n",
           .name_end = "\">\n",
           .call_begin = "<invoke name=\"",
           .call_end = "</invoke>",
           .arguments = &kInvokeArguments}}},
        {"seed", {elements("<seed:tool_call>", "\n</seed:tool_call>", kSeedArguments)}},
        {"glm",
         {{.trigger = "<tool_call>",
           .before = "",
           .after = "</tool_call>",
           .name_end = "\n",
           .arguments = &kPairArguments}}},
        {"minicpm",
         {{.trigger = "<function name=",
           .before = "\"",
           .after = "",
           .name_end = "\">",
           .call_end = "</function>",
           .arguments = &kMiniCpmArguments}}},
        {"qwen3-coder", {elements("<tool_call>", "\n</tool_call>", kCoderArguments)}},
        {"nemotron", {listed_calls("<TOOLCALL>", "]</TOOLCALL>")}},
        {"apriel", {listed_calls("<tool_calls>", "]</tool_calls>")}},
        {"apertus",
         {{.trigger = "<|tools_prefix|>",
           .before = "[",
           .after = "]<|tools_suffix|>",
           .list_separator = ", ",
           .name_end = "\": ",
           .call_begin = "{\"",
           .call_end = "}"}}},
        {"gigachat", {{"<|function_call|>", "", ""}}},
        {"firefunction", {listed_calls("functools", "]")}},
        {"phi4", {listed_calls("<|tool_call|>", "]<|/tool_call|>")}},
        {"granite", {listed_calls("<|tool_call|>", "]"), kHermesCall}},
        {"hermes", {kHermesCall}},
        {"llama3",
         {{.trigger = "",
           .before = "",
           .after = "",
           .arguments_key = "parameters",
           .forbidden = "<|python_tag|>"}}},
        {"plain", {kHermesCall}},
    };
    return rows;
}

}  // namespace

std::vector<ToolCallFormat> tool_call_formats(std::string_view format) {
    for (const FormatCalls& row : format_calls())
        if (row.first == format) return row.second;
    return {};
}

}  // namespace tessera::chat
