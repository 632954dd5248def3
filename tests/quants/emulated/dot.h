#pragma once
// AVX-VNNI and AVX-512 VNNI on AVX2: the verbs of quants/arch/avxvnni/dot.h and quants/arch/avx512/wide.h by
// exact widening and pairs of registers, so that the tiles over them are tested wherever AVX2 is.
#include <string.h>

#include "quants/arch/avx2/int_ops.h"

namespace tessera::kernels {
namespace {

constexpr int kTileSums = 8;
/// Sums of a stream's tile of two groups, and whether those of four groups are computed two groups at a time
/// (kAtOnce). AVX2 differs; not measured here.
constexpr int kPairSums = kTileSums;
constexpr bool kSplitsFour = false;
/// As on AVX-512, so that streams of several tiles are tested, too.
constexpr int kStreamTokens = 32;
/// Whether a single token's product is quick enough to leave prefetching to the processor
/// (WeightTuning::hardware_bytes).
constexpr bool kHardwarePrefetch = true;
/// Whether activations that two groups share are packed. Not measured here.
constexpr bool kPacksFewAct = false;
constexpr int kActTile = 1;

using Act = Int;
/// Group g of a block's activations q.
TSR_INLINE Act act_group(const int8_t* q, int g) { return broadcast4(q + 4 * g); }

// Calls and not inlined, because tiles of hundreds of these products, each a dozen instructions, take minutes
// to compile.
#define TSR_CALLED [[gnu::noinline, maybe_unused]] static

/// Even and odd bytes separately, as 16-bit words whose products cannot saturate.
TSR_CALLED Int dot_words(Int sum, Int w, Int a) {
    const Int even = dot_halves(both(w, broadcast_half(0xff)), _mm256_srai_epi16(left16(a, 8), 8));
    const Int odd = dot_halves(right16(w, 8), _mm256_srai_epi16(a, 8));
    return add32(sum, add32(even, odd));
}
TSR_CALLED Int dot_halves(Int sum, Int a, Int b) { return add32(sum, dot_halves(a, b)); }
#undef TSR_CALLED

}  // namespace
}  // namespace tessera::kernels

#include "quants/arch/avxvnni/words.h"

namespace tessera::kernels {
namespace {

struct WideInt {
    Int lo, hi;
};
struct WideFlt {
    Flt lo, hi;
};

using WideAct = WideInt;

TSR_INLINE void pin(WideInt& v) { asm volatile("" : "+x"(v.lo), "+x"(v.hi)); }
TSR_INLINE WideInt load_wide(const void* p) { return {load(p), load(static_cast<const uint8_t*>(p) + 32)}; }
TSR_INLINE WideFlt load_wide_float(const float* p) { return {load_float(p), load_float(p + 8)}; }
TSR_INLINE WideInt join_wide(Int a, Int b) { return {a, b}; }
TSR_INLINE WideFlt join_wide(Flt a, Flt b) { return {a, b}; }
TSR_INLINE WideInt load(const TwoGroups& p) { return {load(p.first), load(p.first + p.apart)}; }
TSR_INLINE void store_groups(float* first, float* second, WideFlt v) {
    store_float(first, v.lo);
    store_float(second, v.hi);
}
TSR_INLINE WideInt bytes_like(const WideInt&, int v) { return {broadcast_byte(v), broadcast_byte(v)}; }
TSR_INLINE WideInt sub8(const WideInt& a, const WideInt& b) { return {sub8(a.lo, b.lo), sub8(a.hi, b.hi)}; }
TSR_INLINE WideInt both(const WideInt& a, const WideInt& b) { return {both(a.lo, b.lo), both(a.hi, b.hi)}; }
TSR_INLINE WideInt either(const WideInt& a, const WideInt& b) {
    return {either(a.lo, b.lo), either(a.hi, b.hi)};
}
TSR_INLINE WideInt right16(const WideInt& a, int n) { return {right16(a.lo, n), right16(a.hi, n)}; }
TSR_INLINE WideInt left16(const WideInt& a, int n) { return {left16(a.lo, n), left16(a.hi, n)}; }
TSR_INLINE WideInt look_up_code(const uint8_t* table, const WideInt& code) {
    return {look_up(twice(table), code.lo), look_up(twice(table), code.hi)};
}
TSR_INLINE WideInt load_u8_halves(const TwoGroups& p) {
    return {load_u8_halves(p.first), load_u8_halves(p.first + p.apart)};
}
TSR_INLINE WideInt load_i8_halves(const TwoGroups& p) {
    return {load_i8_halves(p.first), load_i8_halves(p.first + p.apart)};
}
TSR_INLINE WideFlt load_f16(const TwoGroups& p) { return {load_f16(p.first), load_f16(p.first + p.apart)}; }
TSR_INLINE void store_blocks(uint8_t* p, const WideInt& v) {
    for (int b = 0; b < 4; b++) {
        memcpy(p + 16 * b, reinterpret_cast<const uint8_t*>(&v.lo) + 8 * b, 8);
        memcpy(p + 16 * b + 8, reinterpret_cast<const uint8_t*>(&v.hi) + 8 * b, 8);
    }
}
TSR_INLINE void store_block_halves(uint8_t* p, const WideInt& v) {
    for (int b = 0; b < 2; b++) {
        memcpy(p + 32 * b, reinterpret_cast<const uint8_t*>(&v.lo) + 16 * b, 16);
        memcpy(p + 32 * b + 16, reinterpret_cast<const uint8_t*>(&v.hi) + 16 * b, 16);
    }
}
TSR_INLINE WideInt load_u8_words(RowsOfBoth p) { return {load_u8_words(p.at), load_u8_words(p.at + 8)}; }
TSR_INLINE WideInt load_i8_halves(RowsOfBoth p) { return {load_i8_halves(p.at), load_i8_halves(p.at + 16)}; }
TSR_INLINE WideInt half_scale(const WideInt& a, int odd) {
    return {half_scale(a.lo, odd), half_scale(a.hi, odd)};
}
TSR_INLINE void store_float(float* p, WideFlt v) {
    store_float(p, v.lo);
    store_float(p + 8, v.hi);
}
TSR_INLINE WideInt broadcast_wide(int32_t v) { return {_mm256_set1_epi32(v), _mm256_set1_epi32(v)}; }
TSR_INLINE WideAct wide_act_group(const int8_t* q, int g) {
    return {broadcast4(q + 4 * g), broadcast4(q + 4 * g)};
}
TSR_INLINE WideFlt broadcast_wide_float(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
TSR_INLINE WideFlt as_float(WideInt a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
TSR_INLINE WideInt as_bits(WideFlt a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }

TSR_INLINE WideInt dot_words(WideInt sum, WideInt w, WideInt a) {
    return {dot_words(sum.lo, w.lo, a.lo), dot_words(sum.hi, w.hi, a.hi)};
}
TSR_INLINE WideInt dot_halves(WideInt sum, WideInt a, WideInt b) {
    return {dot_halves(sum.lo, a.lo, b.lo), dot_halves(sum.hi, a.hi, b.hi)};
}
TSR_INLINE WideInt dot_halves(WideInt a, WideInt b) {
    return {dot_halves(a.lo, b.lo), dot_halves(a.hi, b.hi)};
}
TSR_INLINE WideFlt to_float(WideInt a) { return {to_float(a.lo), to_float(a.hi)}; }
TSR_INLINE WideFlt sub(WideFlt a, WideFlt b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
TSR_INLINE WideFlt mul(WideFlt a, WideFlt b) { return {mul(a.lo, b.lo), mul(a.hi, b.hi)}; }
TSR_INLINE WideFlt add_product(WideFlt sum, WideFlt a, WideFlt b) {
    return {add_product(sum.lo, a.lo, b.lo), add_product(sum.hi, a.hi, b.hi)};
}
TSR_INLINE WideFlt sub_product(WideFlt sum, WideFlt a, WideFlt b) {
    return {sub_product(sum.lo, a.lo, b.lo), sub_product(sum.hi, a.hi, b.hi)};
}

}  // namespace
}  // namespace tessera::kernels

#include "quants/arch/avx512/wide_words.h"
