#pragma once
// The letters with which byte-level BPE vocabularies spell bytes: printable bytes are themselves, the others
// are the code points from U+0100 on, in order. Internal to src/text.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::text {

/// [256] the letter of each byte, as UTF-8.
const std::array<std::string, 256>& byte_letters();

/// Appends the bytes of a spelling; other characters are copied.
void append_spelled_bytes(std::string_view spelling, std::string& out);

}  // namespace tessera::text
