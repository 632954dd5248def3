#pragma once
// The Unicode properties and mappings that WordPiece needs; internal to src/text.
#include <array>
#include <cstdint>

namespace tessera::text::unicode {

bool is_space(uint32_t c);  ///< White_Space
bool is_punctuation(
    uint32_t c);  ///< category P, and every printable ASCII character that is neither letter nor digit
bool is_control(uint32_t c);    ///< categories Cc, Cf, Co
bool is_mark(uint32_t c);       ///< category Mn
bool is_ideograph(uint32_t c);  ///< CJK ideographs, compatibility ones included

/// Up to three code points; unused ones are 0.
using Form = std::array<uint32_t, 3>;

/// The canonical decomposition without its marks (Mn): 'a' of 'ä', the letters of a Hangul syllable.
Form bare_form(uint32_t c);

/// The lower-case letter, or the character itself.
uint32_t lower(uint32_t c);

}  // namespace tessera::text::unicode
