#pragma once
// How long the streams of weights may be that one product reads at the same time.
#include <stdint.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels {

/// Whether cache lines this many bytes apart evict each other from the L1D of AMD's processors, whose way
/// predictor looks lines up by a hash of the address: bits 15 to 19 folded with bits 20 to 24 (Lipp et al.,
/// "Take A Way", 2020, for Zen to Zen 2; inferred for later ones from the distances that are slow).
TSR_INLINE constexpr bool aliases_in_l1(int64_t distance) {
    return distance % (int64_t{1} << 15) == 0 && (distance >> 15 & 31) == (distance >> 20 & 31);
}
/// Groups of each of n_streams streams that could have n_groups: one less where two of the streams would
/// otherwise alias in L1, which costs up to 25 % of memory bandwidth.
TSR_INLINE constexpr int64_t groups_of_stream(int64_t n_groups, int64_t group_bytes, int n_streams) {
    for (int between = 1; between < n_streams; between++) {
        if (n_groups > 1 && aliases_in_l1(between * n_groups * group_bytes)) return n_groups - 1;
    }
    return n_groups;
}
// Q5_K's groups of 2048 k: neighbouring streams 33 * 2^15 bytes apart, every second, every third; none.
static_assert(groups_of_stream(96, 11264, 4) == 95 && groups_of_stream(48, 11264, 4) == 47 &&
              groups_of_stream(64, 11264, 4) == 63 && groups_of_stream(80, 11264, 4) == 80);
static_assert(groups_of_stream(96, 11264, 2) == 95 && groups_of_stream(48, 11264, 2) == 48);
static_assert(groups_of_stream(1, 33 << 15, 4) == 1, "a stream has a group at least");

}  // namespace tessera::kernels
