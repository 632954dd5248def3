// Formatting: "%5.2f" % x and "{:>5}".format(x). Both come down to a Spec and a value; widths are checked
// against the limits before they are filled.
#include "src/text/jinja/format.h"

#include <algorithm>
#include <cmath>

#include "common/strings.h"
#include "common/utf8.h"
#include "src/text/jinja/chars.h"
#include "src/text/jinja/markup.h"
#include "src/text/jinja/numbers.h"

namespace tessera::jinja {

namespace {

// More digits than any double has; further ones would be zeros.
constexpr int kMaxPrecision = 400;

struct Spec {
    std::string fill = " ";
    char align = '\0';  // < > ^ =; 0: the default of the type
    char sign = '-';
    bool alternate = false, grouped = false;
    size_t width = 0;
    int precision = -1;
    char type = '\0';
};

Result<std::string> pad(Runtime& runtime, const Spec& spec, std::string text, size_t sign_length,
                        char align) {
    const size_t n = count_before(text, text.size());
    if (spec.width <= n) return text;
    TSR_TRY_VOID(runtime.make_room(spec.width * spec.fill.size()));
    const size_t n_fill = spec.width - n;
    std::string left, right;
    const size_t n_left = align == '<' ? 0 : align == '^' ? n_fill / 2 : n_fill;
    for (size_t i = 0; i < n_fill; i++) (i < n_left ? left : right) += spec.fill;
    if (align == '=') return text.substr(0, sign_length) + left + text.substr(sign_length);
    return left + text + right;
}

void group_thousands(std::string& digits) {
    const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
    for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
}

Result<std::string> signed_number(Runtime& runtime, const Spec& spec, bool negative,
                                  const std::string& prefix, std::string digits) {
    if (spec.grouped) group_thousands(digits);
    const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    return pad(runtime, spec, sign + prefix + digits, sign.size() + prefix.size(),
               spec.align ? spec.align : '>');
}

Result<std::string> format_integer(Runtime& runtime, const Spec& spec, Integer value) {
    const char type = static_cast<char>(spec.type | 0x20);
    const unsigned base = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    std::string digits = format_int(value, base);
    const bool negative = digits[0] == '-';
    if (negative) digits.erase(0, 1);
    if (spec.type == 'X') digits = upper(digits);
    const std::string prefix =
        spec.alternate && base != 10 ? std::string("0") + (spec.type == 'X' ? 'X' : type) : "";
    return signed_number(runtime, spec, negative, prefix, std::move(digits));
}

Result<std::string> format_real(Runtime& runtime, const Spec& spec, double value) {
    const int precision = std::min(spec.precision < 0 ? 6 : spec.precision, kMaxPrecision);
    std::string digits;
    const double magnitude = std::fabs(value);
    switch (spec.type) {
        case 'e':
            digits = strf("%.*e", precision, magnitude);
            break;
        case 'E':
            digits = strf("%.*E", precision, magnitude);
            break;
        case 'f':
        case 'F':
            digits = strf("%.*f", precision, magnitude);
            break;
        case 'g':
            digits = strf(spec.alternate ? "%#.*g" : "%.*g", precision, magnitude);
            break;
        case 'G':
            digits = strf(spec.alternate ? "%#.*G" : "%.*G", precision, magnitude);
            break;
        case '%':
            digits = strf("%.*f%%", precision, magnitude * 100);
            break;
        default:
            digits = spec.precision < 0 ? format_float(magnitude) : strf("%.*g", precision, magnitude);
            break;
    }
    return signed_number(runtime, spec, std::signbit(value) && !std::isnan(value), "", std::move(digits));
}

Result<std::string> format_text(Runtime& runtime, const Spec& spec, std::string text) {
    if (spec.precision >= 0) text.resize(char_offset(text, static_cast<size_t>(spec.precision)));
    return pad(runtime, spec, std::move(text), 0, spec.align ? spec.align : '<');
}

Result<Integer> truncated(const Value& value) {
    if (!value.is(Kind::Float)) return value.as_int();
    const double whole = std::trunc(value.as_double());
    if (!(std::fabs(whole) < 1e38))
        return fail(ErrorCode::InvalidArgument, "cannot convert float to integer");
    return static_cast<Integer>(whole);
}

// Parses digits at `at`; uses at most 9 of them.
std::optional<size_t> read_count(const std::string& text, size_t& at) {
    const size_t begin = at;
    size_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; at++)
        if (at - begin < 9) value = value * 10 + static_cast<size_t>(text[at] - '0');
    return at > begin ? std::optional(value) : std::nullopt;
}

class PercentFormat {
  public:
    PercentFormat(Runtime& runtime, const Value& format, const Value& values)
        : runtime_(runtime), model_(format), format_(format.as_text()), values_(values) {}

    Result<Value> run() {
        std::string out;
        for (size_t at = 0; at < format_.size();) {
            if (format_[at] != '%') {
                out += format_[at++];
                continue;
            }
            at++;
            TSR_TRY(const std::string part, conversion(at));
            out += part;
            TSR_TRY_VOID(runtime_.make_room(out.size()));
        }
        // Values with keys or indices need not be consumed entirely.
        const bool is_tuple = values_.is(Kind::Tuple);
        const bool may_remain = !is_tuple && !values_.is_text() && !values_.is_number() && !values_.is_none();
        const size_t n_given = is_tuple ? values_.items().size() : 1;
        if (n_used_ < n_given && !may_remain && !used_name_)
            return fail(ErrorCode::InvalidArgument, "not all arguments converted during string formatting");
        return runtime_.text_like(model_, std::move(out));
    }

  private:
    Result<Value> next() {
        const bool is_tuple = values_.is(Kind::Tuple);
        if (n_used_ >= (is_tuple ? values_.items().size() : 1))
            return fail(ErrorCode::InvalidArgument, "not enough arguments for format string");
        return is_tuple ? values_.items()[n_used_++] : (n_used_++, values_);
    }

    Result<Value> named(size_t& at) {
        const size_t end = format_.find(')', at);
        if (end == std::string::npos) return fail(ErrorCode::InvalidArgument, "incomplete format key");
        if (!values_.is_dict()) return fail(ErrorCode::InvalidArgument, "format requires a mapping");
        const std::string key = format_.substr(at + 1, end - at - 1);
        at = end + 1;
        used_name_ = true;
        const Value* value = values_.find(key);
        if (!value) return fail(ErrorCode::InvalidArgument, "there is no key '%s' to format", key.c_str());
        return *value;
    }

    Result<size_t> count(size_t& at) {
        if (at >= format_.size() || format_[at] != '*') return read_count(format_, at).value_or(0);
        at++;
        TSR_TRY(const Value value, next());
        if (!value.is_integral() || value.as_int() < 0 || value.as_int() > 999999999)
            return fail(ErrorCode::InvalidArgument, "* wants a small integer");
        return static_cast<size_t>(value.as_int());
    }

    Result<std::string> conversion(size_t& at) {
        std::optional<Value> value;
        if (at < format_.size() && format_[at] == '(') {
            TSR_TRY(value, named(at));
        }
        Spec spec;
        for (; at < format_.size(); at++) {
            if (format_[at] == '-') {
                spec.align = '<';
            } else if (format_[at] == '+' || format_[at] == ' ') {
                spec.sign = spec.sign == '+' ? '+' : format_[at];
            } else if (format_[at] == '#') {
                spec.alternate = true;
            } else if (format_[at] == '0') {
                spec.fill = "0";
            } else {
                break;
            }
        }
        TSR_TRY(spec.width, count(at));
        if (at < format_.size() && format_[at] == '.') {
            at++;
            TSR_TRY(const size_t precision, count(at));
            spec.precision = static_cast<int>(precision);
        }
        if (at >= format_.size()) return fail(ErrorCode::InvalidArgument, "incomplete format");
        spec.type = format_[at++];
        if (spec.type == '%') return std::string("%");
        if (spec.fill == "0" && !spec.align) spec.align = '=';
        if (spec.align == '<') spec.fill = " ";
        if (!value) {
            TSR_TRY(value, next());
        }
        return converted(spec, *value);
    }

    Result<std::string> converted(Spec& spec, const Value& value) {
        switch (spec.type) {
            case 's':
            case 'r':
            case 'a': {
                TSR_TRY(std::string text, spec.type == 's' ? runtime_.str(value) : runtime_.repr(value));
                if (model_.is_markup() && (spec.type != 's' || !value.is_markup())) text = escape_html(text);
                spec.fill = " ";
                if (spec.align != '<') spec.align = '>';
                return format_text(runtime_, spec, std::move(text));
            }
            case 'c': {
                std::string text;
                if (value.is_text() && value.n_chars() == 1) {
                    text = value.as_text();
                } else if (value.is_integral() && value.as_int() >= 0 && value.as_int() <= 0x10ffff) {
                    utf8::append(text, static_cast<uint32_t>(value.as_int()));
                } else {
                    return fail(ErrorCode::InvalidArgument, "%%c requires int or char");
                }
                return format_text(runtime_, spec, std::move(text));
            }
            case 'd':
            case 'i':
            case 'u':
            case 'x':
            case 'X':
            case 'o': {
                const bool exact = spec.type == 'x' || spec.type == 'X' || spec.type == 'o';
                if (!value.is_number() || (exact && value.is(Kind::Float)))
                    return fail(ErrorCode::InvalidArgument, "%%%c format: a real number is required, not %s",
                                spec.type, value.type_name());
                TSR_TRY(const Integer number, truncated(value));
                return format_integer(runtime_, spec, number);
            }
            case 'e':
            case 'E':
            case 'f':
            case 'F':
            case 'g':
            case 'G':
                if (!value.is_number())
                    return fail(ErrorCode::InvalidArgument, "must be real number, not %s", value.type_name());
                return format_real(runtime_, spec, value.as_double());
            default:
                return fail(ErrorCode::InvalidArgument, "unsupported format character '%s'",
                            printable(std::string(1, spec.type)).c_str());
        }
    }

    Runtime& runtime_;
    const Value& model_;  // markup or not
    const std::string& format_;
    const Value& values_;
    size_t n_used_ = 0;
    bool used_name_ = false;
};

Result<Spec> parse_spec(const std::string& text) {
    Spec spec;
    size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    const size_t first = char_offset(text, 1);
    if (first < text.size() && is_align(text[first])) {
        spec.fill = text.substr(0, first);
        spec.align = text[first];
        at = first + 1;
    } else if (!text.empty() && is_align(text[0])) {
        spec.align = text[0];
        at = 1;
    }
    const auto skip = [&](char c) { return at < text.size() && text[at] == c && (at++, true); };
    for (const char sign : {'+', ' ', '-'})
        if (skip(sign)) spec.sign = sign;
    spec.alternate = skip('#');
    if (skip('0') && !spec.align) {
        spec.fill = "0";
        spec.align = '=';
    }
    spec.width = read_count(text, at).value_or(0);
    spec.grouped = skip(',');
    if (skip('.')) {
        const std::optional<size_t> precision = read_count(text, at);
        if (!precision) return fail(ErrorCode::InvalidArgument, "format specifier missing precision");
        spec.precision = static_cast<int>(*precision);
    }
    if (at < text.size()) spec.type = text[at++];
    if (at != text.size()) return fail(ErrorCode::InvalidArgument, "invalid format specifier");
    return spec;
}

class FieldFormat {
  public:
    FieldFormat(Runtime& runtime, const Value& format, const Args& args)
        : runtime_(runtime), model_(format), format_(format.as_text()), args_(args) {}

    Result<Value> run() {
        std::string out;
        for (size_t at = 0; at < format_.size();) {
            const char c = format_[at++];
            if (c != '{' && c != '}') {
                out += c;
                continue;
            }
            if (at < format_.size() && format_[at] == c) {
                out += c;
                at++;
                continue;
            }
            if (c == '}') return fail(ErrorCode::InvalidArgument, "Single '}' encountered in format string");
            const size_t end = closing(at);
            if (end == std::string::npos)
                return fail(ErrorCode::InvalidArgument, "Single '{' encountered in format string");
            TSR_TRY(const std::string part, field(format_.substr(at, end - at), true));
            out += part;
            TSR_TRY_VOID(runtime_.make_room(out.size()));
            at = end + 1;
        }
        return runtime_.text_like(model_, std::move(out));
    }

  private:
    size_t closing(size_t at) const {
        for (size_t depth = 0; at < format_.size(); at++) {
            if (format_[at] == '{') depth++;
            if (format_[at] == '}' && depth-- == 0) return at;
        }
        return std::string::npos;
    }

    // "name!r:spec", without its braces.
    Result<std::string> field(const std::string& text, bool may_nest) {
        const size_t name_end = std::min(text.find_first_of("!:"), text.size());
        TSR_TRY(const Value value, resolve(text.substr(0, name_end)));
        size_t at = name_end;
        char conversion = '\0';
        if (at < text.size() && text[at] == '!') {
            if (at + 1 >= text.size())
                return fail(ErrorCode::InvalidArgument, "expected a conversion behind '!'");
            conversion = text[at + 1];
            at += 2;
        }
        std::string spec_text;
        if (at < text.size() && text[at] == ':') {
            spec_text = text.substr(at + 1);
        } else if (at != text.size()) {
            return fail(ErrorCode::InvalidArgument, "expected ':' after conversion specifier");
        }
        if (may_nest) {
            TSR_TRY(spec_text, without_fields(spec_text));
        }
        TSR_TRY(const Spec spec, parse_spec(spec_text));
        return formatted(spec, value, conversion);
    }

    // Fields inside a specification, one level deep.
    Result<std::string> without_fields(const std::string& text) {
        std::string out;
        for (size_t at = 0; at < text.size(); at++) {
            const size_t end = text[at] == '{' ? text.find('}', at) : std::string::npos;
            if (end == std::string::npos) {
                out += text[at];
                continue;
            }
            TSR_TRY(const std::string part, field(text.substr(at + 1, end - at - 1), false));
            out += part;
            at = end;
        }
        return out;
    }

    Result<std::string> formatted(const Spec& spec, const Value& value, char conversion) {
        if (!conversion && value.is_number() && spec.type != 's') {
            static constexpr std::string_view kReal = "eEfFgG%";
            if (value.is(Kind::Bool) && !spec.type)
                return format_text(runtime_, spec, value.as_bool() ? "True" : "False");
            if (value.is(Kind::Float) || kReal.find(spec.type) != std::string_view::npos)
                if (!value.is_integral() || spec.type) return format_real(runtime_, spec, value.as_double());
            return format_integer(runtime_, spec, value.as_int());
        }
        TSR_TRY(std::string text, conversion == 'r' ? runtime_.repr(value) : runtime_.str(value));
        if (spec.type && spec.type != 's')
            return fail(ErrorCode::InvalidArgument, "Unknown format code '%c' for object of type '%s'",
                        spec.type, value.type_name());
        TSR_TRY(text, format_text(runtime_, spec, std::move(text)));
        return model_.is_markup() && (conversion || !value.is_markup()) ? escape_html(text) : text;
    }

    // "0", "name" or "", each followed by .attribute and [key].
    Result<Value> resolve(const std::string& path) {
        size_t at = std::min(path.find_first_of(".["), path.size());
        TSR_TRY(Value value, argument(path.substr(0, at)));
        while (at < path.size()) {
            const bool is_item = path[at] == '[';
            const size_t end =
                is_item ? path.find(']', at) : std::min(path.find_first_of(".[", at + 1), path.size());
            if (end == std::string::npos)
                return fail(ErrorCode::InvalidArgument, "Missing ']' in format string");
            const std::string key = path.substr(at + 1, end - at - 1);
            const std::optional<Integer> index = is_item ? read_int(key) : std::nullopt;
            TSR_TRY(value, !is_item
                               ? runtime_.attribute(value, key)
                               : runtime_.item(value, index ? Value::integer(*index) : runtime_.text(key)));
            at = end + is_item;
            if (at < path.size() && path[at] != '.' && path[at] != '[')
                return fail(ErrorCode::InvalidArgument,
                            "Only '.' or '[' may follow ']' in format field specifier");
        }
        return value;
    }

    Result<Value> argument(const std::string& name) {
        const std::optional<int64_t> number =
            name.empty() ? std::optional<int64_t>(n_used_++) : parse_int(name);
        if (number) {
            if (*number < 0 || static_cast<size_t>(*number) >= args_.positional.size())
                return fail(ErrorCode::InvalidArgument,
                            "Replacement index %s out of range for positional args tuple",
                            format_int(*number).c_str());
            return args_.positional[static_cast<size_t>(*number)];
        }
        for (const auto& [key, value] : args_.named)
            if (key == name) return value;
        return fail(ErrorCode::InvalidArgument, "there is no argument '%s' to format",
                    printable(name).c_str());
    }

    Runtime& runtime_;
    const Value& model_;  // markup or not
    const std::string& format_;
    const Args& args_;
    int64_t n_used_ = 0;
};

}  // namespace

Result<Value> format_percent(Runtime& runtime, const Value& format, const Value& values) {
    return PercentFormat(runtime, format, values).run();
}

Result<Value> format_fields(Runtime& runtime, const Value& format, const Args& args) {
    return FieldFormat(runtime, format, args).run();
}

}  // namespace tessera::jinja
