#pragma once
// Converts JSON to values and back, in the format of Python's json module.
#include <string>
#include <string_view>

#include "src/text/jinja/value.h"

namespace tessera::jinja {

/// Parses the whole text as one JSON value. Objects keep their order; of equal keys the last is used. Errors:
/// Malformed with the position, nesting beyond kMaxValueDepth.
Result<Value> parse_json(std::string_view text);

struct JsonStyle {
    bool ensure_ascii = false;
    bool sort_keys = false;
    bool has_indent = false;
    std::string indent;  ///< one level of it
    std::string item_separator = ", ", key_separator = ": ";
    size_t max_bytes = size_t{64} << 20;
};

/// Errors: values that JSON cannot represent (Undefined, generators, functions), keys that are not scalars,
/// and more than max_bytes.
Result<std::string> dump_json(const Value& value, const JsonStyle& style = {});

}  // namespace tessera::jinja
