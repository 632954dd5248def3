#pragma once
// Error messages about fields of strictly parsed JSON files.
#include <span>
#include <string>
#include <string_view>

#include "common/json.h"

namespace tessera::npu {

/// A value for error messages: numbers and strings up to 40 characters, the kind of other values.
std::string shown(const JsonValue& value);

/// "'clock_hz': expected an integer from 1 to 2, found 3"
tl::unexpected<Error> wrong_field(std::string_view field, const std::string& expected,
                                  const JsonValue& found);
tl::unexpected<Error> missing_field(std::string_view field);
/// Includes a hint if a known name is similar.
tl::unexpected<Error> unknown_field(std::string_view field, std::span<const std::string_view> known);

/// An error if the root is not an object.
Result<void> check_object(const JsonValue& root);

}  // namespace tessera::npu
