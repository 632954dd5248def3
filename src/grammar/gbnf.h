#pragma once
// The GBNF front end.
#include <string_view>

#include "common/expected.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

/// Errors (Malformed) begin with "line L, column C:", columns counted in characters.
Result<Program> parse_gbnf(std::string_view text);

}  // namespace tessera::grammar
