// The public interface: parse once, render often. Converts offsets to lines and columns.
#include "src/text/jinja/template.h"

#include <algorithm>

#include "common/strings.h"
#include "src/text/jinja/chars.h"
#include "src/text/jinja/parser.h"
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

namespace {

constexpr size_t kMaxSourceBytes = size_t{4} << 20;

}  // namespace

std::string Failure::to_string() const {
    const char* what = kind == Kind::Raised ? "the template refuses: " : "";
    return strf("line %zu, column %zu: %s%s", line, column, what, printable(message, 400).c_str());
}

Error Failure::to_error() const {
    const ErrorCode code = kind == Kind::Syntax  ? ErrorCode::Malformed
                           : kind == Kind::Limit ? ErrorCode::OutOfMemory
                                                 : ErrorCode::InvalidArgument;
    return {code, to_string()};
}

Template::Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Failure Template::failure_at(Failure::Kind kind, uint32_t offset, std::string message) const {
    const std::string_view before = std::string_view(source_).substr(0, offset);
    const size_t newline = before.rfind('\n');
    const std::string_view line = newline == std::string_view::npos ? before : before.substr(newline + 1);
    const auto n_lines = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
    return {kind, n_lines + 1, count_before(line, line.size()) + 1, std::move(message)};
}

tl::expected<Template, Failure> Template::parse(std::string_view source) {
    Template out;
    if (source.size() > kMaxSourceBytes)
        return tl::unexpected<Failure>(
            {Failure::Kind::Limit, 1, 1,
             strf("expected a template of at most %zu bytes, found %zu", kMaxSourceBytes, source.size())});
    out.source_ = normalize_source(source);
    auto program = jinja::parse(out.source_);
    if (!program)
        return tl::unexpected<Failure>(out.failure_at(Failure::Kind::Syntax, program.error().offset,
                                                      std::move(program.error().message)));
    out.program_ = std::make_unique<const Program>(std::move(*program));
    return out;
}

tl::expected<std::string, Failure> Template::render(const Value& context, const DateTime& now,
                                                    const Limits& limits) const {
    Runtime runtime(*program_, limits, now);
    Result<std::string> text = runtime.render(context);
    if (text) return std::move(*text);
    const Failure::Kind kind = runtime.raised()                              ? Failure::Kind::Raised
                               : text.error().code == ErrorCode::OutOfMemory ? Failure::Kind::Limit
                                                                             : Failure::Kind::Runtime;
    return tl::unexpected<Failure>(failure_at(kind, runtime.error_offset(), std::move(text.error().message)));
}

}  // namespace tessera::jinja
