#pragma once
// Numbers as Python prints and reads them.
#include <optional>
#include <string>
#include <string_view>

#include "src/text/jinja/value.h"

namespace tessera::jinja {

std::string format_int(Integer value, unsigned base = 10);
/// repr(float): the shortest digits that read back as the same number; "1.0", "1e+16", "inf".
std::string format_float(double value);
/// round(value, n_digits), halves of the exact binary value to even.
double round_to(double value, int n_digits);

/// int(text, base) and float(text): white space around, underscores between digits, signs.
std::optional<Integer> read_int(std::string_view text, int base = 10);
std::optional<double> read_float(std::string_view text);

}  // namespace tessera::jinja
