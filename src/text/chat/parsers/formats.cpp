// The table of formats for parsing answers; tool_call_formats.cpp has the notations for writing calls. More
// specific marks come first, since many templates contain "<tool_call>" as well. A new format is a row here,
// an example in the tests, and a function in tool_call_bodies.h if no existing one fits.
#include "src/text/chat/parsers/formats.h"

#include <algorithm>

namespace tessera::chat {

namespace {

const TagPair kThink = {"<think>", "</think>"};

std::vector<Format> with_calls(std::vector<Format> rows) {
    for (Format& row : rows) row.written = tool_call_formats(row.name);
    return rows;
}

const std::vector<Format>& table() {
    static const std::vector<Format> rows = with_calls({
        {.name = "gpt-oss", .marks = {"<|channel|>analysis", "<|channel|>commentary"}, .is_harmony = true},
        {.name = "gemma",
         .marks = {"<|tool_call>call:"},
         .reasoning = {{"<|channel>thought", "<channel|>"}},
         .calls = {{"<|tool_call>", "<tool_call|>", read_gemma_calls}},
         .dropped = {"<turn|>"}},
        {.name = "deepseek-dsml",
         .marks = {"DSML"},
         .reasoning = {kThink},
         .calls = {{"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", read_element_calls},
                   {"<｜DSML｜function_calls>", "</｜DSML｜function_calls>", read_element_calls}}},
        {.name = "deepseek",
         .marks = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
         .reasoning = {kThink},
         .calls = {{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", read_deepseek_calls}}},
        {.name = "command-r",
         .marks = {"<|START_ACTION|>"},
         .reasoning = {{"<|START_THINKING|>", "<|END_THINKING|>"}},
         .calls = {{"<|START_ACTION|>", "<|END_ACTION|>", read_json_calls}},
         .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
        {.name = "command-r-plus",
         .marks = {"Action:```json", "Action: ```json", "Action:\\n```json", "Action:\n```json"},
         .calls = {{"Action: ```json", "```", read_json_calls},
                   {"Action:```json", "```", read_json_calls},
                   {"Action:\n```json", "```", read_json_calls}}},
        {.name = "mistral",
         .marks = {"[TOOL_CALLS]"},
         .reasoning = {{"[THINK]", "[/THINK]"}, kThink},
         .calls = {{"[TOOL_CALLS]", "", read_named_calls}}},
        {.name = "lfm2",
         .marks = {"<|tool_call_start|>", "<|tool_list_start|>"},
         .reasoning = {kThink},
         .calls = {{"<|tool_call_start|>", "<|tool_call_end|>", read_python_calls}}},
        {.name = "minimax",
         .marks = {"<minimax:tool_call>"},
         .reasoning = {kThink},
         .calls = {{"<minimax:tool_call>", "</minimax:tool_call>", read_element_calls}}},
        {.name = "seed",
         .marks = {"<seed:tool_call>"},
         .reasoning = {{"<seed:think>", "</seed:think>"}},
         .calls = {{"<seed:tool_call>", "</seed:tool_call>", read_element_calls}}},
        {.name = "glm",
         .marks = {"<arg_key>"},
         .reasoning = {kThink},
         .calls = {{"<tool_call>", "</tool_call>", read_arg_pairs}}},
        {.name = "minicpm",
         .marks = {"<function name="},
         .reasoning = {kThink},
         .calls = {{"<function name=", "</function>", read_element_calls, true}}},
        {.name = "qwen3-coder",
         .marks = {"<function="},
         .reasoning = {kThink},
         .calls = {{"<tool_call>", "</tool_call>", read_element_calls},
                   {"<function=", "</function>", read_element_calls, true}}},
        {.name = "nemotron",
         .marks = {"<TOOLCALL>"},
         .reasoning = {kThink},
         .calls = {{"<TOOLCALL>", "</TOOLCALL>", read_json_calls}}},
        {.name = "apriel",
         .marks = {"<tool_calls>["},
         .reasoning = {kThink},
         .calls = {{"<tool_calls>", "</tool_calls>", read_json_calls}},
         .dropped = {"[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"}},
        {.name = "apertus",
         .marks = {"<|tools_prefix|>"},
         .reasoning = {{"<|inner_prefix|>", "<|inner_suffix|>"}},
         .calls = {{"<|tools_prefix|>", "<|tools_suffix|>", read_keyed_calls}}},
        {.name = "gigachat",
         .marks = {"<|function_call|>", "'function call'"},
         .calls = {{"<|function_call|>", "", read_json_calls},
                   {"function call<|role_sep|>", "", read_json_calls}}},
        {.name = "firefunction", .marks = {"functools["}, .calls = {{"functools", "", read_json_calls}}},
        {.name = "phi4",
         .marks = {"<|/tool_call|>", "<|tool|>"},
         .reasoning = {kThink},
         .calls = {{"<|tool_call|>", "<|/tool_call|>", read_json_calls}}},
        {.name = "granite",
         .marks = {"<|start_of_role|>"},
         .reasoning = {kThink},
         .calls = {{"<|tool_call|>", "", read_json_calls}, {"<tool_call>", "</tool_call>", read_json_calls}},
         .dropped = {"<response>", "</response>"}},
        {.name = "hermes",
         .marks = {"<tool_call>"},
         .reasoning = {kThink},
         .calls = {{"<tool_call>", "</tool_call>", read_json_calls}}},
        {.name = "llama3",
         .marks = {"<|python_tag|>", "<|start_header_id|>"},
         .reasoning = {kThink},
         .calls = {{"<|python_tag|>", "", read_python_tag}},
         .dropped = {"<|eom_id|>", "<|eot_id|>"},
         .bare_json = true},
        // The tags in the prompt's instructions if the template does not support tools (adapt.cpp).
        {.name = "plain",
         .marks = {""},
         .reasoning = {kThink, {"[THINK]", "[/THINK]"}},
         .calls = {{"<tool_call>", "</tool_call>", read_json_calls}}},
    });
    return rows;
}

}  // namespace

std::span<const Format> formats() { return table(); }

const Format* find_format(std::string_view name) {
    for (const Format& format : table())
        if (format.name == name) return &format;
    return nullptr;
}

const Format& choose_format(std::string_view template_source, bool knows_tools) {
    for (const Format& format : table())
        for (const std::string_view mark : format.marks)
            if (template_source.find(mark) != std::string_view::npos)
                return knows_tools || format.is_harmony ? format : table().back();
    return table().back();
}

}  // namespace tessera::chat
