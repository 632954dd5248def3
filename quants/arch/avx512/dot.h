#pragma once
// Products of bytes with AVX-512 VNNI on vectors of 8 rows, for streams; panels have wider ones (wide.h).
#include "quants/arch/avx2/int_verbs.h"

namespace tessera::kernels {
namespace {

/// Sums of one tile.
constexpr int kTileSums = 8;
/// Tokens up to which unpacking in registers beats unpacking into a panel.
constexpr int kStreamTokens = 32;

/// sum + unsigned bytes of w times signed bytes of a, a word a row.
TSR_INLINE Int dot_words(Int sum, Int w, Int a) { return _mm256_dpbusd_epi32(sum, w, a); }
/// sum + signed halfwords of a times those of b.
TSR_INLINE Int dot_halves(Int sum, Int a, Int b) { return _mm256_dpwssd_epi32(sum, a, b); }

}  // namespace
}  // namespace tessera::kernels

#include "quants/arch/avxvnni/words.h"
