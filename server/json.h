#pragma once
// JSON that comes from outside, within limits.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tessera::server {

/// Members keep the order in which they came: schemas and templates show it.
using Json = nlohmann::ordered_json;

constexpr int kMaxJsonDepth = 64;

/// Throws HttpError 400 for what is no JSON (with the byte), is nested deeper than kMaxJsonDepth, is no valid
/// UTF-8, or names a member twice.
Json parse_json(std::string_view text);

/// One line. Text that is not valid UTF-8 has replacement characters.
std::string dump(const Json& value);

/// "a number", "an array", ... as messages name what was found.
const char* kind_name(const Json& value);

/// At most `limit` bytes of a text for a message, without control characters; valid UTF-8 if `text` is.
std::string shown(std::string_view text, size_t limit = 60);

}  // namespace tessera::server
