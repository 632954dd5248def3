// UTF-8 decoding by the table of well-formed sequences (Unicode 3.9, table 3-7): the lead byte fixes the
// length and the range of the second byte, all later ones are 80..BF. All other functions are built on
// that scan.
#include "common/utf8.h"

#include <algorithm>

namespace tessera::utf8 {

namespace {

constexpr uint32_t kReplacement = 0xFFFD;

struct Lead {
    uint32_t length;          // of the whole sequence; 0 = no lead byte
    uint32_t bits;            // payload of the lead byte itself
    unsigned char low, high;  // range of the second byte
};

Lead classify(unsigned char c) {
    if (c < 0x80) return {1, c, 0, 0};
    if (c < 0xC2) return {0, 0, 0, 0};
    if (c < 0xE0) return {2, c & 0x1Fu, 0x80, 0xBF};
    if (c == 0xE0) return {3, 0, 0xA0, 0xBF};
    if (c == 0xED) return {3, 0xD, 0x80, 0x9F};
    if (c < 0xF0) return {3, c & 0x0Fu, 0x80, 0xBF};
    if (c == 0xF0) return {4, 0, 0x90, 0xBF};
    if (c < 0xF4) return {4, c & 0x07u, 0x80, 0xBF};
    if (c == 0xF4) return {4, 4, 0x80, 0x8F};
    return {0, 0, 0, 0};
}

struct Scan {
    Decoded decoded;
    bool truncated;  // the text ended inside a sequence that was fine so far
};

Scan scan(std::string_view text) {
    const Lead lead = classify(static_cast<unsigned char>(text[0]));
    if (lead.length == 0) return {{kReplacement, 1, false}, false};
    uint32_t code_point = lead.bits;
    unsigned char low = lead.low, high = lead.high;
    for (uint32_t i = 1; i < lead.length; i++) {
        if (i == text.size()) return {{kReplacement, i, false}, true};
        const auto c = static_cast<unsigned char>(text[i]);
        if (c < low || c > high) return {{kReplacement, i, false}, false};
        code_point = code_point << 6 | (c & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    return {{code_point, lead.length, true}, false};
}

}  // namespace

Decoded decode_any(std::string_view text) { return scan(text).decoded; }

void append(std::string& out, uint32_t code_point) {
    const auto put = [&out](uint32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) code_point = kReplacement;
    if (code_point < 0x80) {
        put(code_point);
    } else if (code_point < 0x800) {
        put(0xC0 | code_point >> 6);
        put(0x80 | (code_point & 0x3F));
    } else if (code_point < 0x10000) {
        put(0xE0 | code_point >> 12);
        put(0x80 | (code_point >> 6 & 0x3F));
        put(0x80 | (code_point & 0x3F));
    } else {
        put(0xF0 | code_point >> 18);
        put(0x80 | (code_point >> 12 & 0x3F));
        put(0x80 | (code_point >> 6 & 0x3F));
        put(0x80 | (code_point & 0x3F));
    }
}

bool is_valid(std::string_view text) {
    while (!text.empty()) {
        const Decoded next = decode(text);
        if (!next.valid) return false;
        text.remove_prefix(next.n_bytes);
    }
    return true;
}

size_t complete_prefix(std::string_view text) {
    // An unfinished sequence is at most three bytes long and starts with its lead byte.
    for (size_t n = 1; n <= std::min<size_t>(3, text.size()); n++) {
        const size_t start = text.size() - n;
        if (scan(text.substr(start)).truncated) return start;
    }
    return text.size();
}

void append_sanitized(std::string& out, std::string_view text) {
    while (!text.empty()) {
        const Decoded next = decode(text);
        if (next.valid)
            out.append(text.substr(0, next.n_bytes));
        else
            append(out, kReplacement);
        text.remove_prefix(next.n_bytes);
    }
}

std::string sanitize(std::string_view text) {
    std::string out;
    append_sanitized(out, text);
    return out;
}

}  // namespace tessera::utf8
