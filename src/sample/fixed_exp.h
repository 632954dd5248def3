#pragma once
// exp(x) for x <= 0 as a fixed-point weight. Private to this folder.
//
// The C library's exp may differ in its last bit from one processor to the next (it picks an FMA variant at
// run time), so a polynomial of our own is used: plain IEEE double operations in the default rounding mode,
// hence the same bits everywhere. The weight is an integer, so that sums of weights do not depend on the
// order of the summands. No libm call, no branch.
#include <bit>
#include <cmath>
#include <cstdint>

namespace tessera::sample {

/// The weight of exp(0). 2^24 - 1 candidates of this weight still sum without overflow.
inline constexpr uint64_t kWeightOne = uint64_t{1} << 40;

/// Added to a number below 2^51 in size, it leaves that number, rounded to whole, in the low bits of the sum.
inline constexpr double kRoundToWhole = 0x1.8p52;

/// exp(x) for -700 <= x <= 0; relative error below 4e-16 (Taylor to degree 13 on |r| <= ln(2)/2: the first
/// term left out is below 5e-18, the rest is rounding).
inline double exp_negative(double x) {
    constexpr double kLog2E = 1.4426950408889634;
    // ln 2 in two parts; the upper one ends in 21 zero bits, so that k * kLn2High is exact.
    constexpr double kLn2High = 0x1.62e42fee00000p-1;
    constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
    const double shifted = x * kLog2E + kRoundToWhole;
    const double k = shifted - kRoundToWhole;
    const double r = (x - k * kLn2High) - k * kLn2Low;
    double y = 1.0 / 6227020800;
    y = y * r + 1.0 / 479001600;
    y = y * r + 1.0 / 39916800;
    y = y * r + 1.0 / 3628800;
    y = y * r + 1.0 / 362880;
    y = y * r + 1.0 / 40320;
    y = y * r + 1.0 / 5040;
    y = y * r + 1.0 / 720;
    y = y * r + 1.0 / 120;
    y = y * r + 1.0 / 24;
    y = y * r + 1.0 / 6;
    y = y * r + 0.5;
    y = y * r + 1.0;
    y = y * r + 1.0;
    // 2^k: the low bits of `shifted` hold k; the shift drops all others.
    return y * std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
}

/// A whole number of at most 51 bits out of its sum with kRoundToWhole.
inline uint64_t whole_part(double shifted) {
    return std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(kRoundToWhole);
}

/// fixed_weight() plus kRoundToWhole, for those who go on in double.
inline double shifted_weight(float logit, float max) {
    const double below = static_cast<double>(logit) - static_cast<double>(max);
    const double x = below > -30.0 ? below : -30.0;  // exp(-30) is less than half a unit
    return exp_negative(x) * static_cast<double>(kWeightOne) + kRoundToWhole;
}

/// exp(logit - max) in units of 1/kWeightOne, rounded to nearest: absolute error below 2^-40 of the best
/// candidate's weight. max is finite, logit <= max is finite or -inf.
inline uint64_t fixed_weight(float logit, float max) { return whole_part(shifted_weight(logit, max)); }

/// The weight times (max - logit), rounded to whole, in units of the weight, from shifted_weight(). Below
/// half of kWeightOne, for x exp(-x) < 0.37.
inline uint64_t fixed_moment(double shifted, float logit, float max) {
    const double below = static_cast<double>(max) - static_cast<double>(logit);
    const double distance = below < 30.0 ? below : 30.0;  // there the weight is 0
    return whole_part((shifted - kRoundToWhole) * distance + kRoundToWhole);
}

/// False where fixed_weight() is 0 for this logit and all below it: exp(-28.5) is less than half a unit.
inline bool weighs(float logit, float max) {
    return static_cast<double>(max) - static_cast<double>(logit) < 28.5;
}

/// The weight for any best logit: where that is infinite, all that equal it share alike.
inline uint64_t weight_of(float logit, float max) {
    if (std::isinf(max)) return logit == max ? kWeightOne : 0;
    return fixed_weight(logit, max);
}

}  // namespace tessera::sample
