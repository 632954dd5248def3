#pragma once
// Parses tokens into a Program.
#include "src/text/jinja/ast.h"
#include "src/text/jinja/lexer.h"

namespace tessera::jinja {

/// Parses a normalized source. Errors: anything outside the grammar, nesting beyond kMaxExprDepth and
/// kMaxStmtDepth, and statements that load other templates. Filters and tests are looked up when they run: an
/// unknown one is an error only if it is reached.
tl::expected<Program, SyntaxError> parse(std::string_view source);

}  // namespace tessera::jinja
