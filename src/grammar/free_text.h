#pragma once
// Unconstrained text up to a mark. Special tokens match by their spelling here.
#include <string>
#include <string_view>
#include <vector>

#include "src/grammar/grammar.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

/// Any text up to and including the first of the marks, which are not empty.
ByteDfa text_until(const std::vector<std::string>& marks);
/// Nonempty text that contains no mark.
ByteDfa text_without(ByteDfa until);
/// Exactly this text, as ordinary tokens or as a special token.
ExprId add_mark(std::string_view text, Program& program);

/// Allows reasoning in front of the root; does nothing if `reasoning` has no end mark.
void allow_reasoning(const Reasoning& reasoning, Program& program);

}  // namespace tessera::grammar
