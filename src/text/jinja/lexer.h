#pragma once
// Splits a template into tokens: text between tags is data, the inside of tags is names, literals and
// operators.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"

namespace tessera::jinja {

enum class TokenKind : uint8_t {
    Data,
    OutputBegin,
    OutputEnd,
    BlockBegin,
    BlockEnd,
    Name,
    Text,
    Int,
    Float,
    Op,
    End
};

struct Token {
    TokenKind kind = TokenKind::End;
    uint32_t offset = 0;  ///< byte offset in the source
    std::string text;     ///< data, decoded literal, name, digits without underscores, operator
};

/// A syntax error; offset in the source.
struct SyntaxError {
    uint32_t offset = 0;
    std::string message;
};

/// The source with line ends as "\n", without one at the very end.
std::string normalize_source(std::string_view source);

/// All tokens of a normalized source, the last one End. White space is handled as with `trim_blocks` and
/// `lstrip_blocks`: a line with only a block or a comment produces nothing; `-` next to a tag's bracket
/// strips more, `+` keeps everything. O(n).
tl::expected<std::vector<Token>, SyntaxError> lex(std::string_view source);

/// Length in bytes of the white space character at `at`, 0 if there is none; Unicode white space as in
/// Python.
size_t space_at(std::string_view text, size_t at);
/// The same for the character that ends before `end`.
size_t space_before(std::string_view text, size_t end);

}  // namespace tessera::jinja
