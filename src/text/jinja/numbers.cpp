// Numbers in text, independent of the locale.
#include "src/text/jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "common/strings.h"
#include "src/text/jinja/chars.h"

namespace tessera::jinja {

namespace {

// Removes single underscores between digits; nothing if there is an underscore elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] != '_') {
            out += text[i];
        } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || text[i - 1] == '.') {
            return std::nullopt;
        }
    }
    return out;
}

int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char low = static_cast<char>(c | 0x20);
    return low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
}

}  // namespace

std::string format_int(Integer value, unsigned base) {
    // Works with negative values, since the lowest value has no positive counterpart.
    const bool negative = value < 0;
    std::string out;
    do {
        const int digit = static_cast<int>(value % static_cast<Integer>(base));
        out += "0123456789abcdef"[digit < 0 ? -digit : digit];
        value /= static_cast<Integer>(base);
    } while (value != 0);
    if (negative) out += '-';
    std::reverse(out.begin(), out.end());
    return out;
}

std::string format_float(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char buffer[64];
    // Shortest digits in scientific form: d.ddde+XX.
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
    std::string_view text(buffer, static_cast<size_t>(end - buffer));
    std::string out;
    if (text.front() == '-') {
        out = "-";
        text.remove_prefix(1);
    }
    const size_t e = text.find('e');
    const int exponent = static_cast<int>(*parse_int(text.substr(text[e + 1] == '+' ? e + 2 : e + 1)));
    std::string digits(1, text[0]);
    if (e > 2) digits += text.substr(2, e - 2);
    const int n_digits = static_cast<int>(digits.size());
    if (exponent < -4 || exponent >= 16) {
        out += digits[0];
        if (n_digits > 1) out += "." + digits.substr(1);
        return out + strf("e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    }
    if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    if (exponent >= n_digits - 1)
        return out + digits + std::string(static_cast<size_t>(exponent - n_digits + 1), '0') + ".0";
    return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
           digits.substr(static_cast<size_t>(exponent) + 1);
}

double round_to(double value, int n_digits) {
    if (!std::isfinite(value) || n_digits > 300) return value;
    if (n_digits < 0) {
        if (n_digits < -308) return std::copysign(0.0, value);
        const double unit = std::pow(10.0, -n_digits);
        return std::nearbyint(value / unit) * unit;
    }
    // printf rounds the exact binary value, halves to even.
    char buffer[700];
    const int n = std::snprintf(buffer, sizeof buffer, "%.*f", n_digits, value);
    double rounded = value;
    std::from_chars(buffer, buffer + n, rounded);
    return rounded;
}

std::optional<Integer> read_int(std::string_view text, int base) {
    text = strip(text, true, true);
    bool negative = false;
    if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
        negative = text[0] == '-';
        text.remove_prefix(1);
    }
    if (text.size() > 2 && text[0] == '0') {
        const char c = static_cast<char>(text[1] | 0x20);
        const int named = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
        if (named != 0 && (base == named || base == 0)) {
            text.remove_prefix(2);
            base = named;
        }
    }
    if (base == 0) base = 10;
    const std::optional<std::string> digits = without_underscores(text);
    if (!digits || digits->empty()) return std::nullopt;
    Integer value = 0;
    for (const char c : *digits) {
        const int digit = digit_value(c);
        if (digit >= base) return std::nullopt;
        if (__builtin_mul_overflow(value, static_cast<Integer>(base), &value)) return std::nullopt;
        if (__builtin_add_overflow(value, static_cast<Integer>(digit), &value)) return std::nullopt;
    }
    return negative ? -value : value;
}

std::optional<double> read_float(std::string_view text) {
    text = strip(text, true, true);
    const std::optional<std::string> plain = without_underscores(text);
    if (!plain || plain->empty()) return std::nullopt;
    std::string_view rest = *plain;
    bool negative = false;
    if (rest[0] == '+' || rest[0] == '-') {
        negative = rest[0] == '-';
        rest.remove_prefix(1);
    }
    const std::string low = to_lower(rest);
    std::optional<double> value;
    if (low == "inf" || low == "infinity") {
        value = std::numeric_limits<double>::infinity();
    } else if (low == "nan") {
        value = std::numeric_limits<double>::quiet_NaN();
    } else if (!rest.empty() && (rest[0] == '.' || digit_value(rest[0]) < 10)) {
        value = parse_double(rest);
    }
    if (value && negative) *value = -*value;
    return value;
}

}  // namespace tessera::jinja
