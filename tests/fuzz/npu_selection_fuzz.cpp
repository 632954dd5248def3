// A selection of layers for the device, as any text: an error, or a selection with an answer for every layer.
#include <cstddef>
#include <cstdint>

#include "src/npu/partition.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tessera::npu;
    const auto selection = Selection::parse({reinterpret_cast<const char*>(data), size});
    if (!selection) return 0;
    const bool is_of_two_layers = selection->check(2).has_value();
    // A selection that is valid for a model of two layers is valid for a larger one.
    if (is_of_two_layers && !selection->check(3)) __builtin_trap();
    bool any = false;
    for (int64_t layer = 0; layer < 2; ++layer)
        for (const auto part :
             {Selection::Part::Attention, Selection::Part::FeedForward, Selection::Part::Head})
            any |= selection->has(layer, part);
    if (is_of_two_layers && !any) __builtin_trap();
    return 0;
}
