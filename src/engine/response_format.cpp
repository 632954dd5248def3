// Converts a row of src/text/chat/parsers/formats.cpp to input of src/grammar/tools.cpp; neither folder
// depends on the other.
#include "src/engine/response_format.h"

#include <algorithm>

#include "common/strings.h"
#include "src/text/chat/dialogue.h"
#include "src/text/jinja/json.h"

namespace tessera::engine {

grammar::Reasoning reasoning_of(const ChatPrompt& prompt) {
    grammar::Reasoning out;
    for (const chat::TagPair& tags : prompt.reasoning) {
        const bool open = is_open(tags, prompt.prompt.opening);
        if (out.end.empty() || open) out = {std::string(tags.begin), std::string(tags.end), open};
    }
    return out;
}

ReasoningLimit reasoning_limit_of(const ChatPrompt& prompt, int64_t max_tokens) {
    // In this format the message ends, and the next message begins for the user.
    if (prompt.format->is_harmony)
        return {"<|channel|>analysis<|message|>", "<|end|>",
                "<|end|><|start|>assistant<|channel|>final<|message|>", false, max_tokens};
    const grammar::Reasoning marks = reasoning_of(prompt);
    if (marks.begin.empty() || marks.end.empty()) return {};
    return {marks.begin, marks.end, marks.end, marks.is_open, max_tokens};
}

Result<std::vector<grammar::ToolSpec>> tool_specs(const chat::Value& tools, std::string_view function) {
    std::vector<grammar::ToolSpec> out;
    for (const chat::Value& tool : tools.is_none() ? chat::Value::Items() : tools.items()) {
        const chat::Value* const inner = tool.find("function");
        if (!inner) continue;
        grammar::ToolSpec spec{.name = std::string(chat::text_member(*inner, "name")), .parameters = {}};
        if (!function.empty() && spec.name != function) continue;
        const chat::Value* const parameters = inner->find("parameters");
        if (parameters && !parameters->is_none()) {
            TSR_TRY(spec.parameters, jinja::dump_json(*parameters));
        }
        out.push_back(std::move(spec));
    }
    if (!out.empty()) return out;
    if (function.empty()) return fail(ErrorCode::InvalidArgument, "tools: expected at least one, found none");
    return fail(ErrorCode::InvalidArgument, "function: expected one of the tools, found '%s'",
                printable(function).c_str());
}

namespace {

grammar::ArgumentNotation notation_of(const chat::ArgumentForm& form) {
    using Text = grammar::ArgumentNotation::Text;
    grammar::ArgumentNotation out;
    out.key_begin = form.key_begin;
    out.key_end = form.key_end;
    out.value_end = form.value_end;
    out.separator = form.separator;
    out.text_key_end = form.text_key_end;
    out.text = form.text == chat::ArgumentForm::Text::Plain    ? Text::Plain
               : form.text == chat::ArgumentForm::Text::Marked ? Text::Marked
                                                               : Text::Json;
    out.quote = form.quote;
    out.not_in_text.assign(form.not_in_text.begin(), form.not_in_text.end());
    out.strips_lines = form.strips_lines;
    out.python_words = form.python_words;
    return out;
}

}  // namespace

Result<grammar::ToolGrammar> tool_calls_of(const ChatPrompt& prompt, const ToolCallOptions& options) {
    const chat::ToolCallFormat* const form = prompt.tool_call_format;
    if (!form)
        return fail(ErrorCode::Unsupported,
                    "tool calls: expected a model with a supported tool call format, found the format '%s'",
                    std::string(prompt.format->name).c_str());
    grammar::ToolGrammar out;
    TSR_TRY(out.tools, tool_specs(prompt.tools, options.function));
    if (!form->trigger.empty()) out.triggers.emplace_back(form->trigger);
    out.before = form->before;
    out.after = form->after;
    out.name_key = form->name_key;
    out.arguments_key = form->arguments_key;
    out.list_separator = form->list_separator;
    out.is_list = form->is_list;
    out.name_end = form->name_end;
    out.call_begin = form->call_begin;
    out.call_end = form->call_end;
    if (form->arguments) out.arguments = notation_of(*form->arguments);
    out.separator = form->separator;
    out.last = form->last;
    out.forbidden = form->forbidden;
    out.required = options.required;
    out.parallel = options.parallel;
    out.none = options.none;
    out.reasoning = reasoning_of(prompt);
    if (out.reasoning.end.empty() && !form->reasoning.end.empty())
        out.reasoning = {std::string(form->reasoning.begin), std::string(form->reasoning.end),
                         is_open(form->reasoning, prompt.prompt.opening)};
    return out;
}

}  // namespace tessera::engine
