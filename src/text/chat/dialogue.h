#pragma once
// A dialogue as applications give it: messages in the format of the OpenAI API, tools, and further inputs of
// the template. Checked here once; adapt.h converts it for a particular template.
#include <optional>
#include <string>
#include <string_view>

#include "common/expected.h"
#include "src/text/jinja/datetime.h"
#include "src/text/jinja/value.h"

namespace tessera::chat {

using jinja::Value;

/// Values as they come from JSON. A default one holds no messages.
struct Dialogue {
    /// A list of messages: {role, content, reasoning_content?, tool_calls?, tool_call_id?, name?, ...}. After
    /// parsing, `content` is text or a list of parts, and the `arguments` of calls are objects if they
    /// contain one.
    Value messages = Value::list({});
    Value tools = Value::none();      ///< none, or a list of {type: "function", function: {name, ...}}
    Value documents = Value::none();  ///< none, or a list
    Value kwargs = Value::dict({});   ///< further variables of the template
    /// Ends the prompt with the beginning of the assistant's turn.
    bool add_generation_prompt = true;
    /// The model continues the last message, which is the assistant's. Excludes add_generation_prompt.
    bool continue_last = false;
    /// The template's switch for reasoning, if set.
    std::optional<bool> enable_thinking;
    /// The current time for the template; unset: by its clock.
    std::optional<jinja::DateTime> now;
};

/// From JSON: a list of messages, or an object with `messages` and, of the names above, `tools`, `documents`,
/// `chat_template_kwargs`, `add_generation_prompt`, `continue_final_message`, `enable_thinking`; other
/// members are ignored, so that whole requests of the OpenAI API can be given. Errors name the place:
/// "messages[2].content: ...".
Result<Dialogue> parse_dialogue(std::string_view json);
/// The same members from JSON, with messages, tools and documents as they are: unchecked, and nothing filled
/// in or read from text. For ChatTemplate::render_raw.
Result<Dialogue> parse_raw_dialogue(std::string_view json);
Result<Dialogue> make_dialogue(const Value& value);

/// Checks one list of tools: OpenAI's form, or bare functions {name, ...}, which are wrapped.
Result<Value> check_tools(const Value& tools);

/// The dict with one member set, which replaces one of the same name in its place.
Value with_member(const Value& dict, std::string_view name, Value value);
/// A dict without a member.
Value without_member(const Value& dict, std::string_view name);
/// Text of a member; empty if it is not text.
std::string_view text_member(const Value& dict, std::string_view name);
/// The concatenated text parts of a content, or the text itself; empty for none.
std::string plain_text(const Value& content);

}  // namespace tessera::chat
