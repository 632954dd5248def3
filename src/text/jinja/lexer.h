#pragma once
// Cuts a template into tokens: text between tags as data, the insides of tags as names, literals and
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
    uint32_t offset = 0;  ///< in the source
    std::string text;     ///< data, decoded literal, name, digits without underscores, operator
};

/// Where a template breaks the grammar; offset in the source.
struct SyntaxError {
    uint32_t offset = 0;
    std::string message;
};

/// The source as the engine reads it: line ends are "\n", one of them at the very end is dropped.
std::string normalize_source(std::string_view source);

/// All tokens of a normalized source, the last one End. White space is handled as with `trim_blocks` and
/// `lstrip_blocks`: a line that holds a block or a comment alone leaves nothing behind; `-` next to a tag's
/// bracket strips more, `+` keeps all. O(n).
tl::expected<std::vector<Token>, SyntaxError> lex(std::string_view source);

/// Jinja's and Python's white space, beyond ASCII too. Length in bytes of the one at `at`, 0 if there is
/// none.
size_t space_at(std::string_view text, size_t at);
/// The same for the character that ends before `end`.
size_t space_before(std::string_view text, size_t end);

}  // namespace tessera::jinja
