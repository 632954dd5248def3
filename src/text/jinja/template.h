#pragma once
// Jinja templates, as far as chat templates use them: https://jinja.palletsprojects.com with the settings of
// Hugging Face transformers (trim_blocks, lstrip_blocks, loop controls, {% generation %}, tojson without
// escapes, raise_exception, strftime_now). docs/guide/templates.md lists what is supported.
//
// Sandboxed: a template sees its variables and nothing else, cannot change them, and is stopped at the
// limits.
#include <memory>
#include <string>
#include <string_view>

#include "common/expected.h"
#include "src/text/jinja/datetime.h"
#include "src/text/jinja/limits.h"
#include "src/text/jinja/value.h"

namespace tessera::jinja {

struct Program;

/// The reason why a template could not be parsed or rendered.
struct Failure {
    enum class Kind {
        Syntax,   ///< a syntax error
        Raised,   ///< the template refused the input with raise_exception(message)
        Runtime,  ///< an invalid operation on values
        Limit,    ///< a limit was exceeded
    };
    Kind kind = Kind::Runtime;
    size_t line = 1, column = 1;  ///< from 1; columns count characters
    std::string message;          ///< without the position

    /// "line 3, column 7: ..."; tells if the template raised it.
    std::string to_string() const;
    Error to_error() const;
};

/// A parsed template. Immutable; many threads may render it at the same time.
class Template {
  public:
    /// Errors: Syntax, and sources over 4 MiB.
    static tl::expected<Template, Failure> parse(std::string_view source);

    Template(Template&&) noexcept;
    Template& operator=(Template&&) noexcept;
    ~Template();

    /// `context`: a dict of the variables (Value::dict_of). Same input, same output.
    tl::expected<std::string, Failure> render(const Value& context, const DateTime& now,
                                              const Limits& limits = {}) const;

    /// As parsed, with line ends "\n".
    const std::string& source() const { return source_; }

  private:
    Template();
    Failure failure_at(Failure::Kind kind, uint32_t offset, std::string message) const;

    std::string source_;
    std::unique_ptr<const Program> program_;
};

}  // namespace tessera::jinja
