#pragma once
// Offsets in one block of memory for buffers with known lifetimes, such that buffers that are never live at
// the same time share bytes.
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

/// A buffer that is needed in several disjoint spans of steps and has one place for all of them.
struct SpanLifetimes {
    size_t n_bytes = 0;
    std::vector<Lifetime> spans = {};  // n_bytes of the spans is unused
};

struct ArenaPlan {
    std::vector<size_t> offsets;  // of each buffer
    size_t n_bytes = 0;           // size of the block
    size_t least = 0;             // the most bytes live at one step, a lower bound for any plan
};

/// Offsets, multiples of `alignment` (a power of two), at which no two buffers that live at one step overlap.
/// Best fit by decreasing size: each buffer goes to the smallest gap between those placed before, or behind
/// them. Deterministic. Time grows with the sum of the lifetimes times the number of live buffers.
ArenaPlan plan_arena(std::span<const Lifetime> buffers, size_t alignment = 64);
ArenaPlan plan_arena(std::span<const SpanLifetimes> buffers, size_t alignment = 64);

}  // namespace tessera
