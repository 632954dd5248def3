#pragma once
// Parsers of the bodies of tool calls in the formats of many models, one function per format.
#include <optional>
#include <string_view>

#include "src/text/chat/parsers/answer.h"
#include "src/text/jinja/value.h"

namespace tessera::chat {

/// Returns nothing if the text is incomplete or not of this format; more text may complete it. `tools` (a
/// list in OpenAI's format, or none) gives the types of arguments that the text does not. Linear in the text
/// times the depth of its brackets.
using ReadBody = std::optional<std::vector<ToolCall>> (*)(std::string_view body, const jinja::Value& tools);

/// One JSON object or a list of them: {"name": ..., "arguments": {...}} with the usual other names for the
/// members; several in a row with white space, commas or semicolons between them; with a code fence around.
std::optional<std::vector<ToolCall>> read_json_calls(std::string_view body, const jinja::Value& tools);
/// [{"name of the function": {arguments}}, ...]
std::optional<std::vector<ToolCall>> read_keyed_calls(std::string_view body, const jinja::Value& tools);
/// name[ARGS]{...}, name[CALL_ID]id[ARGS]{...}, name{...}, or a JSON list.
std::optional<std::vector<ToolCall>> read_named_calls(std::string_view body, const jinja::Value& tools);
/// DeepSeek's begin, separator and end marks inside the block of calls.
std::optional<std::vector<ToolCall>> read_deepseek_calls(std::string_view body, const jinja::Value& tools);
/// <function=name><parameter=key>value</parameter></function>, <invoke name="...">, <function name="...">.
std::optional<std::vector<ToolCall>> read_element_calls(std::string_view body, const jinja::Value& tools);
/// name <arg_key>key</arg_key><arg_value>value</arg_value> ...
std::optional<std::vector<ToolCall>> read_arg_pairs(std::string_view body, const jinja::Value& tools);
/// [name(key="value", ...), ...] as in Python, or JSON.
std::optional<std::vector<ToolCall>> read_python_calls(std::string_view body, const jinja::Value& tools);
/// call:name{key:<|"|>text<|"|>,other:5}
std::optional<std::vector<ToolCall>> read_gemma_calls(std::string_view body, const jinja::Value& tools);
/// After Llama's python tag: JSON, name.call(key="value"), or code for the interpreter.
std::optional<std::vector<ToolCall>> read_python_tag(std::string_view body, const jinja::Value& tools);

/// Parses a value of Python or JSON at the front of the text and removes it; also gemma's <|"|> strings and
/// unquoted keys. Nothing if there is none, or if brackets nest too deep.
std::optional<jinja::Value> read_literal(std::string_view& text);

/// The text's JSON object, normalized, without a code fence around it; nothing if it is not an object.
std::optional<std::string> arguments_json(std::string_view text);

}  // namespace tessera::chat
