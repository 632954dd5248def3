// Calls whose arguments are text between tags. The tool's schema gives their types; without one, text that
// parses as JSON or as a Python literal other than a string is converted.
#include <algorithm>

#include "common/strings.h"
#include "src/text/chat/dialogue.h"
#include "src/text/chat/parsers/tool_call_bodies.h"
#include "src/text/jinja/json.h"

namespace tessera::chat {

namespace {

using jinja::Kind;
using Calls = std::vector<ToolCall>;

// "string", "object", ...; "any" if the schema does not have a single type, empty without a schema.
std::string_view type_of(const Value& tools, std::string_view function, std::string_view parameter) {
    if (!tools.is_sequence()) return {};
    for (const Value& tool : tools.items()) {
        const Value* inner = tool.find("function");
        if (!inner || text_member(*inner, "name") != function) continue;
        const Value* parameters = inner->find("parameters");
        const Value* properties = parameters ? parameters->find("properties") : nullptr;
        const Value* property = properties ? properties->find(parameter) : nullptr;
        if (!property) return {};
        const Value* type = property->find("type");
        if (type && type->is(Kind::List) && type->items().size() == 1) type = &type->items()[0];
        return type && type->is_text() ? std::string_view(type->as_text()) : "any";
    }
    return {};
}

Value typed_value(std::string_view text, std::string_view type) {
    if (type == "string") return Value::text(std::string(text));
    const std::string_view trimmed = trim(text);
    std::string_view rest = trimmed;
    if (const auto json = jinja::parse_json(trimmed); json && (type != "" || !json->is_text())) return *json;
    if (const auto literal = read_literal(rest); literal && rest.empty() && !literal->is_text())
        return *literal;
    return Value::text(std::string(text));
}

// Removes one line feed on each side, which formats with values on separate lines add.
std::string_view without_line_ends(std::string_view text) {
    if (text.starts_with('\n')) text.remove_prefix(1);
    if (text.ends_with('\n')) text.remove_suffix(1);
    return text;
}

std::optional<ToolCall> finished(std::string_view name, std::optional<std::string> arguments) {
    name = trim(name);
    if (name.empty() || name.size() > 256 || name.find_first_of(" \n\t\"'<>{}") != std::string_view::npos)
        return std::nullopt;
    if (!arguments) return std::nullopt;
    return ToolCall{"", std::string(name), std::move(*arguments)};
}

std::optional<std::string> typed_json_of(Value::Pairs arguments) {
    const auto json = jinja::dump_json(Value::dict(std::move(arguments)));
    return json ? std::optional(*json) : std::nullopt;
}

struct Element {
    std::string prefix;  // before the word, as in DeepSeek's
    std::string_view word, name;
    std::string_view type;  // the type in the tag
};

constexpr std::string_view kDsml = "｜DSML｜";

// Parses <word=name> or <word name="name" ...> and removes it from the text.
std::optional<Element> open_tag(std::string_view& text, std::initializer_list<std::string_view> words) {
    std::string_view rest = text;
    if (!rest.starts_with('<')) return std::nullopt;
    rest.remove_prefix(1);
    Element element;
    if (rest.starts_with(kDsml)) {
        element.prefix = kDsml;
        rest.remove_prefix(kDsml.size());
    }
    for (const std::string_view word : words)
        if (rest.starts_with(word)) element.word = word;
    if (element.word.empty()) return std::nullopt;
    rest.remove_prefix(element.word.size());
    const size_t end = rest.find('>');
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view inside = rest.substr(0, end);
    text = rest.substr(end + 1);
    if (inside.starts_with('=')) {
        element.name = trim(inside.substr(1));
        return element;
    }
    static constexpr std::string_view kName = " name=\"";
    const size_t begin = inside.find(kName);
    if (begin == std::string_view::npos) return std::nullopt;
    const size_t close = inside.find('"', begin + kName.size());
    if (close == std::string_view::npos) return std::nullopt;
    element.name = inside.substr(begin + kName.size(), close - begin - kName.size());
    if (inside.find(" string=\"true\"", close) != std::string_view::npos) element.type = "string";
    if (inside.find(" string=\"false\"", close) != std::string_view::npos) element.type = "json";
    return element;
}

std::string close_tag(const Element& element) {
    return "</" + element.prefix + std::string(element.word) + ">";
}

// The text up to the closing tag of a parameter, which must be followed by another tag, since a value may
// contain the closing tag.
std::optional<std::string_view> take_value(std::string_view& text, const std::string& close) {
    for (size_t at = text.find(close); at != std::string_view::npos;
         at = text.find(close, at + close.size())) {
        const std::string_view rest = trim(text.substr(at + close.size()));
        if (!rest.starts_with('<')) continue;
        const std::string_view value = text.substr(0, at);
        text = rest;
        return value;
    }
    return std::nullopt;
}

std::optional<ToolCall> take_function(std::string_view& text, const Value& tools) {
    const std::optional<Element> function = open_tag(text, {"function", "invoke"});
    if (!function) return std::nullopt;
    const std::string end = close_tag(*function);
    text = trim(text);
    Value::Pairs arguments;
    // Some models write JSON inside.
    if (text.starts_with('{')) {
        const size_t at = text.rfind(end);
        const std::optional<std::string> json =
            at == std::string_view::npos ? std::nullopt : arguments_json(text.substr(0, at));
        if (!json) return std::nullopt;
        text = trim(text.substr(at + end.size()));
        return finished(function->name, *json);
    }
    while (!text.starts_with(end)) {
        const std::optional<Element> parameter = open_tag(text, {"param", "parameter"});
        if (!parameter) return std::nullopt;
        const std::optional<std::string_view> value = take_value(text, close_tag(*parameter));
        if (!value) return std::nullopt;
        std::string_view type = parameter->type;
        if (type.empty()) type = type_of(tools, function->name, parameter->name);
        arguments.emplace_back(Value::text(std::string(parameter->name)),
                               typed_value(without_line_ends(*value), type));
    }
    text = trim(text.substr(end.size()));
    return finished(function->name, typed_json_of(std::move(arguments)));
}

}  // namespace

std::optional<Calls> read_element_calls(std::string_view body, const Value& tools) {
    Calls calls;
    std::string_view text = trim(body);
    while (!text.empty()) {
        std::optional<ToolCall> call = take_function(text, tools);
        if (!call) return std::nullopt;
        calls.push_back(std::move(*call));
    }
    if (calls.empty()) return std::nullopt;
    return calls;
}

std::optional<Calls> read_arg_pairs(std::string_view body, const Value& tools) {
    static constexpr std::string_view kKey = "<arg_key>", kKeyEnd = "</arg_key>", kValue = "<arg_value>",
                                      kValueEnd = "</arg_value>";
    std::string_view text = trim(body);
    const size_t name_end = std::min(text.find_first_of("\n<"), text.size());
    const std::string_view name = trim(text.substr(0, name_end));
    text = trim(text.substr(name_end));
    Value::Pairs arguments;
    while (!text.empty()) {
        if (!text.starts_with(kKey)) return std::nullopt;
        const size_t key_end = text.find(kKeyEnd);
        if (key_end == std::string_view::npos) return std::nullopt;
        const std::string_view key = trim(text.substr(kKey.size(), key_end - kKey.size()));
        text = trim(text.substr(key_end + kKeyEnd.size()));
        if (!text.starts_with(kValue)) return std::nullopt;
        text.remove_prefix(kValue.size());
        // The last closing tag before the next key, since a value may contain one.
        size_t next = text.find(kKey);
        size_t value_end = text.substr(0, next).rfind(kValueEnd);
        if (value_end == std::string_view::npos) return std::nullopt;
        const std::string_view value = text.substr(0, value_end);
        text = trim(text.substr(value_end + kValueEnd.size()));
        arguments.emplace_back(Value::text(std::string(key)), typed_value(value, type_of(tools, name, key)));
    }
    std::optional<ToolCall> call = finished(name, typed_json_of(std::move(arguments)));
    if (!call) return std::nullopt;
    return Calls{std::move(*call)};
}

}  // namespace tessera::chat
