#pragma once
// A dialogue as applications give it: messages in the form of the OpenAI API, tools, and what the template is
// told besides. Checked here once; what a template wants instead is adapt.h's business.
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
    /// parsing, `content` is text or a list of parts, and the `arguments` of calls are objects wherever they
    /// hold one.
    Value messages = Value::list({});
    Value tools = Value::none();      ///< none, or a list of {type: "function", function: {name, ...}}
    Value documents = Value::none();  ///< none, or a list
    Value kwargs = Value::dict({});   ///< further variables of the template
    /// Ends the prompt with the head of the assistant's turn.
    bool add_generation_prompt = true;
    /// The last message, the assistant's, is left open for the model to go on with. Excludes the above.
    bool continue_last = false;
    /// Where set, the template's switch for reasoning.
    std::optional<bool> enable_thinking;
    /// What the template takes for the present moment; unset: by its clock.
    std::optional<jinja::DateTime> now;
};

/// From JSON: a list of messages, or an object with `messages` and, of the names above, `tools`, `documents`,
/// `chat_template_kwargs`, `add_generation_prompt`, `continue_final_message`, `enable_thinking`; other
/// members are left alone, so that requests of the OpenAI API can be given whole. Errors name the place:
/// "messages[2].content: ...".
Result<Dialogue> parse_dialogue(std::string_view json);
Result<Dialogue> make_dialogue(const Value& value);

/// Checks one list of tools: OpenAI's form, or bare functions {name, ...}, which are wrapped.
Result<Value> check_tools(const Value& tools);

/// A dict with one member set; in place if there is one of this name.
Value with_member(const Value& dict, std::string_view name, Value value);
/// A dict without a member.
Value without_member(const Value& dict, std::string_view name);
/// Text of a member, empty where it is no text.
std::string_view text_member(const Value& dict, std::string_view name);
/// The text parts of a content, one after the other; text itself; nothing for none.
std::string plain_text(const Value& content);

}  // namespace tessera::chat
