#pragma once
// From an exact sum to an output: multiplication by a 24-bit mantissa, a rounding shift, the zero point, the
// clamp. Integers alone, so the result does not depend on who computes it.
#include <cstdint>

#include "src/npu/encoding.h"

namespace tessera::npu {

/// (v + 2^(shift - 1)) >> shift: the nearest, halves up. 1 <= shift <= 62, and the sum fits in 64 bits.
constexpr int64_t round_shift(int64_t v, int shift) { return (v + (int64_t{1} << (shift - 1))) >> shift; }

/// The number mult * 2^-shift.
struct Multiplier {
    int32_t mult = 0;      ///< of a positive number usually in [2^23, 2^24)
    int8_t shift = 1;      ///< 1 to 62
    int8_t lost_bits = 0;  ///< of the mantissa, given up so that products fit in 64 bits

    int64_t apply(int64_t v) const { return round_shift(v * mult, shift); }
};

/// The multiplier nearest to `real`, for sums whose absolute value is at most `bound`: apply() cannot
/// overflow. `real` must be finite, in [0, 2^30); errors name the number.
Result<Multiplier> make_multiplier(double real, int64_t bound);

/// What one output is made of: clamp(zero + apply(sum + bias)). As in device memory, 16 bytes.
struct Requant {
    int64_t bias = 0;
    int32_t mult = 0;
    int32_t shift = 1;
};
static_assert(sizeof(Requant) == 16);

}  // namespace tessera::npu
