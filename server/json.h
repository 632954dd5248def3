#pragma once
// Parsing of untrusted JSON, within limits.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tessera::server {

/// Members keep their order, since templates print it and schemas generate in it.
using Json = nlohmann::ordered_json;

constexpr int kMaxJsonDepth = 64;

/// Throws HttpError 400 for text that is not JSON (with the byte offset), is nested deeper than
/// kMaxJsonDepth, is not valid UTF-8, or has a member twice.
Json parse_json(std::string_view text);

/// One line. Invalid UTF-8 becomes replacement characters.
std::string dump(const Json& value);

/// "a number", "an array", ... for messages.
const char* kind_name(const Json& value);

/// At most `limit` bytes of a text for a message, without control characters; valid UTF-8 if `text` is.
std::string shown(std::string_view text, size_t limit = 60);

}  // namespace tessera::server
