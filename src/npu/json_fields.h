#pragma once
// What is said of the fields of a JSON file that is read strictly.
#include <span>
#include <string>
#include <string_view>

#include "common/json.h"

namespace tessera::npu {

/// A value as an error message has it: numbers and texts cut at 40 characters, of others the kind.
std::string shown(const JsonValue& value);

/// "'clock_hz': expected an integer from 1 to 2, found 3"
tl::unexpected<Error> wrong_field(std::string_view field, const std::string& expected,
                                  const JsonValue& found);
tl::unexpected<Error> missing_field(std::string_view field);
/// With a hint where a known name is near.
tl::unexpected<Error> unknown_field(std::string_view field, std::span<const std::string_view> known);

/// Fails for a file that is no object.
Result<void> check_object(const JsonValue& root);

}  // namespace tessera::npu
