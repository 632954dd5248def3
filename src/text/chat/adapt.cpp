// One step for each ability that a template may lack. The order matters: calls and results become text before
// the content of all messages is converted.
#include "src/text/chat/adapt.h"

#include <functional>

#include "common/strings.h"
#include "src/text/jinja/json.h"

namespace tessera::chat {

namespace {

using jinja::Kind;

constexpr const char* kToolsHead =
    "You may call functions to help with the request. The functions, one a line:\n<tools>\n";
constexpr const char* kToolsTail =
    "</tools>\nTo call one, answer with its name and arguments as JSON between these tags, once for each "
    "call:\n"
    "<tool_call>\n{\"name\": \"the name\", \"arguments\": {\"name of an argument\": "
    "\"value\"}}\n</tool_call>";

std::string json_of(const Value& value) { return jinja::dump_json(value).value_or(std::string("null")); }

// Puts text in front of a content in either form.
Value with_text_before(const Value& content, const std::string& text) {
    if (content.is_text()) return Value::text(text + content.as_text());
    Value::Items parts = {Value::dict_of({{"type", Value::text("text")}, {"text", Value::text(text)}})};
    if (content.is_sequence()) parts.insert(parts.end(), content.items().begin(), content.items().end());
    return Value::list(std::move(parts));
}

const Value& content_of(const Value& message) {
    static const Value none = Value::none();
    const Value* content = message.find("content");
    return content ? *content : none;
}

Value message_of(const char* role, std::string text) {
    return Value::dict_of({{"role", Value::text(role)}, {"content", Value::text(std::move(text))}});
}

bool has_role(const Value& message, std::string_view role) { return text_member(message, "role") == role; }
bool is_system(const Value& message) { return has_role(message, "system") || has_role(message, "developer"); }

// Describes the tools in the system message.
void describe_tools(Value::Items& messages, const Value& tools) {
    std::string text = kToolsHead;
    for (const Value& tool : tools.items()) text += json_of(tool) + "\n";
    text += kToolsTail;
    if (!messages.empty() && is_system(messages[0])) {
        messages[0] =
            with_member(messages[0], "content", with_text_before(content_of(messages[0]), text + "\n\n"));
    } else {
        messages.insert(messages.begin(), message_of("system", std::move(text)));
    }
}

Value calls_as_text(const Value& message) {
    const Value* calls = message.find("tool_calls");
    if (!calls) return message;
    std::string text = plain_text(content_of(message));
    for (const Value& call : calls->items()) {
        const Value* function = call.find("function");
        if (!function) continue;
        const Value* arguments = function->find("arguments");
        const std::string shown = !arguments             ? "{}"
                                  : arguments->is_text() ? arguments->as_text()
                                                         : json_of(*arguments);
        if (!text.empty()) text += "\n";
        text +=
            "<tool_call>\n{\"name\": " + json_of(Value::text(std::string(text_member(*function, "name")))) +
            ", \"arguments\": " + shown + "}\n</tool_call>";
    }
    return with_member(without_member(message, "tool_calls"), "content", Value::text(std::move(text)));
}

Value result_as_text(const Value& message) {
    if (!has_role(message, "tool")) return message;
    return message_of("user", "<tool_response>\n" + plain_text(content_of(message)) + "\n</tool_response>");
}

// Nine letters and digits as a hash of an id.
std::string short_id(std::string_view id) {
    static constexpr std::string_view kLetters =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const bool fits = id.size() == 9 && id.find_first_not_of(kLetters) == std::string_view::npos;
    if (fits) return std::string(id);
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    std::string out;
    for (int i = 0; i < 9; i++, hash /= kLetters.size()) out += kLetters[hash % kLetters.size()];
    return out;
}

using CallChange = std::function<Value(const Value& call, size_t number)>;

Value with_calls(const Value& message, const CallChange& change) {
    const Value* calls = message.find("tool_calls");
    if (!calls) return message;
    Value::Items changed;
    for (size_t i = 0; i < calls->items().size(); i++) changed.push_back(change(calls->items()[i], i));
    return with_member(message, "tool_calls", Value::list(std::move(changed)));
}

Value text_arguments(const Value& call, size_t) {
    const Value* function = call.find("function");
    const Value* arguments = function ? function->find("arguments") : nullptr;
    if (!arguments || arguments->is_text()) return call;
    return with_member(call, "function",
                       with_member(*function, "arguments", Value::text(json_of(*arguments))));
}

// Shortens the ids of calls and results; missing ones are numbered.
void shorten_ids(Value::Items& messages) {
    size_t n_calls = 0, n_results = 0;
    for (Value& message : messages) {
        message = with_calls(message, [&](const Value& call, size_t) {
            std::string id(text_member(call, "id"));
            if (id.empty()) id = "call" + std::to_string(n_calls);
            n_calls++;
            return with_member(call, "id", Value::text(short_id(id)));
        });
        if (!has_role(message, "tool")) continue;
        std::string id(text_member(message, "tool_call_id"));
        if (id.empty()) id = "call" + std::to_string(n_results);
        n_results++;
        message = with_member(message, "tool_call_id", Value::text(short_id(id)));
    }
}

// Moves the text of all system messages into the first user message.
void fold_system(Value::Items& messages) {
    std::string words;
    Value::Items rest;
    for (const Value& message : messages) {
        if (is_system(message)) {
            const std::string text = plain_text(content_of(message));
            if (!text.empty()) words += text + "\n\n";
        } else {
            rest.push_back(message);
        }
    }
    for (Value& message : rest) {
        if (!has_role(message, "user")) continue;
        message = with_member(message, "content", with_text_before(content_of(message), words));
        words.clear();
        break;
    }
    if (!words.empty()) rest.insert(rest.begin(), message_of("user", words.substr(0, words.size() - 2)));
    messages = std::move(rest);
}

Result<Value> shaped_content(const Value& message, const Abilities& abilities, size_t number) {
    const Value& content = content_of(message);
    if (content.is_sequence()) {
        if (abilities.parts) return message;
        for (const Value& part : content.items())
            if (const std::string_view type = text_member(part, "type"); type != "text")
                return fail(ErrorCode::Unsupported,
                            "messages[%zu].content: the template takes text only, found a part of type '%s'",
                            number, printable(type).c_str());
        return with_member(message, "content", Value::text(plain_text(content)));
    }
    if (abilities.text || !content.is_text()) return message;
    // Templates that want parts take them only from users and the system.
    if (!has_role(message, "user") && !is_system(message)) return message;
    return with_member(message, "content",
                       Value::list({Value::dict_of({{"type", Value::text("text")}, {"text", content}})}));
}

// Merges adjacent messages of the same role.
std::optional<Dialogue> merge_neighbours(const Dialogue& dialogue) {
    Dialogue out = dialogue;
    Value::Items merged;
    for (const Value& message : dialogue.messages.items()) {
        const bool joins = !merged.empty() && !message.find("tool_calls") &&
                           !merged.back().find("tool_calls") && !has_role(message, "tool") &&
                           text_member(message, "role") == text_member(merged.back(), "role") &&
                           content_of(message).is_text() && content_of(merged.back()).is_text();
        if (!joins) {
            merged.push_back(message);
            continue;
        }
        merged.back() =
            with_member(merged.back(), "content",
                        with_text_before(content_of(message), content_of(merged.back()).as_text() + "\n\n"));
    }
    if (merged.size() == dialogue.messages.items().size()) return std::nullopt;
    out.messages = Value::list(std::move(merged));
    return out;
}

// Takes the result of a call from the messages that follow it: by its id, else the first one left.
Value take_result(Value::Items& results, std::string_view id) {
    if (results.empty()) return {};
    size_t chosen = 0;
    for (size_t i = 0; i < results.size(); i++)
        if (!id.empty() && text_member(results[i], "tool_call_id") == id) chosen = i;
    Value result = results[chosen];
    results.erase(results.begin() + static_cast<ptrdiff_t>(chosen));
    return result;
}

// Splits several calls of one message into messages, each followed by its result.
std::optional<Dialogue> split_calls(const Dialogue& dialogue) {
    const Value::Items& messages = dialogue.messages.items();
    Dialogue out = dialogue;
    Value::Items split;
    bool changed = false;
    for (size_t i = 0; i < messages.size(); i++) {
        const Value* calls = messages[i].find("tool_calls");
        if (!calls || calls->items().size() < 2) {
            split.push_back(messages[i]);
            continue;
        }
        changed = true;
        Value::Items results;
        size_t next = i + 1;
        for (; next < messages.size() && has_role(messages[next], "tool"); next++)
            results.push_back(messages[next]);
        Value message = messages[i];
        for (const Value& call : calls->items()) {
            split.push_back(with_member(message, "tool_calls", Value::list({call})));
            if (const Value result = take_result(results, text_member(call, "id")); !result.is_undefined())
                split.push_back(result);
            message = without_member(with_member(message, "content", Value::text("")), "reasoning_content");
        }
        split.insert(split.end(), results.begin(), results.end());
        i = next - 1;
    }
    if (!changed) return std::nullopt;
    out.messages = Value::list(std::move(split));
    return out;
}

std::optional<Dialogue> list_no_tools(const Dialogue& dialogue) {
    if (!dialogue.tools.is_none()) return std::nullopt;
    Dialogue out = dialogue;
    out.tools = Value::list({});
    return out;
}

constexpr Repair kRepairs[] = {
    {merge_neighbours, "the template refuses consecutive messages of the same role: they are merged"},
    {split_calls, "the template refuses several calls in one message: they are split into messages"},
    {list_no_tools, "the template needs a list of tools: it gets an empty one"},
};

}  // namespace

Result<Dialogue> adapt(const Dialogue& dialogue, const Abilities& abilities,
                       std::vector<std::string>& notes) {
    Dialogue out = dialogue;
    Value::Items messages = dialogue.messages.items();
    if (!dialogue.tools.is_none() && !abilities.tools) {
        describe_tools(messages, dialogue.tools);
        out.tools = Value::none();
        notes.emplace_back("the template does not support tools: they are described in the system message");
    }
    if (out.tools.is_none() && abilities.no_tools_as_list) out.tools = Value::list({});
    for (Value& message : messages) {
        if (!abilities.tool_calls) message = calls_as_text(message);
        if (!abilities.tool_results) message = result_as_text(message);
        if (!abilities.object_arguments) message = with_calls(message, text_arguments);
        if (abilities.null_content && message.find("tool_calls") && plain_text(content_of(message)).empty())
            message = with_member(message, "content", Value::none());
    }
    if (abilities.short_ids) shorten_ids(messages);
    bool has_system = false;
    for (const Value& message : messages) has_system |= is_system(message);
    if (has_system && !abilities.system) {
        fold_system(messages);
        notes.emplace_back(
            "the template does not support system messages: the text is added to the first user message");
    }
    for (size_t i = 0; i < messages.size(); i++) {
        TSR_TRY(messages[i], shaped_content(messages[i], abilities, i));
    }
    out.messages = Value::list(std::move(messages));
    return out;
}

std::span<const Repair> repairs() { return kRepairs; }

}  // namespace tessera::chat
