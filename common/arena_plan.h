#pragma once
// Places in one block of memory for buffers whose lifetimes are known beforehand, so that those which are
// never needed at once share bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// A buffer that is needed from step `first` to step `last`, both included.
struct Lifetime {
    size_t n_bytes = 0;
    int32_t first = 0, last = 0;  // 0 <= first <= last
};

struct ArenaPlan {
    std::vector<size_t> offsets;  // of each buffer
    size_t n_bytes = 0;           // that the block has to hold
    size_t least = 0;             // most that is needed at one step: no plan takes less
};

/// Offsets, multiples of `alignment` (a power of two), at which no two buffers that live at one step overlap.
/// Best fit by falling size: each goes to the smallest gap that those placed before leave it, or behind them.
/// The same lifetimes give the same plan. Time grows with the sum of the lifetimes, times what lives at once.
ArenaPlan plan_arena(std::span<const Lifetime> buffers, size_t alignment = 64);

}  // namespace tessera
