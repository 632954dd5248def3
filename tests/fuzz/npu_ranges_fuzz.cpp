// Ranges of activations of any bytes: an error, or ranges that are written and read as they are.
#include <cstddef>
#include <cstdint>

#include "src/npu/ranges.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tessera::npu;
    const auto ranges = parse_ranges({reinterpret_cast<const char*>(data), size});
    if (!ranges) return 0;
    const auto again = parse_ranges(ranges->to_json());
    if (!again || again->of != ranges->of || again->n_tok != ranges->n_tok) __builtin_trap();
    return 0;
}
