// A recipe of any bytes: an error, or a recipe with a type for every name.
#include <cstddef>
#include <cstdint>

#include "src/npu/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tessera::npu;
    const auto recipe = parse_recipe({reinterpret_cast<const char*>(data), size});
    if (!recipe) return 0;
    const int bits = recipe->bits_of("blk.0.ff");
    const WeightRecipe weight = recipe->weight_of("blk.0.ffn_down.weight");
    if ((bits != 8 && bits != 16) || weight.has_blocks() != (weight.block > 0)) __builtin_trap();
    return 0;
}
