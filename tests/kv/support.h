#pragma once
// Layers, and texts of few different tokens, so that many of them have a common prefix.
#include <cstdint>
#include <span>
#include <vector>

#include "common/rng.h"
#include "src/model/layer_spec.h"

namespace tessera::kv {

/// Layers of one head of 16 elements, with these windows.
inline std::vector<LayerSpec> layers_of(std::span<const int64_t> windows) {
    std::vector<LayerSpec> layers;
    for (const int64_t window : windows)
        layers.push_back({.n_head = 1, .n_head_kv = 1, .k_dim = 16, .v_dim = 16, .window = window});
    return layers;
}

inline std::vector<int32_t> text_of(uint64_t seed, size_t n) {
    Rng rng(seed);
    std::vector<int32_t> out(n);
    for (int32_t& id : out) id = static_cast<int32_t>(rng.next_u64() % 5);
    return out;
}

}  // namespace tessera::kv
