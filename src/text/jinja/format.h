#pragma once
// Python's two ways of putting values into text.
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

/// `format % values`: a tuple gives one value a conversion, a dict serves `%(name)s`, anything else is one
/// value.
Result<Value> format_percent(Runtime& runtime, const std::string& format, const Value& values);

/// `format.format(...)`: {}, {0}, {name}, {name.attribute[key]!r:spec}.
Result<Value> format_fields(Runtime& runtime, const std::string& format, const Args& args);

}  // namespace tessera::jinja
