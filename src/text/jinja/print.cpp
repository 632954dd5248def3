// str() and repr() of values, as Python prints them.
#include "common/utf8.h"
#include "src/text/jinja/numbers.h"
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

namespace {

// A str's repr: single quotes unless only those occur inside.
void write_quoted(std::string& out, const std::string& text) {
    const bool has_single = text.find('\'') != std::string::npos,
               has_double = text.find('"') != std::string::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    out += quote;
    for (size_t at = 0; at < text.size();) {
        const utf8::Decoded c = utf8::decode(std::string_view(text).substr(at));
        const std::string_view bytes = std::string_view(text).substr(at, c.n_bytes);
        at += c.n_bytes;
        switch (c.code_point) {
            case '\\':
                out += "\\\\";
                continue;
            case '\n':
                out += "\\n";
                continue;
            case '\r':
                out += "\\r";
                continue;
            case '\t':
                out += "\\t";
                continue;
            default:
                break;
        }
        if (c.code_point == static_cast<uint32_t>(quote)) {
            out += '\\';
            out += quote;
        } else if (c.code_point < 0x20 || (c.code_point >= 0x7f && c.code_point <= 0xa0) ||
                   c.code_point == 0xad) {
            out += strf("\\x%02x", c.code_point);
        } else if ((c.code_point >= 0x2000 && c.code_point <= 0x200f) ||
                   (c.code_point >= 0x2028 && c.code_point <= 0x202f) || c.code_point == 0x3000 ||
                   c.code_point == 0xfeff) {
            out += strf("\\u%04x", c.code_point);
        } else {
            out += bytes;
        }
    }
    out += quote;
}

}  // namespace

Result<std::string> Runtime::str(const Value& value) {
    std::string out;
    TSR_TRY_VOID(write(out, value, false));
    return out;
}

Result<std::string> Runtime::repr(const Value& value) {
    std::string out;
    TSR_TRY_VOID(write(out, value, true));
    return out;
}

Result<void> Runtime::write(std::string& out, const Value& value, bool as_repr) {
    TSR_TRY_VOID(charge(1));
    switch (value.kind()) {
        case Kind::Undefined:
            out += as_repr ? "Undefined" : "";
            break;
        case Kind::None:
            out += "None";
            break;
        case Kind::Bool:
            out += value.as_bool() ? "True" : "False";
            break;
        case Kind::Int:
            out += format_int(value.as_int());
            break;
        case Kind::Float:
            out += format_float(value.as_double());
            break;
        case Kind::String:
            TSR_TRY_VOID(charge_bytes(value.as_text().size()));
            TSR_TRY_VOID(check_room(out.size() + value.as_text().size()));
            if (as_repr) {
                if (value.is_markup()) out += "Markup(";
                write_quoted(out, value.as_text());
                if (value.is_markup()) out += ')';
            } else {
                out += value.as_text();
            }
            break;
        case Kind::List:
        case Kind::Tuple:
        case Kind::View:
            return write_sequence(out, value);
        case Kind::Range:
        case Kind::Generator:
            out += value.label();
            break;
        case Kind::Dict:
            return write_dict(out, value);
        case Kind::Object:
            out += value.as_object().repr();
            break;
    }
    return check_room(out.size());
}

Result<void> Runtime::write_sequence(std::string& out, const Value& value) {
    const bool is_tuple = value.is(Kind::Tuple);
    if (value.is(Kind::View)) out += value.label() + "(";
    out += is_tuple ? '(' : '[';
    const Value::Items& items = value.items();
    for (size_t i = 0; i < items.size(); i++) {
        if (i > 0) out += ", ";
        TSR_TRY_VOID(write(out, items[i], true));
    }
    if (is_tuple && items.size() == 1) out += ',';
    out += is_tuple ? ')' : ']';
    if (value.is(Kind::View)) out += ')';
    return {};
}

Result<void> Runtime::write_dict(std::string& out, const Value& value) {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : value.as_dict().pairs()) {
        if (!first) out += ", ";
        first = false;
        TSR_TRY_VOID(write(out, key, true));
        out += ": ";
        TSR_TRY_VOID(write(out, member, true));
    }
    out += '}';
    return {};
}

}  // namespace tessera::jinja
