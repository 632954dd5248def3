// Lists of strings on the command line, and their escapes. Next: params.cpp (rows of kind List).
#include "src/sample/string_list.h"

#include "common/strings.h"

namespace tessera::sample {

namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// Parses the escape after a backslash at text[at], and moves `at` past it.
Result<char> parse_escape(std::string_view text, size_t& at) {
    const char c = at < text.size() ? text[at] : '\0';
    const size_t start = at++;
    switch (c) {
        case ',':
        case '\\':
            return c;
        case 'n':
            return '\n';
        case 't':
            return '\t';
        case 'r':
            return '\r';
        case 'x': {
            const int high = at < text.size() ? hex_digit(text[at]) : -1;
            const int low = at + 1 < text.size() ? hex_digit(text[at + 1]) : -1;
            at += 2;
            if (high >= 0 && low >= 0) return static_cast<char>(high * 16 + low);
            break;
        }
        default:
            break;
    }
    return fail(ErrorCode::InvalidArgument,
                "expected one of \\, \\\\ \\n \\t \\r and \\xNN after a backslash, found '%s'",
                printable(text.substr(start, 3)).c_str());
}

Result<void> check_string(const std::string& string) {
    if (string.empty() || string.size() > kMaxStringBytes)
        return fail(ErrorCode::InvalidArgument, "expected strings of 1 to %zu bytes, found one of %zu",
                    kMaxStringBytes, string.size());
    return {};
}

}  // namespace

Result<std::vector<std::string>> parse_string_list(std::string_view text) {
    std::vector<std::string> strings;
    if (text.empty()) return strings;
    std::string current;
    for (size_t at = 0; at < text.size();) {
        const char c = text[at++];
        if (c == ',') {
            TSR_TRY_VOID(check_string(current));
            strings.push_back(std::move(current));
            current.clear();
        } else if (c == '\\') {
            TSR_TRY(const char escaped, parse_escape(text, at));
            current += escaped;
        } else {
            current += c;
        }
    }
    TSR_TRY_VOID(check_string(current));
    strings.push_back(std::move(current));
    if (strings.size() > kMaxStrings)
        return fail(ErrorCode::InvalidArgument, "expected at most %zu strings, found %zu", kMaxStrings,
                    strings.size());
    return strings;
}

std::string format_string_list(std::span<const std::string> strings) {
    std::string text;
    for (const std::string& string : strings) {
        if (!text.empty()) text += ',';
        for (const char c : string) {
            if (c == ',' || c == '\\') {
                text += '\\';
                text += c;
            } else if (c == '\n') {
                text += "\\n";
            } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
                text += strf("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
            } else {
                text += c;
            }
        }
    }
    return text;
}

}  // namespace tessera::sample
