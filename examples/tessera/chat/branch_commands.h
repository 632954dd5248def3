#pragma once
// The commands that move in the tree of messages. commands.cpp has their rows.
#include <string_view>

#include "examples/tessera/chat/repl.h"

namespace tessera::repl {

Result<void> undo(Repl& repl, std::string_view args);
Result<void> retry(Repl& repl, std::string_view args);
Result<void> edit(Repl& repl, std::string_view args);
Result<void> branches(Repl& repl, std::string_view args);
Result<void> branch(Repl& repl, std::string_view args);

}  // namespace tessera::repl
