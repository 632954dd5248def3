#pragma once
// Python's two kinds of string formatting.
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

// Both take a format that is text and give markup if it is markup; values are escaped then.

/// `format % values`: a tuple gives one value to each conversion, a dict serves `%(name)s`, anything else is
/// one value.
Result<Value> format_percent(Runtime& runtime, const Value& format, const Value& values);

/// `format.format(...)`: {}, {0}, {name}, {name.attribute[key]!r:spec}.
Result<Value> format_fields(Runtime& runtime, const Value& format, const Args& args);

}  // namespace tessera::jinja
