#pragma once
// Products of bytes with AVX-512 VNNI on vectors of 8 rows, for streams; panels have wider ones (wide.h).
#include "quants/arch/avx2/int_ops.h"

namespace tessera::kernels {
namespace {

/// Sums of one tile.
constexpr int kTileSums = 8;
/// Sums of a stream's tile of two groups, and whether those of four groups are computed two groups at a time
/// (kAtOnce). AVX2 differs; not measured here.
constexpr int kPairSums = kTileSums;
constexpr bool kSplitsFour = false;
/// Batch up to which unpacking in registers beats unpacking into a panel.
constexpr int kStreamTokens = 32;
/// Whether a single token's product is quick enough to leave prefetching to the processor
/// (WeightTuning::hardware_bytes).
constexpr bool kHardwarePrefetch = true;
/// Whether activations that two groups share are packed. Not measured here.
constexpr bool kPacksFewAct = false;
/// Tokens of a tile in the tiled activation layout (KernelTable::act_tile).
constexpr int kActTile = 1;

/// sum + unsigned bytes of w times signed bytes of a, a word a row.
TSR_INLINE Int dot_words(Int sum, Int w, Int a) { return _mm256_dpbusd_epi32(sum, w, a); }
/// Four activations for every row, which the dot product instruction broadcasts from memory.
struct Act {
    const int8_t* at;
};
/// Group g of a block's activations q.
TSR_INLINE Act act_group(const int8_t* q, int g) { return {q + 4 * g}; }
TSR_INLINE Int in_register(Act a) { return broadcast4(a.at); }
/// In assembler: gcc 12 makes two instructions of a broadcast word and its product.
TSR_INLINE Int dot_words(Int sum, Int w, Act a) {
    asm("vpdpbusd %2%{1to8%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*reinterpret_cast<const int8_t(*)[4]>(a.at)));
    return sum;
}
/// sum + signed halfwords of a times those of b.
TSR_INLINE Int dot_halves(Int sum, Int a, Int b) { return _mm256_dpwssd_epi32(sum, a, b); }

}  // namespace
}  // namespace tessera::kernels

#include "quants/arch/avxvnni/words.h"
