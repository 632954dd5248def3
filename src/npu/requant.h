#pragma once
// Requantization of an exact sum to an output: multiplication by a 24-bit mantissa, rounding shift, zero
// point, clamp. All in integers, so the result is the same for every implementation.
#include <cstdint>

#include "src/npu/encoding.h"

namespace tessera::npu {

/// (v + 2^(shift - 1)) >> shift: rounds to nearest, halves up. 1 <= shift <= 62. A sum that exceeds 64 bits
/// wraps; the bounds proved by make_multiplier() exclude that.
constexpr int64_t round_shift(int64_t v, int shift) {
    return static_cast<int64_t>(static_cast<uint64_t>(v) + (uint64_t{1} << (shift - 1))) >> shift;
}
/// a * b, wrapping in the same way.
constexpr int64_t product(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/// How exact sums are converted to outputs.
enum class OutputMode : uint8_t {
    Exact,  ///< all bits of the sum, 24 bits of the factor
    Hmx,    ///< as the matrix unit is thought to: of 16-bit activations without 8 bits of the sum, 12 of the
            ///< factor
};

/// The number mult * 2^-shift.
struct Multiplier {
    int32_t mult = 0;      ///< for positive numbers usually in [2^23, 2^24)
    int8_t shift = 1;      ///< 1 to 62
    int8_t lost_bits = 0;  ///< bits of the mantissa dropped so that products fit in 64 bits

    int64_t apply(int64_t v) const { return round_shift(product(v, mult), shift); }
};

/// The multiplier nearest to `real`, for sums whose absolute value is at most `bound`: apply() cannot
/// overflow. `real` must be finite, in [0, 2^30); errors name the number. n_bits: of the mantissa.
Result<Multiplier> make_multiplier(double real, int64_t bound, int n_bits = 24);

/// The multiplier of a mode for sums of products with activations of bits_in bits; `bound` limits |sum +
/// bias|. Its unit is that of the sum, or 256 times that for Hmx with 16-bit activations. An Hmx multiplier
/// has at most 16 bits.
Result<Multiplier> make_output_multiplier(OutputMode mode, double real, int64_t bound, int bits_in);

/// The sum that Hmx mode rescales: `high` and `low` are the sums of products with each byte of the
/// activations.
constexpr int64_t hmx_sum(int64_t high, int64_t low, int64_t bias) { return high + (low >> 8) + bias / 256; }

/// The record of one output: clamp(zero + apply(sum + bias)). 16 bytes, as in device memory.
struct Requant {
    int64_t bias = 0;
    int32_t mult = 0;
    int32_t shift = 1;
};
static_assert(sizeof(Requant) == 16);

/// The record in Hmx mode, whose activations are not centred: 256 * high + low = sum + 32768 * weight_sum,
/// where `sum` is the sum with 16-bit activations centred at 32768.
struct HmxRequant {
    int64_t bias = 0;
    int32_t weight_sum = 0;
    uint16_t mult = 0;
    uint16_t shift = 1;
};
static_assert(sizeof(HmxRequant) == 16);

}  // namespace tessera::npu
