#pragma once
// Text as characters, as in Python's str. Case and classes are exact for ASCII, Latin, Greek and Cyrillic;
// letters of other scripts have no case here.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::jinja {

uint32_t to_upper_char(uint32_t c);
uint32_t to_lower_char(uint32_t c);
bool is_alpha_char(uint32_t c);
bool is_digit_char(uint32_t c);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// The first character upper, the others lower case.
std::string capitalize(std::string_view text);
/// Each word's first letter upper, the others lower case.
std::string title(std::string_view text);

/// Removes white space, or any of the characters of `set`, from the left and right end.
std::string_view strip(std::string_view text, bool left, bool right, const std::string* set = nullptr);

/// Byte offset of character `n`; the text's size if it has at most n characters.
size_t char_offset(std::string_view text, size_t n);
/// Number of characters before a byte offset.
size_t count_before(std::string_view text, size_t offset);
/// Views of the characters.
std::vector<std::string_view> characters(std::string_view text);

}  // namespace tessera::jinja
