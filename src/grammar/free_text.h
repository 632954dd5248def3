#pragma once
// Text that a grammar leaves to the model, up to a mark. The spelling of control tokens counts as text here.
#include <string>
#include <string_view>
#include <vector>

#include "src/grammar/grammar.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

/// Any text up to and including the first of the marks, none of which is empty.
ByteDfa text_until(const std::vector<std::string>& marks);
/// The same text without any mark in it; it may end anywhere, but is not empty.
ByteDfa text_without(ByteDfa until);
/// Exactly this text, be it ordinary tokens or a control token.
ExprId add_mark(std::string_view text, Program& program);

/// Puts the reasoning in front of the root; does nothing where there is none.
void allow_reasoning(const Reasoning& reasoning, Program& program);

}  // namespace tessera::grammar
