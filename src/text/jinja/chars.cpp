// Characters: case by ranges instead of full Unicode tables, since chat templates change the case of role
// names and dates, not of prose.
#include "src/text/jinja/chars.h"

#include "common/utf8.h"
#include "src/text/jinja/lexer.h"

namespace tessera::jinja {

namespace {

struct CaseRange {
    uint32_t first, last;  // lower case
    int32_t to_upper;      // offset; kEven, kOdd: adjacent pairs whose upper-case code point is even or odd
};

constexpr int32_t kEven = 0, kOdd = 1;

constexpr CaseRange kCases[] = {
    {'a', 'z', -32},         {0xe0, 0xf6, -32},     {0xf8, 0xfe, -32},    {0x100, 0x137, kEven},
    {0x139, 0x148, kOdd},    {0x14a, 0x177, kEven}, {0x179, 0x17e, kOdd}, {0x3ac, 0x3ac, -38},
    {0x3ad, 0x3af, -37},     {0x3b1, 0x3c1, -32},   {0x3c3, 0x3cb, -32},  {0x3cc, 0x3cc, -64},
    {0x3cd, 0x3ce, -63},     {0x430, 0x44f, -32},   {0x450, 0x45f, -80},  {0x460, 0x481, kEven},
    {0x48a, 0x4bf, kEven},   {0x4d0, 0x52f, kEven}, {0x561, 0x586, -48},  {0x1e00, 0x1e95, kEven},
    {0x1ea0, 0x1eff, kEven}, {0xff41, 0xff5a, -32},
};

bool excluded(uint32_t c) { return c == 0x130 || c == 0x131 || c == 0x138 || c == 0x149; }

template <class Map>
std::string mapped(std::string_view text, Map map) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const utf8::Decoded c = utf8::decode(text.substr(at));
        if (c.valid) {
            map(out, c.code_point);
        } else {
            out += text.substr(at, c.n_bytes);
        }
        at += c.n_bytes;
    }
    return out;
}

void put_upper(std::string& out, uint32_t c) {
    if (c == 0xdf) {
        out += "SS";
    } else {
        utf8::append(out, to_upper_char(c));
    }
}

size_t char_length(std::string_view text, size_t at) { return utf8::decode(text.substr(at)).n_bytes; }

}  // namespace

uint32_t to_upper_char(uint32_t c) {
    if (c == 0xff) return 0x178;
    if (c == 0xb5) return 0x39c;
    if (c == 0x3c2) return 0x3a3;
    for (const CaseRange& range : kCases) {
        if (c < range.first || c > range.last || excluded(c)) continue;
        if (range.to_upper == kEven) return c & ~1u;
        return range.to_upper == kOdd ? (c - 1) | 1u : c + static_cast<uint32_t>(range.to_upper);
    }
    return c;
}

uint32_t to_lower_char(uint32_t c) {
    if (c == 0x178) return 0xff;
    for (const CaseRange& range : kCases) {
        if (excluded(c)) continue;
        if (range.to_upper == kEven || range.to_upper == kOdd) {
            if (c >= range.first && c <= range.last) return range.to_upper == kEven ? c | 1u : (c + 1) & ~1u;
        } else {
            const uint32_t shift = static_cast<uint32_t>(-range.to_upper);
            if (c + shift >= range.first && c + shift <= range.last) return c + shift;
        }
    }
    return c;
}

bool is_digit_char(uint32_t c) {
    return (c >= '0' && c <= '9') || (c >= 0x660 && c <= 0x669) || (c >= 0xff10 && c <= 0xff19);
}

bool is_alpha_char(uint32_t c) {
    if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c < 0xc0) return c == 0xaa || c == 0xb5 || c == 0xba;
    if (c == 0xd7 || c == 0xf7 || is_digit_char(c)) return false;
    // Punctuation, symbols, private use, emoji.
    return !((c >= 0x2000 && c < 0x2c00) || (c >= 0x3000 && c < 0x3005) || (c >= 0x3008 && c < 0x3021) ||
             (c >= 0xe000 && c < 0xf900) || (c >= 0xfe00 && c < 0xfe70) || (c >= 0xff00 && c < 0xff21) ||
             c >= 0x1f000);
}

std::string upper(std::string_view text) { return mapped(text, put_upper); }

std::string lower(std::string_view text) {
    return mapped(text, [](std::string& out, uint32_t c) { utf8::append(out, to_lower_char(c)); });
}

std::string capitalize(std::string_view text) {
    if (text.empty()) return {};
    const size_t n = char_length(text, 0);
    return upper(text.substr(0, n)) + lower(text.substr(n));
}

std::string title(std::string_view text) {
    bool in_word = false;
    return mapped(text, [&](std::string& out, uint32_t c) {
        if (in_word) {
            utf8::append(out, to_lower_char(c));
        } else {
            put_upper(out, c);
        }
        in_word = is_alpha_char(c);
    });
}

std::string_view strip(std::string_view text, bool left, bool right, const std::string* set) {
    const auto stripped = [&](size_t at, size_t n) {
        return n > 0 && set->find(text.substr(at, n)) != std::string::npos ? n : 0;
    };
    const auto first = [&]() -> size_t {
        if (text.empty()) return 0;
        return set ? stripped(0, char_length(text, 0)) : space_at(text, 0);
    };
    const auto last = [&]() -> size_t {
        if (text.empty()) return 0;
        if (!set) return space_before(text, text.size());
        size_t begin = text.size() - 1;
        while (begin > 0 && text.size() - begin < 4 &&
               (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80)
            begin--;
        return stripped(begin, text.size() - begin);
    };
    while (const size_t n = left ? first() : 0) text.remove_prefix(n);
    while (const size_t n = right ? last() : 0) text.remove_suffix(n);
    return text;
}

size_t char_offset(std::string_view text, size_t n) {
    size_t at = 0;
    for (; n > 0 && at < text.size(); n--) at += char_length(text, at);
    return at;
}

size_t count_before(std::string_view text, size_t offset) {
    size_t n = 0;
    for (size_t at = 0; at < offset && at < text.size(); n++) at += char_length(text, at);
    return n;
}

std::vector<std::string_view> characters(std::string_view text) {
    std::vector<std::string_view> out;
    for (size_t at = 0; at < text.size();) {
        const size_t n = char_length(text, at);
        out.push_back(text.substr(at, n));
        at += n;
    }
    return out;
}

}  // namespace tessera::jinja
