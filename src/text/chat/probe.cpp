// Detects abilities by rendering small dialogues with unique words and searching them in the prompt. Runs
// once when a template is loaded: some twenty renders of a few lines.
#include "src/text/chat/probe.h"

#include "src/text/jinja/json.h"

namespace tessera::chat {

namespace {

constexpr std::string_view kUser = "qwordzuser", kSystem = "qwordzsys", kAnswer = "qwordzans",
                           kTool = "qwordztool", kKey = "qwordzkey", kArgument = "qwordzarg",
                           kResult = "qwordzres";

Value text_of(std::string_view text) { return Value::text(std::string(text)); }

Value message(const char* role, Value content) {
    return Value::dict_of({{"role", Value::text(role)}, {"content", std::move(content)}});
}

Value text_message(const char* role, std::string_view text) { return message(role, text_of(text)); }

Value text_part(std::string_view text) {
    return Value::list({Value::dict_of({{"type", Value::text("text")}, {"text", text_of(text)}})});
}

Value tools() {
    const std::string json =
        "[{\"type\": \"function\", \"function\": {\"name\": \"" + std::string(kTool) +
        "\", \"description\": \"d\", \"parameters\": {\"type\": \"object\", \"properties\": {\"" +
        std::string(kKey) + "\": {\"type\": \"string\", \"description\": \"k\"}}, \"required\": []}}}]";
    return jinja::parse_json(json).value_or(Value::none());
}

Value call_message(const Prober::CallShape& form) {
    const Value object = Value::dict_of({{std::string(kKey), text_of(kArgument)}});
    const Value arguments =
        form.object_arguments ? object : Value::text(jinja::dump_json(object).value_or(std::string()));
    const Value function = Value::dict_of({{"name", text_of(kTool)}, {"arguments", arguments}});
    const Value call = Value::dict_of({{"id", Value::text(form.short_ids ? "call00001" : "call_0123456789")},
                                       {"type", Value::text("function")},
                                       {"function", function}});
    return with_member(message("assistant", form.null_content ? Value::none() : Value::text("")),
                       "tool_calls", Value::list({call}));
}

bool contains(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

}  // namespace

std::optional<std::string> Prober::render(std::vector<Value> messages, bool with_tools, bool opens) const {
    Dialogue dialogue;
    dialogue.messages = Value::list(std::move(messages));
    dialogue.add_generation_prompt = opens;
    if (with_tools) dialogue.tools = tools();
    if (!with_tools && abilities_.no_tools_as_list) dialogue.tools = Value::list({});
    return render(dialogue);
}

std::optional<std::string> Prober::render(const Dialogue& dialogue) const {
    auto text = template_.run(dialogue);
    return text ? std::optional(std::move(*text)) : std::nullopt;
}

Value Prober::user() const { return message("user", abilities_.text ? text_of(kUser) : text_part(kUser)); }

void Prober::absent_tools() {
    const auto renders = [&] {
        return render({text_message("user", kUser)}, false, true) ||
               render({message("user", text_part(kUser))}, false, true);
    };
    if (renders()) return;
    abilities_.no_tools_as_list = true;
    abilities_.no_tools_as_list = renders();
}

void Prober::content_forms() {
    const auto as_text = render({text_message("user", kUser)}, false, true);
    const auto as_parts = render({message("user", text_part(kUser))}, false, true);
    abilities_.text = as_text && contains(*as_text, kUser);
    // A template that prints the list itself does not support parts.
    abilities_.parts = as_parts && contains(*as_parts, kUser) && !contains(*as_parts, "'text'") &&
                       !contains(*as_parts, "\"text\"");
    if (!abilities_.text && !abilities_.parts) abilities_.text = true;
}

void Prober::system() {
    const Value content = abilities_.text ? text_of(kSystem) : text_part(kSystem);
    const auto text = render({message("system", content), user()}, false, true);
    abilities_.system = text && contains(*text, kSystem);
}

void Prober::tools_and_calls() {
    const auto with_tools = render({user()}, true, true);
    abilities_.tools = with_tools && contains(*with_tools, kTool);

    // Takes the first form that is printed correctly: arguments neither as a Python repr nor quoted twice.
    for (const bool object : {true, false})
        for (const bool null_content : {false, true})
            for (const bool short_ids : {false, true}) {
                const CallShape form{object, null_content, short_ids};
                const auto text =
                    render({user(), call_message(form), result(form), text_message("assistant", kAnswer)},
                           abilities_.tools, false);
                if (!text || !contains(*text, kTool) || !contains(*text, kArgument)) continue;
                if (contains(*text, "'" + std::string(kKey) + "'") ||
                    contains(*text, "\\\"" + std::string(kKey)))
                    continue;
                abilities_.tool_calls = true;
                abilities_.tool_results = contains(*text, kResult);
                abilities_.object_arguments = object;
                abilities_.null_content = null_content;
                abilities_.short_ids = short_ids;
                return;
            }
}

Value Prober::result(const CallShape& form) {
    const Value content = Value::text(std::string(kResult));
    Value out = message("tool", content);
    out = with_member(out, "name", text_of(kTool));
    return with_member(out, "tool_call_id", Value::text(form.short_ids ? "call00001" : "call_0123456789"));
}

void Prober::thinking() {
    Dialogue dialogue;
    dialogue.messages = Value::list({user()});
    dialogue.enable_thinking = true;
    const auto on = render(dialogue);
    dialogue.enable_thinking = false;
    const auto off = render(dialogue);
    abilities_.thinking = on && off && *on != *off;
}

std::string Prober::turn_end() const {
    const auto text = render({user(), text_message("assistant", kAnswer), user()}, false, false);
    if (!text) return {};
    const size_t answer = text->find(kAnswer);
    if (answer == std::string::npos) return {};
    // The marker after the answer, in one of the usual kinds of brackets.
    std::string_view rest = std::string_view(*text).substr(answer + kAnswer.size());
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\n')) rest.remove_prefix(1);
    if (rest.empty()) return {};
    const std::string_view close = rest[0] == '<' ? ">" : rest[0] == '[' ? "]" : "";
    const size_t end = close.empty() ? std::string_view::npos : rest.find(close);
    if (end == std::string_view::npos || end > 64 || rest.substr(0, end).find('\n') != std::string_view::npos)
        return {};
    return std::string(rest.substr(0, end + 1));
}

}  // namespace tessera::chat
