// Calls with JSON arguments, whose name is outside or inside the JSON.
#include "common/strings.h"
#include "src/text/chat/dialogue.h"
#include "src/text/chat/parsers/tool_call_bodies.h"
#include "src/text/jinja/json.h"

namespace tessera::chat {

namespace {

using jinja::Kind;
using Calls = std::vector<ToolCall>;

// Removes "```json" and "```" around the text.
std::string_view without_fence(std::string_view text) {
    text = trim(text);
    if (!text.starts_with("```")) return text;
    const size_t line = text.find('\n');
    if (line == std::string_view::npos) return text;
    text.remove_prefix(line + 1);
    text = trim(text);
    if (text.ends_with("```")) text.remove_suffix(3);
    return trim(text);
}

const Value* first_of(const Value& object, std::initializer_list<const char*> names) {
    for (const char* name : names)
        if (const Value* value = object.find(name)) return value;
    return nullptr;
}

// Missing arguments are an empty object; text may contain the object.
std::optional<std::string> arguments_of(const Value* value) {
    if (!value || value->is_none()) return "{}";
    if (value->is_text()) return trim(value->as_text()).empty() ? "{}" : arguments_json(value->as_text());
    if (!value->is_dict()) return std::nullopt;
    const auto text = jinja::dump_json(*value);
    return text ? std::optional(*text) : std::nullopt;
}

std::optional<ToolCall> call_of(const Value& object) {
    if (!object.is_dict()) return std::nullopt;
    const Value* inner = object.find("function");
    if (inner && inner->is_dict()) {
        std::optional<ToolCall> call = call_of(*inner);
        if (call && call->id.empty()) call->id = text_member(object, "id");
        return call;
    }
    const Value* name = first_of(object, {"name", "tool_name", "function"});
    if (!name || !name->is_text() || name->as_text().empty()) return std::nullopt;
    std::optional<std::string> arguments =
        arguments_of(first_of(object, {"arguments", "parameters", "args"}));
    if (!arguments) return std::nullopt;
    const Value* id = first_of(object, {"id", "tool_call_id", "call_id"});
    std::string id_text = id && id->is_text() ? id->as_text() : "";
    return ToolCall{std::move(id_text), name->as_text(), std::move(*arguments)};
}

// Appends the calls of one JSON value.
bool add_calls(Calls& calls, const Value& value) {
    if (!value.is(Kind::List)) {
        std::optional<ToolCall> call = call_of(value);
        if (call) calls.push_back(std::move(*call));
        return call.has_value();
    }
    for (const Value& item : value.items()) {
        std::optional<ToolCall> call = call_of(item);
        if (!call) return false;
        calls.push_back(std::move(*call));
    }
    return !value.items().empty();
}

// Length of the object or list at the front; npos if it is incomplete.
size_t json_length(std::string_view text) {
    size_t depth = 0;
    bool in_string = false;
    for (size_t at = 0; at < text.size(); at++) {
        const char c = text[at];
        if (in_string) {
            if (c == '\\') at++;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth <= 1) return at + 1;
            depth--;
        }
    }
    return std::string_view::npos;
}

bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= 256 &&
           text.find_first_of(" \n\t\"'<>[]{}()") == std::string_view::npos;
}

}  // namespace

std::optional<std::string> arguments_json(std::string_view text) {
    const auto value = jinja::parse_json(without_fence(text));
    if (!value || !value->is_dict()) return std::nullopt;
    const auto out = jinja::dump_json(*value);
    return out ? std::optional(*out) : std::nullopt;
}

std::optional<Calls> read_json_calls(std::string_view body, const Value&) {
    std::string_view text = without_fence(body);
    Calls calls;
    while (!text.empty()) {
        if (text[0] != '{' && text[0] != '[') return std::nullopt;
        const size_t length = json_length(text);
        if (length == std::string_view::npos) return std::nullopt;
        const auto value = jinja::parse_json(text.substr(0, length));
        if (!value || !add_calls(calls, *value)) return std::nullopt;
        text = trim(text.substr(length));
        while (!text.empty() && (text[0] == ';' || text[0] == ',')) text = trim(text.substr(1));
    }
    if (calls.empty()) return std::nullopt;
    return calls;
}

std::optional<Calls> read_keyed_calls(std::string_view body, const Value&) {
    const auto value = jinja::parse_json(without_fence(body));
    if (!value || !value->is(Kind::List) || value->items().empty()) return std::nullopt;
    Calls calls;
    for (const Value& item : value->items()) {
        if (!item.is_dict() || item.as_dict().pairs().size() != 1) return std::nullopt;
        const auto& [name, arguments] = item.as_dict().pairs()[0];
        std::optional<std::string> text = arguments_of(&arguments);
        if (!text || name.as_text().empty()) return std::nullopt;
        calls.push_back({"", name.as_text(), std::move(*text)});
    }
    return calls;
}

std::optional<Calls> read_named_calls(std::string_view body, const Value& tools) {
    const std::string_view text = trim(body);
    if (text.empty() || text[0] == '[' || text[0] == '{') return read_json_calls(text, tools);
    const size_t args = text.find("[ARGS]");
    const size_t name_end = args == std::string_view::npos ? text.find('{') : args;
    if (name_end == std::string_view::npos) return std::nullopt;
    std::string_view name = text.substr(0, name_end), id;
    if (const size_t mark = name.find("[CALL_ID]"); mark != std::string_view::npos) {
        id = trim(name.substr(mark + 9));
        name = name.substr(0, mark);
    }
    name = trim(name);
    if (!is_name(name)) return std::nullopt;
    const std::string_view arguments =
        trim(text.substr(args == std::string_view::npos ? name_end : args + 6));
    std::optional<std::string> json = arguments_json(arguments);
    if (!json) return std::nullopt;
    return Calls{{std::string(id), std::string(name), std::move(*json)}};
}

std::optional<Calls> read_deepseek_calls(std::string_view body, const Value&) {
    static constexpr std::string_view kBegin = "<｜tool▁call▁begin｜>", kEnd = "<｜tool▁call▁end｜>",
                                      kSeparator = "<｜tool▁sep｜>";
    Calls calls;
    std::string_view text = trim(body);
    while (!text.empty()) {
        if (text.starts_with(kBegin)) text.remove_prefix(kBegin.size());
        const size_t separator = text.find(kSeparator);
        if (separator == std::string_view::npos) return std::nullopt;
        std::string_view name = trim(text.substr(0, separator));
        text = trim(text.substr(separator + kSeparator.size()));
        // The older format has the word "function" first, and the name on a line of its own after the
        // separator.
        if (const size_t line = text.find('\n'); name == "function" && line != std::string_view::npos) {
            name = trim(text.substr(0, line));
            text = text.substr(line + 1);
        }
        if (!is_name(name)) return std::nullopt;
        // The end is searched after the object, since a text in it may contain the mark.
        const size_t open = text.find('{');
        const size_t length =
            open == std::string_view::npos ? std::string_view::npos : json_length(text.substr(open));
        const size_t end =
            length == std::string_view::npos ? std::string_view::npos : text.find(kEnd, open + length);
        std::optional<std::string> json =
            length == std::string_view::npos ? std::nullopt : arguments_json(text.substr(0, end));
        if (!json) return std::nullopt;
        text = end == std::string_view::npos ? std::string_view() : trim(text.substr(end + kEnd.size()));
        calls.push_back({"", std::string(name), std::move(*json)});
    }
    if (calls.empty()) return std::nullopt;
    return calls;
}

}  // namespace tessera::chat
