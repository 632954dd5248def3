#pragma once
// Products of bytes in words: a whole block is summed without an intermediate step, and integer scales are
// multiplied in as floats, which is exact below 2^24 (docs/design/numerics.md). Over dot_words of the header
// that includes this.
#include "quants/arch/avx2/int_ops.h"

namespace tessera::kernels {
namespace {

using Part = Int;  // 1 word a row
using Sum = Flt;
constexpr bool kBytesBySigns = false;
constexpr bool kSignedOperands = false;
/// The zero-point correction is the same for every row, so sums start from it.
constexpr bool kZeroFirst = true;
constexpr bool kLaneSums = false;
/// Groups whose products may be added: a word has room for a whole block.
constexpr int part_groups(int) { return 8; }
/// Words start from the bits of this float, whose last place is 1: reinterpreted as a float they are kBias +
/// sum while |sum| < 2^22, and a subtraction replaces a conversion, on a port that products do not need.
constexpr float kBias = 0x1.8p23f;
static_assert(32 * 255 * 127 < 1 << 22);
TSR_INLINE Part bias() { return _mm256_castps_si256(_mm256_set1_ps(kBias)); }
template <class AnyAct>
TSR_INLINE Part first_dot(Int w, const AnyAct& a) {
    return dot_words(bias(), w, a);
}
template <class AnyAct>
TSR_INLINE Part next_dot(Part sum, Int w, const AnyAct& a) {
    return dot_words(sum, w, a);
}
/// The same for signed halfwords.
TSR_INLINE Part first_halves(Int a, Int b) { return dot_halves(bias(), a, b); }
TSR_INLINE Flt unbiased(Part sum) { return _mm256_sub_ps(_mm256_castsi256_ps(sum), _mm256_set1_ps(kBias)); }
TSR_INLINE Flt to_float(Flt sum) { return sum; }
/// Times an integer scale a row.
TSR_INLINE Flt scaled(Part sum, Int scale) { return mul(unbiased(sum), _mm256_castsi256_ps(scale)); }
TSR_INLINE Flt add_scaled(Flt sum, Part part, Int scale) {
    return add_product(sum, unbiased(part), _mm256_castsi256_ps(scale));
}

/// Scales in the form that `scaled` takes: one float a row. All the same; one byte a row (8 at p).
TSR_INLINE Int float_bits(Int words) { return _mm256_castps_si256(to_float(words)); }
TSR_INLINE Int broadcast_scale(int v) { return _mm256_castps_si256(_mm256_set1_ps(static_cast<float>(v))); }
TSR_INLINE Int load_u8_scale(const void* p) { return float_bits(load_u8_words(p)); }
TSR_INLINE Int load_i8_scale(const void* p) {
    return float_bits(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))));
}
/// Each row's even (0) or odd (1) halfword as a scale.
TSR_INLINE Int half_scale(Int a, int odd) {
    return float_bits(_mm256_srai_epi32(odd ? a : _mm256_slli_epi32(a, 16), 16));
}

}  // namespace
}  // namespace tessera::kernels
