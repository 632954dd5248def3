#pragma once
// JSON to values and back, as Python's json module writes it.
#include <string>
#include <string_view>

#include "src/text/jinja/value.h"

namespace tessera::jinja {

/// The whole text as one JSON value. Objects keep their order; of equal keys the last counts. Errors:
/// Malformed with the place, nesting beyond kMaxValueDepth.
Result<Value> parse_json(std::string_view text);

struct JsonStyle {
    bool ensure_ascii = false;
    bool sort_keys = false;
    bool has_indent = false;
    std::string indent;  ///< one level of it
    std::string item_separator = ", ", key_separator = ": ";
    size_t max_bytes = size_t{64} << 20;
};

/// Errors: values that JSON has no form for (Undefined, generators, functions), keys that are no scalars, and
/// more than max_bytes.
Result<std::string> dump_json(const Value& value, const JsonStyle& style = {});

}  // namespace tessera::jinja
