#pragma once
// The regular expression front end: the subset of PCRE and ECMAScript that describes regular languages.
#include <string_view>

#include "common/expected.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

/// Code points for the start and the end of the text in searched patterns; never part of a text.
constexpr uint32_t kTextStart = 0x110000, kTextEnd = 0x110001;

enum class RegexUse {
    Whole,   ///< the pattern matches all of a text; ^ and $ are allowed only at its ends
    Search,  ///< the pattern matches anywhere in a text; ^ and $ become kTextStart and kTextEnd
};

/// Parses into an expression of `program`. Errors (Malformed, or Unsupported for constructs that are not
/// regular or not in the subset) begin with "position N:", counted in characters from 1.
Result<ExprId> parse_regex(std::string_view pattern, RegexUse use, Program& program);

}  // namespace tessera::grammar
