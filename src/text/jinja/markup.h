#pragma once
// Text that counts as HTML, made by the filters `safe` and `escape`: jinja2's Markup. Text that is joined to
// it or formatted into it is escaped first, and parts of it are markup. Printing does not escape anything.
#include <string>
#include <string_view>

#include "src/text/jinja/builtins.h"

namespace tessera::jinja {

/// The text with `&`, `<`, `>` and both quotes as entities.
std::string escape_html(std::string_view text);

/// Markup of any value: itself if it is markup, else its str(), escaped.
Result<Value> escape(Runtime& runtime, const Value& value);

/// A method of text called on markup: arguments that become part of the result are escaped, and text in the
/// result is markup.
Result<Value> call_markup_method(Runtime& runtime, const Builtin& method, const Value& self, Args args);

}  // namespace tessera::jinja
