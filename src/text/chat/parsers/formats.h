#pragma once
// The formats of answers, as data: which tags open reasoning and calls, and how calls are written inside.
#include <span>
#include <string_view>
#include <vector>

#include "src/text/chat/parsers/bodies.h"

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

/// How calls in JSON are written, for grammars that hold a model to it.
struct CallForm {
    /// What begins a call; empty: the answer is the call. Of several forms the template's is the one whose
    /// trigger it holds.
    std::string_view trigger;
    std::string_view before, after;        ///< around the JSON, `before` following the trigger
    std::string_view list_separator = {};  ///< further calls stand inside before and after
    std::string_view name_key = "name", arguments_key = "arguments";
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
    std::vector<CallForm> written = {};  ///< none where calls are no JSON that names the function
};

/// In the order of choosing; the last one fits every template.
std::span<const Format> formats();
/// Null if there is none of this name.
const Format* find_format(std::string_view name);
/// The format that a model with this template answers in. `knows_tools`: Abilities::tools; where the template
/// knows none, the prompt asks for calls in a form of its own (adapt.h), which the last row reads.
const Format& choose_format(std::string_view template_source, bool knows_tools = true);

}  // namespace tessera::chat
