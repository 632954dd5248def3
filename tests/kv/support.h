#pragma once
// Texts of few different tokens, so that many of them have a common prefix.
#include <cstdint>
#include <vector>

#include "common/rng.h"

namespace tessera::kv {

inline std::vector<int32_t> text_of(uint64_t seed, size_t n) {
    Rng rng(seed);
    std::vector<int32_t> out(n);
    for (int32_t& id : out) id = static_cast<int32_t>(rng.next_u64() % 5);
    return out;
}

}  // namespace tessera::kv
