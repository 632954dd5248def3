#pragma once
// The letters that byte-level BPE vocabularies spell bytes with: printable ones stand for themselves, the
// others for the code points from U+0100 on, in order. Internal to src/text.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::text {

/// [256] the letter of each byte, as UTF-8.
const std::array<std::string, 256>& byte_letters();

/// The bytes a spelling stands for; what is no such letter stands for itself.
void append_spelled_bytes(std::string_view spelling, std::string& out);

}  // namespace tessera::text
