#pragma once
// The string formats that schemas may name.
#include <span>
#include <string>
#include <string_view>

namespace tessera::grammar {

struct StringFormat {
    std::string_view name;
    bool enforced;            ///< else it is known and refused
    uint32_t max_length = 0;  ///< 0: none
};

/// All formats that are not mere annotations.
std::span<const StringFormat> string_formats();

/// Null for a name that is no constraint.
const StringFormat* find_format(std::string_view name);

/// The pattern of an enforced format, anchored at both ends.
std::string format_pattern(std::string_view name);

}  // namespace tessera::grammar
