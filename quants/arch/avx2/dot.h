#pragma once
// Products of bytes on AVX2: summed in halfwords, as long as that is exact (docs/formats/packed-layouts.md).
#include "quants/arch/avx2/int_ops.h"

namespace tessera::kernels {
namespace {

using Act = Int;
using Part = Int;  // 2 halfwords a row
using Sum = Int;
/// Sums of one tile: 8 of halfwords, two operands, one activation and one product fit 16 registers.
constexpr int kTileSums = 8;
/// Sums of a stream's tile of two groups: as many as the registers hold. A panel's tile needs registers for
/// scales and totals too.
constexpr int kPairSums = 10;
/// Whether the sums of four groups are computed two groups at a time where the values between codes and sums
/// need registers (kAtOnce).
constexpr bool kSplitsFour = true;
/// Batch up to which unpacking in registers beats unpacking into a panel.
constexpr int kStreamTokens = 5;
/// Whether a single token's product is quick enough to leave prefetching to the processor
/// (WeightTuning::hardware_bytes).
constexpr bool kHardwarePrefetch = false;
/// Whether activations that two groups share (three to five tokens) are packed: their rows lie a power of two
/// apart, where cache lines evict each other. Measured with AVX2 alone.
constexpr bool kPacksFewAct = true;
/// Tokens of a tile in the tiled activation layout (KernelTable::act_tile): those of a panel's tile.
constexpr int kActTile = kTileSums / 2;
/// Whether products of weights that fill a byte take magnitudes of weights times activations with the
/// weights' signs (packed_signed_bytes.inl): such a product fits a halfword, but the sum of two does not.
constexpr bool kBytesBySigns = true;
constexpr bool kSignedOperands = false;
constexpr bool kZeroFirst = false;
/// A row's sum is two halfwords: of a group's first two k, and of the others. They are added separately from
/// the products.
constexpr bool kLaneSums = true;
/// Groups whose products may be added: each adds 2 products to a halfword.
constexpr int part_groups(int largest_operand) {
    int n = 8;
    while (2 * n * largest_operand * 127 > 32767) n /= 2;
    return n;
}
/// Group g of a block's activations q.
TSR_INLINE Act act_group(const int8_t* q, int g) { return broadcast4(q + 4 * g); }
TSR_INLINE Part first_dot(Int w, Act a) { return dot_bytes(w, a); }
TSR_INLINE Part next_dot(Part sum, Int w, Act a) { return add16(sum, dot_bytes(w, a)); }
/// Signed bytes without their signs: -128 as the unsigned byte 128.
TSR_INLINE Int sizes(Int w) { return _mm256_abs_epi8(w); }
/// 255 where a signed byte is negative, else 0.
TSR_INLINE Int where_negative(Int w) { return _mm256_cmpgt_epi8(none(), w); }
/// Activations times the signs of w: -1, 0 or 1.
TSR_INLINE Act with_signs(Act a, Int w) { return _mm256_sign_epi8(a, w); }
/// Times an integer scale a row: 1 word a row.
TSR_INLINE Int scaled(Part sum, Int scale) { return dot_halves(sum, scale); }
TSR_INLINE Int add_scaled(Int sum, Part part, Int scale) { return add32(sum, scaled(part, scale)); }

/// Scales in the form that `scaled` takes: both halfwords of a row. All the same; one byte a row (8 at p).
TSR_INLINE Int broadcast_scale(int v) { return broadcast_half(v); }
TSR_INLINE Int load_u8_scale(const void* p) {
    int64_t v;
    __builtin_memcpy(&v, p, sizeof v);
    const Int place = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1,  //
                                       4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
    return _mm256_shuffle_epi8(_mm256_set1_epi64x(v), place);
}
TSR_INLINE Int load_i8_scale(const void* p) { return load_i8_twice(p); }
/// Each row's even (0) or odd (1) halfword as a scale.
TSR_INLINE Int half_scale(Int a, int odd) {
    const Int even_place = _mm256_set1_epi64x(0x0504050401000100);
    const Int per_lane = _mm256_setr_epi64x(0, 0x0808080808080808, 0, 0x0808080808080808);
    return _mm256_shuffle_epi8(a, add8(add8(even_place, per_lane), broadcast_byte(odd ? 2 : 0)));
}

}  // namespace
}  // namespace tessera::kernels
