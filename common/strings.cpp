// Text helpers for messages and options. Nothing here depends on the locale: numbers are read by
// std::from_chars. Input may be untrusted; the work is linear in it.
#include "common/strings.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "common/expected.h"
#include "common/utf8.h"

namespace tessera {

namespace {

template <class T>
std::optional<T> parse_whole(std::string_view text) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end) return std::nullopt;
    return value;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Control characters, and the marks that reorder a line on a terminal and so could disguise it.
bool is_unsafe(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0x200e || c == 0x200f ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

// Insertions, deletions, substitutions and swaps of neighbours each cost one.
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); j++) row[j] = j;
    for (size_t i = 1; i <= a.size(); i++) {
        before.swap(above);
        above.swap(row);
        row[0] = i;
        for (size_t j = 1; j <= b.size(); j++) {
            const size_t changed = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({changed, above[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
    }
    return row[b.size()];
}

}  // namespace

std::optional<int64_t> parse_int(std::string_view text) { return parse_whole<int64_t>(text); }
std::optional<double> parse_double(std::string_view text) { return parse_whole<double>(text); }

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const size_t at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

std::string_view trim(std::string_view text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

std::string to_lower(std::string_view text) {
    std::string lower(text);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return lower;
}

std::string format_bytes(uint64_t n_bytes) {
    constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (n_bytes < 1024) return strf("%d B", static_cast<int>(n_bytes));
    double value = static_cast<double>(n_bytes) / 1024;
    size_t unit = 0;
    // 1023.5 and more would print as 1024.
    for (; value >= 1023.5 && unit + 1 < std::size(kUnits); unit++) value /= 1024;
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return strf("%.*f %s", decimals, value, kUnits[unit]);
}

std::string printable(std::string_view text, size_t max_chars) {
    std::string out;
    size_t n_chars = 0;
    while (!text.empty()) {
        const utf8::Decoded next = utf8::decode(text);
        const bool keep = next.valid && !is_unsafe(next.code_point);
        const size_t n_more = keep ? 1 : size_t{4} * next.n_bytes;
        if (n_chars + n_more > max_chars) return out + "...";
        n_chars += n_more;
        for (size_t i = 0; i < next.n_bytes; i++) {
            if (keep)
                out += text[i];
            else
                out += strf("\\x%02X", static_cast<unsigned>(static_cast<unsigned char>(text[i])));
        }
        text.remove_prefix(next.n_bytes);
    }
    return out;
}

std::string unescape(std::string_view text) {
    const auto hex_byte = [&](size_t at) -> int {
        int value = 0;
        const std::string_view digits = text.substr(std::min(at, text.size()), 2);
        const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        return error == std::errc() && rest == digits.data() + 2 ? value : -1;
    };
    constexpr std::string_view kLetters = "ntr\\\"'", kBytes = "\n\t\r\\\"'";
    std::string out;
    for (size_t i = 0; i < text.size(); i++) {
        const char next = i + 1 < text.size() ? text[i + 1] : '\0';
        const size_t letter = kLetters.find(next);
        if (text[i] != '\\' || i + 1 == text.size()) {
            out += text[i];
        } else if (letter != std::string_view::npos) {
            out += kBytes[letter];
            i++;
        } else if (const int byte = next == 'x' ? hex_byte(i + 2) : -1; byte >= 0) {
            out += static_cast<char>(byte);
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
    std::string_view nearest;
    size_t smallest = SIZE_MAX;
    for (const std::string_view candidate : candidates) {
        const size_t allowed = candidate.size() / 3;
        // A candidate of a too different length is skipped, which also bounds the work for a long name.
        if (name.size() > candidate.size() + allowed || name.size() + allowed < candidate.size()) continue;
        const size_t distance = edit_distance(name, candidate);
        if (distance > allowed || distance >= smallest) continue;
        smallest = distance;
        nearest = candidate;
    }
    return nearest;
}

}  // namespace tessera
