#pragma once
// Products of bytes on NEON: multiplied into halfwords, which are added as long as that is exact.
#include "quants/arch/neon/int_ops.h"

namespace tessera::kernels {
namespace {

/// 4 groups of 4 signed bytes the same for every row.
using Act = int8x16_t;
/// 4 halfwords a row, 2 rows a register.
struct Part {
    int16x8_t rows01, rows23, rows45, rows67;
};
using Sum = Int;
/// Sums of one tile: 4 of four registers leave room for operands, activations and totals among 32.
constexpr int kTileSums = 4;
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
constexpr bool kBytesBySigns = false;
constexpr bool kSignedOperands = true;
constexpr bool kZeroFirst = false;  // halfwords have no room for it
constexpr bool kLaneSums = false;
/// Groups whose products may be added: each adds one product to a halfword.
constexpr int part_groups(int largest_operand) {
    int n = 8;
    while (n * largest_operand * 127 > 32767) n /= 2;
    return n;
}

/// Keeps a value of an unrolled loop in a register, and the loop in the written order.
TSR_INLINE void pin(Part& v) {
    asm volatile("" : "+w"(v.rows01), "+w"(v.rows23), "+w"(v.rows45), "+w"(v.rows67));
}

/// Group g of a block's activations q.
TSR_INLINE Act act_group(const int8_t* q, int g) {
    int32_t v;
    __builtin_memcpy(&v, q + 4 * g, sizeof v);
    return vreinterpretq_s8_s32(vdupq_n_s32(v));
}
TSR_INLINE Part first_dot(Int w, Act a) {
    const int8x16_t lo = vreinterpretq_s8_u8(w.lo), hi = vreinterpretq_s8_u8(w.hi);
    return {vmull_s8(vget_low_s8(lo), vget_low_s8(a)), vmull_high_s8(lo, a),
            vmull_s8(vget_low_s8(hi), vget_low_s8(a)), vmull_high_s8(hi, a)};
}
TSR_INLINE Part next_dot(Part sum, Int w, Act a) {
    const int8x16_t lo = vreinterpretq_s8_u8(w.lo), hi = vreinterpretq_s8_u8(w.hi);
    return {vmlal_s8(sum.rows01, vget_low_s8(lo), vget_low_s8(a)), vmlal_high_s8(sum.rows23, lo, a),
            vmlal_s8(sum.rows45, vget_low_s8(hi), vget_low_s8(a)), vmlal_high_s8(sum.rows67, hi, a)};
}
/// The sum of each row's halfwords: 1 word a row.
TSR_INLINE Int whole(Part sum) {
    return {bytes(vpaddq_s32(vpaddlq_s16(sum.rows01), vpaddlq_s16(sum.rows23))),
            bytes(vpaddq_s32(vpaddlq_s16(sum.rows45), vpaddlq_s16(sum.rows67)))};
}
/// Times an integer scale a row: 1 word a row.
TSR_INLINE Int scaled(Part sum, Int scale) { return mul32(whole(sum), scale); }
TSR_INLINE Sum add_scaled(Sum sum, Part part, Int scale) { return add32(sum, scaled(part, scale)); }

}  // namespace
}  // namespace tessera::kernels
