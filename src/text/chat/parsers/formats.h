#pragma once
// Tables of answer formats: the tags of reasoning and calls, and the notation of calls.
#include <span>
#include <string_view>
#include <vector>

#include "src/text/chat/parsers/tool_call_bodies.h"

namespace tessera::chat {

struct TagPair {
    std::string_view begin, end;
};

/// `end` empty: up to the next `begin` or the end of the answer.
struct CallTags {
    std::string_view begin, end;
    ReadBody read;
    bool keeps_begin = false;  ///< the text passed to `read` includes the opening and closing tags
};

/// Notation of a call's arguments if they are not a JSON object: a sequence of names and values. Values other
/// than text are JSON.
struct ArgumentForm {
    enum class Text {
        Json,   ///< a JSON string
        Plain,  ///< unquoted up to value_end; for arguments whose schema has the type "string"
        Marked  ///< unescaped between two `quote`s; names inside values are unquoted
    };
    std::string_view key_begin = {}, key_end = {}, value_end = {};
    std::string_view separator = {};     ///< between two arguments
    std::string_view text_key_end = {};  ///< replaces key_end in front of a plain text
    Text text = Text::Json;
    std::string_view quote = {};
    /// Strings that end a plain or marked text, and so cannot occur in it.
    std::vector<std::string_view> not_in_text = {};
    bool strips_lines = false;  ///< the parser removes a line feed at either end of a plain text
    bool python_words = false;  ///< True, False, None
};

/// The notation of calls, for grammars that constrain a model's calls.
struct ToolCallFormat {
    /// The string that begins a call; empty: the answer is the call.
    std::string_view trigger;
    std::string_view before, after;        ///< around the calls after one trigger; `before` follows it
    std::string_view list_separator = {};  ///< separator of calls between `before` and `after`
    std::string_view name_key = "name", arguments_key = "arguments";
    /// Selects among several notations the one whose mark the template contains; empty: the trigger.
    std::string_view mark = {};
    /// Not empty: a call is call_begin, the unquoted name, this, the arguments and call_end. Empty: a call is
    /// a JSON object with the keys name_key and arguments_key.
    std::string_view name_end = {};
    std::string_view call_begin = {}, call_end = {};
    const ArgumentForm* arguments = nullptr;  ///< null: a JSON object
    bool is_list = false;               ///< further calls between `before` and `after` without a separator
    std::string_view separator = "\n";  ///< between `after` and the next trigger
    std::string_view last = {};         ///< may follow the last call
    /// Begins calls in a notation that cannot be constrained, and is therefore excluded.
    std::string_view forbidden = {};
    TagPair reasoning = {};  ///< used if the format's row has none
};

struct Format {
    std::string_view name;
    /// A template whose source contains one of these uses this format; the first matching row is chosen.
    std::vector<std::string_view> marks;
    std::vector<TagPair> reasoning = {};
    std::vector<CallTags> calls = {};
    std::vector<std::string_view> dropped = {};  ///< tags without meaning, which are dropped
    /// If tools were given, an answer that begins with a bracket is parsed as JSON calls.
    bool bare_json = false;
    bool is_harmony = false;
    std::vector<ToolCallFormat> written = {};  ///< the notations of calls; the first if no mark is found
};

/// The notations of calls in the format of this name (tool_call_formats.cpp).
std::vector<ToolCallFormat> tool_call_formats(std::string_view format);

/// In order of precedence; the last one matches every template.
std::span<const Format> formats();
/// Null if there is none of this name.
const Format* find_format(std::string_view name);
/// The answer format of a model with this template. `knows_tools`: Abilities::tools; if the template does not
/// support tools, the prompt describes the notation of adapt.h, which the last row parses.
const Format& choose_format(std::string_view template_source, bool knows_tools = true);

}  // namespace tessera::chat
