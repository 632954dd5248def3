#pragma once
// Response formats that constrain an answer: calls of the prompt's tools in the format of the model, and
// optional reasoning in front of them or of other constrained output.
#include <string>
#include <string_view>
#include <vector>

#include "src/engine/chat.h"
#include "src/engine/reasoning.h"
#include "src/grammar/grammar.h"

namespace tessera::engine {

/// The reasoning tags of the prompt's template; none if it has none.
grammar::Reasoning reasoning_of(const ChatPrompt& prompt);

/// A limit of max_tokens (0 or more) of reasoning; no limit if the template has no reasoning tags.
ReasoningLimit reasoning_limit_of(const ChatPrompt& prompt, int64_t max_tokens);

struct ToolCallOptions {
    bool required = false;           ///< the answer must be a call, with only reasoning in front
    bool parallel = false;           ///< more calls may follow the first
    bool none = false;               ///< no calls, although the prompt has tools; overrides the other fields
    std::string_view function = {};  ///< the only function that may be called; empty: any
};

/// The grammar of tool calls, without the layout of the JSON. Errors: no tools or none of that name
/// (InvalidArgument); a format without a row in src/text/chat/parsers/tool_call_formats.cpp (Unsupported).
Result<grammar::ToolGrammar> tool_calls_of(const ChatPrompt& prompt, const ToolCallOptions& options);

/// Converts a checked list of tools (read_tools) to input for a grammar. Errors as above.
Result<std::vector<grammar::ToolSpec>> tool_specs(const chat::Value& tools, std::string_view function);

}  // namespace tessera::engine
