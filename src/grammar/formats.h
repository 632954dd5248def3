#pragma once
// The string formats of JSON schemas.
#include <span>
#include <string>
#include <string_view>

namespace tessera::grammar {

struct StringFormat {
    std::string_view name;
    bool enforced;            ///< false: known, but refused
    uint32_t max_length = 0;  ///< 0: none
};

/// All formats that are enforced or refused; others are annotations.
std::span<const StringFormat> string_formats();

/// Null for a name that is only an annotation.
const StringFormat* find_format(std::string_view name);

/// The pattern of an enforced format, anchored at both ends.
std::string format_pattern(std::string_view name);

}  // namespace tessera::grammar
