#pragma once
// Products of bytes with AVX-VNNI: four of a row are added to its word at once.
#include "quants/arch/avx2/int_ops.h"

namespace tessera::kernels {
namespace {

/// Sums of one tile: more would fit the registers, but evict the totals.
constexpr int kTileSums = 8;
/// Sums of a stream's tile of two groups, and whether those of four groups are computed two groups at a time
/// (kAtOnce). AVX2 differs; not measured here.
constexpr int kPairSums = kTileSums;
constexpr bool kSplitsFour = false;
/// Batch up to which unpacking in registers beats unpacking into a panel.
constexpr int kStreamTokens = kTileSums;
/// Whether a single token's product is quick enough to leave prefetching to the processor
/// (WeightTuning::hardware_bytes).
constexpr bool kHardwarePrefetch = false;
/// Whether activations that two groups share are packed. Not measured here.
constexpr bool kPacksFewAct = false;
/// Tokens of a tile in the tiled activation layout (KernelTable::act_tile).
constexpr int kActTile = 1;

using Act = Int;
/// Group g of a block's activations q.
TSR_INLINE Act act_group(const int8_t* q, int g) { return broadcast4(q + 4 * g); }
/// sum + unsigned bytes of w times signed bytes of a, a word a row.
TSR_INLINE Int dot_words(Int sum, Int w, Int a) { return _mm256_dpbusd_avx_epi32(sum, w, a); }
/// sum + signed halfwords of a times those of b.
TSR_INLINE Int dot_halves(Int sum, Int a, Int b) { return _mm256_dpwssd_avx_epi32(sum, a, b); }

}  // namespace
}  // namespace tessera::kernels

#include "quants/arch/avxvnni/words.h"
