#pragma once
// How far apart the streams of weights may lie that one product goes through side by side.
#include <stdint.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels {

/// Whether the first cache of AMD's processors would take lines that lie so many bytes apart for each other:
/// it looks for a line where a hash of its address says, address bits 15 to 19 folded with 20 to 24 (Lipp et
/// al., "Take A Way", 2020), and two of one hash and one place in a page drive each other out.
TSR_INLINE constexpr bool share_a_hash(int64_t apart) {
    return apart % (int64_t{1} << 15) == 0 && (apart >> 15 & 31) == (apart >> 20 & 31);
}
/// Of n_groups that each of some streams far apart could go through, not as many as would make two of the
/// streams share a hash, which costs up to a quarter of the read.
TSR_INLINE constexpr int64_t groups_of_stream(int64_t n_groups, int64_t group_bytes, int n_streams) {
    for (int between = 1; between < n_streams; between++) {
        if (n_groups > 1 && share_a_hash(between * n_groups * group_bytes)) return n_groups - 1;
    }
    return n_groups;
}
// Q5_K's groups of 2048 k: neighbours 33 * 2^15 bytes apart, every second, every third; none.
static_assert(groups_of_stream(96, 11264, 4) == 95 && groups_of_stream(48, 11264, 4) == 47 &&
              groups_of_stream(64, 11264, 4) == 63 && groups_of_stream(80, 11264, 4) == 80);
static_assert(groups_of_stream(96, 11264, 2) == 95 && groups_of_stream(48, 11264, 2) == 48);
static_assert(groups_of_stream(1, 33 << 15, 4) == 1, "a stream has a group at least");

}  // namespace tessera::kernels
