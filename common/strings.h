#pragma once
// Small text helpers: numbers that must parse whole, human-readable sizes, nearest names for error hints.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The whole text as a number, or nothing (no spaces, no rest, no overflow).
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);

/// "1.50 GiB", "86.2 KiB".
std::string format_bytes(uint64_t n_bytes);

/// Untrusted text escaped for a one-line message: control and invalid bytes as \xNN, cut at max_chars.
std::string printable(std::string_view text, size_t max_chars = 80);

/// Turns \n, \t, \r, \\, \", \' and \xHH into the bytes they stand for; any other backslash stays as it is.
std::string unescape(std::string_view text);

/// The candidate with the smallest edit distance, if that is at most a third of its length; else empty.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace tessera
