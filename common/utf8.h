#pragma once
// UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::utf8 {

struct Decoded {
    uint32_t code_point;  ///< U+FFFD when invalid
    uint32_t n_bytes;  ///< bytes consumed, >= 1; for invalid input the maximal ill-formed part (Unicode 3.9)
    bool valid;
};

/// decode() of a text that starts with any byte, not only ASCII.
Decoded decode_any(std::string_view text);

/// Decodes the first code point of a non-empty text.
inline Decoded decode(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    return first < 0x80 ? Decoded{first, 1, true} : decode_any(text);
}

void append(std::string& out, uint32_t code_point);

bool is_valid(std::string_view text);

/// Length of the longest prefix that does not end inside an incomplete but valid sequence.
size_t complete_prefix(std::string_view text);

/// The text with invalid parts replaced by U+FFFD; appended without a copy between.
std::string sanitize(std::string_view text);
void append_sanitized(std::string& out, std::string_view text);

}  // namespace tessera::utf8
