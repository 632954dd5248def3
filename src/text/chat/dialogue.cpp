// Parses and checks dialogues. Strict about types, since a template would print mistakes into the prompt;
// unknown members are kept.
#include "src/text/chat/dialogue.h"

#include "common/strings.h"
#include "src/text/jinja/json.h"

namespace tessera::chat {

namespace {

using jinja::Kind;

template <class... Args>
tl::unexpected<Error> bad(const std::string& place, const char* expected, const Value& found) {
    return fail(ErrorCode::InvalidArgument, "%s: expected %s, found %s", place.c_str(), expected,
                found.is_undefined() ? "nothing" : found.type_name());
}

Value member_or_undefined(const Value& dict, std::string_view name) {
    const Value* value = dict.find(name);
    return value ? *value : Value();
}

bool is_absent(const Value& value) { return value.is_undefined() || value.is_none(); }

Result<Value> check_content(const Value& content, const std::string& place) {
    if (is_absent(content)) return Value::text("");
    if (content.is_text()) return content;
    if (!content.is(Kind::List)) return bad(place, "text or a list of parts", content);
    for (size_t i = 0; i < content.items().size(); i++) {
        const Value& part = content.items()[i];
        const std::string where = place + "[" + std::to_string(i) + "]";
        if (!part.is_dict()) return bad(where, "a part such as {\"type\": \"text\", \"text\": ...}", part);
        const std::string_view type = text_member(part, "type");
        if (type.empty()) return bad(where + ".type", "a text", member_or_undefined(part, "type"));
        const Value text = member_or_undefined(part, "text");
        if (type == "text" && !text.is_text()) return bad(where + ".text", "a text", text);
    }
    return content;
}

// The arguments of a call: an object, or text that contains one. Other text is kept, since a model may have
// written it.
Value object_arguments(const Value& arguments) {
    if (!arguments.is_text()) return arguments;
    const Result<Value> parsed = jinja::parse_json(arguments.as_text());
    return parsed && parsed->is_dict() ? *parsed : arguments;
}

Result<Value> check_call(const Value& call, const std::string& place) {
    if (!call.is_dict()) return bad(place, "an object", call);
    Value function = member_or_undefined(call, "function");
    const bool bare = function.is_undefined() && call.find("name");
    if (bare) function = without_member(without_member(call, "id"), "type");
    if (!function.is_dict()) return bad(place + ".function", "an object", function);
    if (text_member(function, "name").empty())
        return bad(place + ".function.name", "a text", member_or_undefined(function, "name"));
    Value arguments = member_or_undefined(function, "arguments");
    if (is_absent(arguments)) arguments = Value::dict({});
    if (!arguments.is_text() && !arguments.is_dict())
        return bad(place + ".function.arguments", "an object or its JSON text", arguments);
    function = with_member(function, "arguments", object_arguments(arguments));
    Value out = bare ? Value::dict({}) : call;
    if (const Value* id = bare ? call.find("id") : nullptr) out = with_member(out, "id", *id);
    if (const Value* id = out.find("id"); id && !id->is_text() && !id->is_none())
        return bad(place + ".id", "a text", *id);
    out = with_member(out, "type", Value::text("function"));
    return with_member(out, "function", std::move(function));
}

Result<Value> check_message(const Value& message, const std::string& place) {
    if (!message.is_dict()) return bad(place, "a message such as {\"role\": ..., \"content\": ...}", message);
    if (text_member(message, "role").empty())
        return bad(place + ".role", "a text", member_or_undefined(message, "role"));
    TSR_TRY(Value content, check_content(member_or_undefined(message, "content"), place + ".content"));
    Value out = with_member(message, "content", std::move(content));

    Value reasoning = member_or_undefined(message, "reasoning_content");
    if (is_absent(reasoning)) reasoning = member_or_undefined(message, "reasoning");
    if (!is_absent(reasoning)) {
        if (!reasoning.is_text()) return bad(place + ".reasoning_content", "a text", reasoning);
        out = with_member(without_member(out, "reasoning"), "reasoning_content", reasoning);
    } else {
        out = without_member(without_member(out, "reasoning"), "reasoning_content");
    }

    const Value calls = member_or_undefined(message, "tool_calls");
    out = without_member(out, "tool_calls");
    if (is_absent(calls)) return out;
    if (!calls.is(Kind::List)) return bad(place + ".tool_calls", "a list", calls);
    Value::Items checked;
    for (size_t i = 0; i < calls.items().size(); i++) {
        TSR_TRY(Value call, check_call(calls.items()[i], place + ".tool_calls[" + std::to_string(i) + "]"));
        checked.push_back(std::move(call));
    }
    if (checked.empty()) return out;
    return with_member(out, "tool_calls", Value::list(std::move(checked)));
}

Result<bool> flag_of(const Value& value, const char* name, bool preset) {
    const Value flag = member_or_undefined(value, name);
    if (is_absent(flag)) return preset;
    if (!flag.is(Kind::Bool)) return bad(name, "true or false", flag);
    return flag.as_bool();
}

// The members of a request that are neither messages, tools nor documents.
Result<void> read_switches(const Value& value, Dialogue& dialogue) {
    const Value kwargs = member_or_undefined(value, "chat_template_kwargs");
    if (!is_absent(kwargs)) {
        if (!kwargs.is_dict()) return bad("chat_template_kwargs", "an object", kwargs);
        dialogue.kwargs = kwargs;
    }
    TSR_TRY(dialogue.continue_last, flag_of(value, "continue_final_message", false));
    TSR_TRY(dialogue.add_generation_prompt, flag_of(value, "add_generation_prompt", !dialogue.continue_last));
    if (dialogue.continue_last && dialogue.add_generation_prompt)
        return fail(ErrorCode::InvalidArgument,
                    "expected at most one of add_generation_prompt and continue_final_message, found both");
    if (!is_absent(member_or_undefined(value, "enable_thinking"))) {
        TSR_TRY(dialogue.enable_thinking, flag_of(value, "enable_thinking", false));
    }
    return {};
}

}  // namespace

Value with_member(const Value& dict, std::string_view name, Value value) {
    Value::Pairs pairs = dict.as_dict().pairs();
    pairs.emplace_back(Value::text(std::string(name)), std::move(value));
    return Value::dict(std::move(pairs));
}

Value without_member(const Value& dict, std::string_view name) {
    if (!dict.find(name)) return dict;
    Value::Pairs pairs;
    for (const auto& pair : dict.as_dict().pairs())
        if (!pair.first.is_text() || pair.first.as_text() != name) pairs.push_back(pair);
    return Value::dict(std::move(pairs));
}

std::string_view text_member(const Value& dict, std::string_view name) {
    const Value* value = dict.find(name);
    return value && value->is_text() ? std::string_view(value->as_text()) : std::string_view();
}

std::string plain_text(const Value& content) {
    if (content.is_text()) return content.as_text();
    std::string text;
    if (!content.is_sequence()) return text;
    for (const Value& part : content.items()) {
        if (text_member(part, "type") != "text") continue;
        text += text_member(part, "text");
    }
    return text;
}

Result<Value> check_tools(const Value& tools) {
    if (is_absent(tools)) return Value::none();
    if (!tools.is(Kind::List)) return bad("tools", "a list", tools);
    Value::Items checked;
    for (size_t i = 0; i < tools.items().size(); i++) {
        const Value& tool = tools.items()[i];
        const std::string place = "tools[" + std::to_string(i) + "]";
        if (!tool.is_dict()) return bad(place, "an object", tool);
        const Value function = member_or_undefined(tool, "function");
        const bool bare = function.is_undefined() && tool.find("name");
        const Value& inner = bare ? tool : function;
        if (!inner.is_dict()) return bad(place + ".function", "an object", inner);
        if (text_member(inner, "name").empty())
            return bad(place + ".function.name", "a text", member_or_undefined(inner, "name"));
        checked.push_back(bare ? Value::dict_of({{"type", Value::text("function")}, {"function", tool}})
                               : tool);
    }
    return checked.empty() ? Value::none() : Value::list(std::move(checked));
}

Result<Dialogue> make_dialogue(const Value& value) {
    Dialogue dialogue;
    const Value messages = value.is(Kind::List) ? value : member_or_undefined(value, "messages");
    if (!messages.is(Kind::List)) return bad("messages", "a list", messages);
    Value::Items checked;
    for (size_t i = 0; i < messages.items().size(); i++) {
        TSR_TRY(Value message, check_message(messages.items()[i], "messages[" + std::to_string(i) + "]"));
        checked.push_back(std::move(message));
    }
    if (checked.empty())
        return fail(ErrorCode::InvalidArgument, "messages: expected at least one message, found none");
    dialogue.messages = Value::list(std::move(checked));
    if (!value.is_dict()) return dialogue;

    TSR_TRY(dialogue.tools, check_tools(member_or_undefined(value, "tools")));
    const Value documents = member_or_undefined(value, "documents");
    if (!is_absent(documents)) {
        if (!documents.is(Kind::List)) return bad("documents", "a list", documents);
        dialogue.documents = documents;
    }
    TSR_TRY_VOID(read_switches(value, dialogue));
    return dialogue;
}

Result<Dialogue> parse_dialogue(std::string_view json) {
    TSR_TRY(const Value value, jinja::parse_json(json));
    return make_dialogue(value);
}

Result<Dialogue> parse_raw_dialogue(std::string_view json) {
    TSR_TRY(const Value value, jinja::parse_json(json));
    Dialogue dialogue;
    dialogue.messages = value.is(Kind::List) ? value : member_or_undefined(value, "messages");
    if (!dialogue.messages.is(Kind::List)) return bad("messages", "a list", dialogue.messages);
    if (!value.is_dict()) return dialogue;
    if (const Value* tools = value.find("tools")) dialogue.tools = *tools;
    if (const Value* documents = value.find("documents")) dialogue.documents = *documents;
    TSR_TRY_VOID(read_switches(value, dialogue));
    return dialogue;
}

}  // namespace tessera::chat
