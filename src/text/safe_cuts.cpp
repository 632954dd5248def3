// The set of pairs of adjacent code points in all pieces, some ten thousand for a usual vocabulary. Assumes
// valid UTF-8 text. Next: spm.cpp, which uses it.
#include "src/text/safe_cuts.h"

#include <algorithm>

#include "common/utf8.h"

namespace tessera::text {

namespace {

constexpr uint32_t kSpaceSymbolChar = 0x2581;

/// Maps a space in text to its symbol in pieces.
uint32_t symbol_of(uint32_t code_point) { return code_point == kSpaceSymbolChar ? ' ' : code_point; }

}  // namespace

void SafeCuts::add_piece(std::string_view piece) {
    if (!utf8::is_valid(piece)) return;
    uint32_t previous = 0;
    for (size_t pos = 0; pos < piece.size();) {
        const utf8::Decoded c = utf8::decode(piece.substr(pos));
        if (pos > 0) pairs_.push_back(uint64_t{previous} << 32 | symbol_of(c.code_point));
        previous = symbol_of(c.code_point);
        pos += c.n_bytes;
    }
}

void SafeCuts::finish() {
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
    pairs_.shrink_to_fit();
    for (const uint64_t pair : pairs_)
        if ((pair & ~uint64_t{0x7F0000007F}) == 0) ascii_pairs_.set((pair >> 32) * 128 + (pair & 0x7F));
}

bool SafeCuts::adjacent(uint32_t first, uint32_t second) const {
    if ((first | second) < 128) return ascii_pairs_.test(size_t{first} * 128 + second);
    return std::binary_search(pairs_.begin(), pairs_.end(), uint64_t{first} << 32 | second);
}

size_t SafeCuts::first(std::string_view text) const {
    uint32_t previous = 0;
    for (size_t pos = 0; pos < text.size();) {
        const utf8::Decoded c = utf8::decode(text.substr(pos));
        const uint32_t symbol = symbol_of(c.code_point);
        if (pos > 0 && !adjacent(previous, symbol)) return pos;
        previous = symbol;
        pos += c.n_bytes;
    }
    return text.size();
}

}  // namespace tessera::text
