// Bytes and their letters. Next: bpe.cpp, whose vocabularies use this spelling.
#include "src/text/byte_letters.h"

#include <algorithm>

#include "common/utf8.h"

namespace tessera::text {

namespace {

constexpr bool is_own_letter(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr uint32_t kFirst = 0x100;  // of the letters of all other bytes
constexpr uint32_t kLetters = kFirst + 68;

constexpr std::array<uint32_t, 256> kLetterOf = [] {
    std::array<uint32_t, 256> letters{};
    uint32_t next = kFirst;
    for (uint32_t byte = 0; byte < 256; byte++) letters[byte] = is_own_letter(byte) ? byte : next++;
    return letters;
}();

constexpr std::array<int16_t, kLetters> kByteOf = [] {
    std::array<int16_t, kLetters> bytes{};
    for (int16_t& byte : bytes) byte = -1;
    for (int16_t byte = 0; byte < 256; byte++) bytes[kLetterOf[static_cast<size_t>(byte)]] = byte;
    return bytes;
}();

}  // namespace

const std::array<std::string, 256>& byte_letters() {
    static const std::array<std::string, 256> letters = [] {
        std::array<std::string, 256> all;
        for (size_t byte = 0; byte < 256; byte++) utf8::append(all[byte], kLetterOf[byte]);
        return all;
    }();
    return letters;
}

void append_spelled_bytes(std::string_view spelling, std::string& out) {
    const auto is_itself = [](char c) { return c >= 0x21 && c <= 0x7E; };
    while (!spelling.empty()) {
        // Fast path: most of a vocabulary is ASCII.
        const auto other = std::find_if_not(spelling.begin(), spelling.end(), is_itself);
        const auto n = static_cast<size_t>(other - spelling.begin());
        out += spelling.substr(0, n);
        spelling.remove_prefix(n);
        if (spelling.empty()) return;
        const utf8::Decoded c = utf8::decode(spelling);
        if (c.valid && c.code_point < kLetters && kByteOf[c.code_point] >= 0)
            out += static_cast<char>(kByteOf[c.code_point]);
        else
            out += spelling.substr(0, c.n_bytes);
        spelling.remove_prefix(c.n_bytes);
    }
}

}  // namespace tessera::text
