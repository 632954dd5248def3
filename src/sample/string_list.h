#pragma once
// A list of strings as one text: "a,b,\n". Commas separate; \, \\ \n \t \r and \xNN stand for characters.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"

namespace tessera::sample {

/// At most kMaxStrings of 1 to kMaxStringBytes bytes each; empty text is an empty list. Errors
/// (InvalidArgument): an unknown escape, an empty string, a string too long, too many strings.
Result<std::vector<std::string>> parse_string_list(std::string_view text);

/// The text that parse_string_list() reads as these strings.
std::string format_string_list(std::span<const std::string> strings);

inline constexpr size_t kMaxStrings = 4096, kMaxStringBytes = 1024;

}  // namespace tessera::sample
