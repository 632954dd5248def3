#pragma once
// Products of bytes with the dot product instructions: four of a row are added to its word at once.
#include "quants/arch/neon/int_ops.h"

namespace tessera::kernels {
namespace {

/// 4 groups of activations, of which the instruction selects one by lane number.
struct Act {
    int8x16_t groups;
    int lane;
};
using Part = Int;  // 1 word a row
using Sum = Int;
/// Sums of one tile: 8 of two registers leave room for operands and activations among 32.
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
constexpr bool kBytesBySigns = false;
constexpr bool kSignedOperands = true;
/// The zero-point correction is the same for every row, so sums start from it (Acts::start_at).
constexpr bool kZeroFirst = true;
constexpr bool kLaneSums = false;
/// Groups whose products may be added: a word has room for a whole block.
constexpr int part_groups(int) { return 8; }

/// Group g of a block's activations q.
TSR_INLINE Act act_group(const int8_t* q, int g) { return {vld1q_s8(q + g / 4 * 16), g % 4}; }
TSR_INLINE uint8x16_t dot_lane(uint8x16_t sum, uint8x16_t w, Act a) {
    const int32x4_t words = signed_words(sum);
    const int8x16_t operand = vreinterpretq_s8_u8(w);
    switch (a.lane) {  // the instruction wants a constant; unrolling makes it one
        case 0:
            return bytes(vdotq_laneq_s32(words, operand, a.groups, 0));
        case 1:
            return bytes(vdotq_laneq_s32(words, operand, a.groups, 1));
        case 2:
            return bytes(vdotq_laneq_s32(words, operand, a.groups, 2));
        default:
            return bytes(vdotq_laneq_s32(words, operand, a.groups, 3));
    }
}
TSR_INLINE Part next_dot(Part sum, Int w, Act a) {
    return {dot_lane(sum.lo, w.lo, a), dot_lane(sum.hi, w.hi, a)};
}
TSR_INLINE Part first_dot(Int w, Act a) { return next_dot(none(), w, a); }
/// Signed halfwords multiplied, neighbours added, as the start of a sum.
TSR_INLINE Part first_halves(Int a, Int b) { return dot_halves(a, b); }
/// Times an integer scale a row: 1 word a row.
TSR_INLINE Int scaled(Part sum, Int scale) { return mul32(sum, scale); }
TSR_INLINE Sum add_scaled(Sum sum, Part part, Int scale) { return add32(sum, mul32(part, scale)); }

}  // namespace
}  // namespace tessera::kernels
