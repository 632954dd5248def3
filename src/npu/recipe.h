#pragma once
// A quantization recipe: bits and block sizes of weights and activations, as a JSON file of defaults and
// exceptions by name.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/pattern.h"
#include "src/npu/requant.h"
#include "src/npu/weights.h"

namespace tessera::npu {

struct Recipe {
    /// Applies to tensors ("blk.0.ffn_down.weight") and activations ("blk.0.ff") whose name contains a match
    /// of the pattern. The first matching exception that sets a property decides it.
    struct Exception {
        std::string text;
        Pattern pattern;
        std::optional<WeightRecipe> weight;
        std::optional<int> bits;
    };

    WeightRecipe weight;  ///< of matrices
    int bits = 16;        ///< of activations, 8 or 16; probabilities always have 16, keys and values 8
    std::vector<Exception> exceptions;
    OutputMode output = OutputMode::Exact;  ///< of all products

    WeightRecipe weight_of(const std::string& tensor) const;
    int bits_of(const std::string& activation) const;

    /// XXH64 of canonical_text(): the same for files that say the same.
    uint64_t hash() const;
    /// A line for the defaults (with the output mode if it is not exact), and one for each exception.
    std::string canonical_text() const;
};

/// Reads {"default": {"w", "block", "a"}, "kv": "u8", "override": [{"re", and of these some}]}. "w" is "i8",
/// "lpbq4" or "signed-lpbq4", the latter two with a "block" of 16, 32 or 64; "a" is "u8" or "u16". Beside
/// them may be "output", "exact" or "hmx". Errors name the field.
Result<Recipe> parse_recipe(std::string_view json);

/// The names of the built-in recipes.
std::span<const std::string_view> shipped_recipes();

/// The built-in recipe of that name, or else the one in the file of that path.
Result<Recipe> open_recipe(const std::string& name_or_path);

}  // namespace tessera::npu
