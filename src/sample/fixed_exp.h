#pragma once
// exp(x) for x <= 0 as a fixed-point weight. Private to this folder.
//
// The C library's exp may differ in its last bit between processors, as it selects an FMA variant at run
// time. This polynomial uses plain IEEE operations in the default rounding mode and gives the same bits
// everywhere. The weight is an integer, so that sums of weights do not depend on the order of the summands.
// No libm calls, no branches, and mostly float, so that rows of 262144 logits are computed with vector
// instructions for every token (passes.h). Units compiled for one instruction set include this file: it may
// include C headers only, and every function is inlined, so that the linker cannot keep a copy compiled for a
// newer processor.
#include <stdint.h>

namespace tessera::sample {

#define TSR_SAMPLE_INLINE [[gnu::always_inline]] static inline

inline constexpr float kBannedLogit = -__builtin_huge_valf();

/// The weight of exp(0). 2^24 - 1 candidates of this weight still sum without overflow.
inline constexpr uint64_t kWeightOne = uint64_t{1} << 40;

/// Added to a number of absolute value below 2^51, it leaves the number rounded to an integer in the sum's
/// low bits.
inline constexpr double kRoundToWhole = 0x1.8p52;

/// kWeightOne * exp(x) for x <= 0; x below -30, where the result is less than 0.1, counts as -30. The
/// relative error is below 4e-7 for -4 <= x, below 2e-6 for all x, and 0 for 0.
TSR_SAMPLE_INLINE float scaled_exp(float x) {
    constexpr float kLog2E = 1.44269504f;
    constexpr float kRoundFloatToWhole = 0x1.8p23f;
    const float t = (x > -30.0f ? x : -30.0f) * kLog2E;
    const float shifted = t + kRoundFloatToWhole;  // its low bits hold t rounded to an integer
    const float f = t - (shifted - kRoundFloatToWhole);
    // 2^f for |f| <= 1/2: the polynomial of degree 5 with the smallest relative error, 1e-7, that is 1 at 0.
    float y = 0x1.5bba14p-10f * 0x1p40f;
    y = y * f + 0x1.3cea88p-7f * 0x1p40f;
    y = y * f + 0x1.c6b752p-5f * 0x1p40f;
    y = y * f + 0x1.ebf9bcp-3f * 0x1p40f;
    y = y * f + 0x1.62e42ap-1f * 0x1p40f;
    y = y * f + 0x1p40f;
    // Times 2^k: the shift drops all other bits of `shifted`, and k is added to the exponent.
    return __builtin_bit_cast(
        float, __builtin_bit_cast(uint32_t, y) + (__builtin_bit_cast(uint32_t, shifted) << 23));
}

/// x, below 2^51, rounded to an integer in the low bits. The high bits are the same for all x, so that many
/// can be summed before these are subtracted.
TSR_SAMPLE_INLINE uint64_t shifted_bits(float x) {
    return __builtin_bit_cast(uint64_t, static_cast<double>(x) + kRoundToWhole);
}
TSR_SAMPLE_INLINE uint64_t whole_part(float x) {
    return shifted_bits(x) - __builtin_bit_cast(uint64_t, kRoundToWhole);
}

/// exp(logit - max) in units of 1/kWeightOne, rounded to an integer, with the error of scaled_exp(). max is
/// finite; logit <= max is finite or -inf.
TSR_SAMPLE_INLINE uint64_t fixed_weight(float logit, float max) {
    return whole_part(scaled_exp(logit - max));
}

/// The weight times (max - logit), in units of the weight, not yet rounded. Below half of kWeightOne, for
/// x exp(-x) < 0.37.
TSR_SAMPLE_INLINE float scaled_moment(float logit, float max) {
    const float below = logit - max;
    return scaled_exp(below) * (below > -30.0f ? -below : 0.0f);  // below that the weight is 0
}

/// False where fixed_weight() is 0 for this logit and all below it: exp(-28.5) is less than half a unit.
TSR_SAMPLE_INLINE bool weighs(float logit, float max) {
    return static_cast<double>(max) - static_cast<double>(logit) < 28.5;
}

/// The weight for any best logit: if it is infinite, all logits equal to it have the same weight.
TSR_SAMPLE_INLINE uint64_t weight_of(float logit, float max) {
    if (max == -kBannedLogit || max == kBannedLogit) return logit == max ? kWeightOne : 0;
    return fixed_weight(logit, max);
}

}  // namespace tessera::sample
