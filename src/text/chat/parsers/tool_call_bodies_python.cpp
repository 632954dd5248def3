// Calls written as function calls: Python's, gemma's, and those after Llama's python tag.
#include "common/strings.h"
#include "src/text/chat/dialogue.h"
#include "src/text/chat/parsers/tool_call_bodies.h"
#include "src/text/jinja/json.h"

namespace tessera::chat {

namespace {

using Calls = std::vector<ToolCall>;

bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

std::string_view take_name(std::string_view& text) {
    size_t n = 0;
    while (n < text.size() && in_name(text[n])) n++;
    const std::string_view name = text.substr(0, n);
    text = trim(text.substr(n));
    return name;
}

bool take(std::string_view& text, char c) {
    if (!text.starts_with(c)) return false;
    text = trim(text.substr(1));
    return true;
}

std::optional<std::string> json_of(Value::Pairs pairs) {
    const auto json = jinja::dump_json(Value::dict(std::move(pairs)));
    return json ? std::optional(*json) : std::nullopt;
}

// name(key=value, ...)
std::optional<ToolCall> take_call(std::string_view& text) {
    const std::string_view name = take_name(text);
    if (name.empty() || !take(text, '(')) return std::nullopt;
    Value::Pairs arguments;
    while (!take(text, ')')) {
        if (!arguments.empty() && !take(text, ',')) return std::nullopt;
        if (!arguments.empty() && take(text, ')')) break;
        const std::string_view key = take_name(text);
        if (key.empty() || !take(text, '=')) return std::nullopt;
        std::optional<Value> value = read_literal(text);
        if (!value) return std::nullopt;
        text = trim(text);
        arguments.emplace_back(Value::text(std::string(key)), std::move(*value));
    }
    std::optional<std::string> json = json_of(std::move(arguments));
    if (!json) return std::nullopt;
    return ToolCall{"", std::string(name), std::move(*json)};
}

// The interpreter's name among the tools.
std::string interpreter_name(const Value& tools) {
    if (tools.is_sequence())
        for (const Value& tool : tools.items()) {
            const Value* function = tool.find("function");
            for (const char* name : {"code_interpreter", "ipython", "python"})
                if (function && text_member(*function, "name") == name) return name;
        }
    return "python";
}

}  // namespace

std::optional<Calls> read_python_calls(std::string_view body, const Value& tools) {
    std::string_view text = trim(body);
    if (std::optional<Calls> calls = read_json_calls(text, tools)) return calls;
    const bool listed = take(text, '[');
    Calls calls;
    for (;;) {
        std::optional<ToolCall> call = take_call(text);
        if (!call) return std::nullopt;
        calls.push_back(std::move(*call));
        if (!take(text, ',')) break;
    }
    if (listed && !take(text, ']')) return std::nullopt;
    if (!text.empty()) return std::nullopt;
    return calls;
}

std::optional<Calls> read_gemma_calls(std::string_view body, const Value&) {
    std::string_view text = trim(body);
    static constexpr std::string_view kCall = "call:";
    Calls calls;
    while (!text.empty()) {
        if (!text.starts_with(kCall)) return std::nullopt;
        text = trim(text.substr(kCall.size()));
        const std::string_view name = take_name(text);
        if (name.empty() || !text.starts_with('{')) return std::nullopt;
        const std::optional<Value> arguments = read_literal(text);
        if (!arguments || !arguments->is_dict()) return std::nullopt;
        const auto json = jinja::dump_json(*arguments);
        if (!json) return std::nullopt;
        calls.push_back({"", std::string(name), *json});
        text = trim(text);
    }
    if (calls.empty()) return std::nullopt;
    return calls;
}

std::optional<Calls> read_python_tag(std::string_view body, const Value& tools) {
    std::string_view text = trim(body);
    if (text.empty()) return std::nullopt;
    if (std::optional<Calls> calls = read_json_calls(text, tools)) return calls;
    std::string_view rest = text;
    static constexpr std::string_view kMethod = ".call";
    if (std::optional<ToolCall> call = take_call(rest);
        call && rest.empty() && call->name.size() > kMethod.size() && call->name.ends_with(kMethod)) {
        call->name.resize(call->name.size() - kMethod.size());
        return Calls{std::move(*call)};
    }
    std::optional<std::string> json = json_of({{Value::text("code"), Value::text(std::string(text))}});
    if (!json) return std::nullopt;
    return Calls{{"", interpreter_name(tools), std::move(*json)}};
}

}  // namespace tessera::chat
