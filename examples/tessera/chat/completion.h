#pragma once
// Candidates for Tab: commands, and the names and files that may complete an argument.
#include <string>
#include <string_view>
#include <vector>

#include "examples/tessera/chat/repl.h"

namespace tessera::repl {

/// Those of `texts` that begin with `typed`, sorted.
Completions matching(const std::vector<std::string>& texts, std::string_view typed);

Completions complete_branch(const Repl& repl, std::string_view typed);
Completions complete_file(const Repl& repl, std::string_view typed);
Completions complete_setting(const Repl& repl, std::string_view typed);
Completions complete_format(const Repl& repl, std::string_view typed);

/// A path in which ~/ stands for the home folder.
std::string expanded_path(std::string_view path);

}  // namespace tessera::repl
