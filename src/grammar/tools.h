#pragma once
// The grammar of tool calls inside free text.
#include "common/expected.h"
#include "src/grammar/grammar.h"

namespace tessera::grammar {

/// Fills an empty program. Errors name the tool and the JSON pointer in its schema.
Result<void> build_tools(const ToolGrammar& tools, Program& program);

}  // namespace tessera::grammar
