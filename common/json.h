#pragma once
// A JSON text as a tree that keeps the order of members and the digits of numbers.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/expected.h"

namespace tessera {

struct JsonValue {
    enum class Kind : uint8_t { Null, Boolean, Number, String, Array, Object };
    Kind kind = Kind::Null;
    bool boolean = false;
    std::string text = {};  ///< of a string; of a number as written
    std::vector<JsonValue> items = {};
    std::vector<std::pair<std::string, JsonValue>> members = {};

    /// The last member of that name, or null.
    const JsonValue* find(std::string_view name) const;
    bool is(Kind k) const { return kind == k; }
};

const char* json_kind_name(JsonValue::Kind kind);

/// Errors: text that is not JSON, a name twice in one object, nesting deeper than 128.
Result<JsonValue> parse_json(std::string_view text);

/// The value at an RFC 6901 pointer ("" is the whole), or null.
const JsonValue* find_pointer(const JsonValue& root, std::string_view pointer);

/// A member's name as part of a pointer.
std::string pointer_escape(std::string_view name);

}  // namespace tessera
