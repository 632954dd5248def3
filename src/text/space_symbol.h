#pragma once
// Spaces in SentencePiece vocabularies; internal to src/text.
#include <string>
#include <string_view>

namespace tessera::text {

constexpr std::string_view kSpaceSymbol = "▁";  // U+2581, which stands for a space in pieces

/// A piece's text with its spaces.
inline void append_with_spaces(std::string_view piece, std::string& out) {
    for (size_t at; (at = piece.find(kSpaceSymbol)) != piece.npos;
         piece.remove_prefix(at + kSpaceSymbol.size()))
        (out += piece.substr(0, at)) += ' ';
    out += piece;
}

/// Replaces runs of spaces by one, and removes spaces at both ends.
inline std::string collapse_spaces(std::string_view text) {
    std::string out;
    for (const char c : text)
        if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
    if (!out.empty() && out.back() == ' ') out.pop_back();
    return out;
}

}  // namespace tessera::text
