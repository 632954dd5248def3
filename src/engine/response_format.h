#pragma once
// What an answer to a prompt can be held to: calls of the prompt's tools in the format of its model, and the
// reasoning that may stand in front of whatever else is asked for.
#include <string>
#include <string_view>
#include <vector>

#include "src/engine/chat.h"
#include "src/engine/reasoning.h"
#include "src/grammar/grammar.h"

namespace tessera::engine {

/// How the model of this prompt marks its reasoning; none where its template knows none.
grammar::Reasoning reasoning_of(const ChatPrompt& prompt);

/// At most so many tokens of it (0 or more); no limit where the model has no such marks.
ReasoningLimit reasoning_limit_of(const ChatPrompt& prompt, int64_t max_tokens);

struct ToolCallOptions {
    bool required = false;           ///< a call, with nothing but reasoning in front
    bool parallel = false;           ///< calls may follow the first
    bool none = false;               ///< no call, though the prompt has tools; wins over the others
    std::string_view function = {};  ///< the only one that may be called; empty: any
};

/// Everything but the layout of the JSON. Errors: no tools, or none of that name (InvalidArgument); a format
/// that has no row in src/text/chat/parsers/tool_call_formats.cpp (Unsupported).
Result<grammar::ToolGrammar> tool_calls_of(const ChatPrompt& prompt, const ToolCallOptions& options);

/// The tools of a checked list (read_tools) as a grammar wants them. Errors as above.
Result<std::vector<grammar::ToolSpec>> tool_specs(const chat::Value& tools, std::string_view function);

}  // namespace tessera::engine
