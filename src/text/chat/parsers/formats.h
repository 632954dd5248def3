#pragma once
// The formats of answers, as data: which tags open reasoning and calls, and how calls are written inside.
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
    bool keeps_begin = false;  ///< the opening tag is part of what `read` gets, the closing one too
};

/// How the arguments of a call are written where they are no JSON object: one after the other, each a name
/// and a value. Values that are no text are JSON.
struct ArgumentForm {
    enum class Text {
        Json,   ///< a JSON string
        Plain,  ///< as it is, up to value_end: of arguments whose schema says `"type": "string"`
        Marked  ///< as it is, between two `quote`s; then names inside values are bare, too
    };
    std::string_view key_begin = {}, key_end = {}, value_end = {};
    std::string_view separator = {};     ///< between two arguments
    std::string_view text_key_end = {};  ///< instead of key_end in front of a plain text
    Text text = Text::Json;
    std::string_view quote = {};
    /// What ends a plain or marked text, and so cannot be in it.
    std::vector<std::string_view> not_in_text = {};
    bool strips_lines = false;  ///< the reader takes a line feed at either end of a plain text for layout
    bool python_words = false;  ///< True, False, None
};

/// How calls are written, for grammars that hold a model to it.
struct ToolCallFormat {
    /// What begins a call; empty: the answer is the call.
    std::string_view trigger;
    std::string_view before, after;  ///< around the calls that one trigger begins, `before` following it
    std::string_view list_separator = {};  ///< between calls inside before and after
    std::string_view name_key = "name", arguments_key = "arguments";
    /// Of several forms the template's is the one whose mark it holds; empty: the trigger.
    std::string_view mark = {};
    /// Not empty: the name stands as it is between call_begin and this, then the arguments and call_end. Else
    /// a call is a JSON object with name and arguments by their keys.
    std::string_view name_end = {};
    std::string_view call_begin = {}, call_end = {};
    const ArgumentForm* arguments = nullptr;  ///< null: a JSON object
    bool is_list = false;                     ///< further calls inside before and after, with no separator
    std::string_view separator = "\n";        ///< between `after` and the next trigger
    std::string_view last = {};               ///< may follow the last call
    /// Begins calls that are not held to anything, and so is not let through.
    std::string_view forbidden = {};
    TagPair reasoning = {};  ///< where the format's row has none
};

struct Format {
    std::string_view name;
    /// A template whose source holds one of these writes this format; the first row that fits counts.
    std::vector<std::string_view> marks;
    std::vector<TagPair> reasoning = {};
    std::vector<CallTags> calls = {};
    std::vector<std::string_view> dropped = {};  ///< tags that say nothing beyond their place
    /// An answer that begins with a bracket is calls in JSON, if tools were given.
    bool bare_json = false;
    bool is_harmony = false;
    std::vector<ToolCallFormat> written = {};  ///< the ways to write calls; the first where no mark tells
};

/// How the format of this name writes its calls (tool_call_formats.cpp).
std::vector<ToolCallFormat> tool_call_formats(std::string_view format);

/// In the order of choosing; the last one fits every template.
std::span<const Format> formats();
/// Null if there is none of this name.
const Format* find_format(std::string_view name);
/// The format that a model with this template answers in. `knows_tools`: Abilities::tools; where the template
/// knows none, the prompt asks for calls in a form of its own (adapt.h), which the last row reads.
const Format& choose_format(std::string_view template_source, bool knows_tools = true);

}  // namespace tessera::chat
