#pragma once
// From an exact sum to an output: multiplication by a 24-bit mantissa, a rounding shift, the zero point, the
// clamp. Integers alone, so the result does not depend on who computes it.
#include <cstdint>

#include "src/npu/encoding.h"

namespace tessera::npu {

/// (v + 2^(shift - 1)) >> shift: the nearest, halves up. 1 <= shift <= 62. A sum that does not fit in 64 bits
/// wraps, which only numbers do that no proof was made for.
constexpr int64_t round_shift(int64_t v, int shift) {
    return static_cast<int64_t>(static_cast<uint64_t>(v) + (uint64_t{1} << (shift - 1))) >> shift;
}
/// a * b, wrapping likewise.
constexpr int64_t product(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/// How exact sums become outputs.
enum class OutputMode : uint8_t {
    Exact,  ///< with all bits of the sum and 24 of the factor
    Hmx,    ///< as the matrix unit is thought to: of 16-bit activations without 8 bits of the sum, 12 of the
            ///< factor
};

/// The number mult * 2^-shift.
struct Multiplier {
    int32_t mult = 0;      ///< of a positive number usually in [2^23, 2^24)
    int8_t shift = 1;      ///< 1 to 62
    int8_t lost_bits = 0;  ///< of the mantissa, given up so that products fit in 64 bits

    int64_t apply(int64_t v) const { return round_shift(product(v, mult), shift); }
};

/// The multiplier nearest to `real`, for sums whose absolute value is at most `bound`: apply() cannot
/// overflow. `real` must be finite, in [0, 2^30); errors name the number. n_bits: of the mantissa.
Result<Multiplier> make_multiplier(double real, int64_t bound, int n_bits = 24);

/// That of a mode, for sums of products with activations of so many bits, which with their bias are at most
/// `bound`: in units of the sum, of Hmx with 16 bits 256 of them. Of Hmx it has at most 16 bits.
Result<Multiplier> make_output_multiplier(OutputMode mode, double real, int64_t bound, int bits_in);

/// What Hmx multiplies: `high` and `low` are the sums of the products with each byte of the activations.
constexpr int64_t hmx_sum(int64_t high, int64_t low, int64_t bias) { return high + (low >> 8) + bias / 256; }

/// What one output is made of: clamp(zero + apply(sum + bias)). As in device memory, 16 bytes.
struct Requant {
    int64_t bias = 0;
    int32_t mult = 0;
    int32_t shift = 1;
};
static_assert(sizeof(Requant) == 16);

/// The same in the mode Hmx, of activations that are not centred: 256 times the high sum and the low sum are
/// sum + 32768 weight_sum, where `sum` is that of 16 bits around 32768.
struct HmxRequant {
    int64_t bias = 0;
    int32_t weight_sum = 0;
    uint16_t mult = 0;
    uint16_t shift = 1;
};
static_assert(sizeof(HmxRequant) == 16);

}  // namespace tessera::npu
