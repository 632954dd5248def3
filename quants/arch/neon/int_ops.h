#pragma once
// Operations of the packed integer path on NEON: 8 rows side by side, one in each 32-bit lane of two
// registers. Int holds 4 bytes, 2 halfwords or 1 word a row, Flt one float a row. Products of bytes are in
// dot.h of this folder, and of dotprod.
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels {
namespace {

/// Rows 0-3 and rows 4-7.
struct Int {
    uint8x16_t lo, hi;
};
struct Flt {
    float32x4_t lo, hi;
};

/// Groups that one and two tokens read side by side: they share the loads of activations.
constexpr int kGroupsOfFew = 4;

// Reinterpret the bytes of a register as other numbers, and back.
TSR_INLINE uint16x8_t halves(uint8x16_t v) { return vreinterpretq_u16_u8(v); }
TSR_INLINE int16x8_t signed_halves(uint8x16_t v) { return vreinterpretq_s16_u8(v); }
TSR_INLINE uint32x4_t words(uint8x16_t v) { return vreinterpretq_u32_u8(v); }
TSR_INLINE int32x4_t signed_words(uint8x16_t v) { return vreinterpretq_s32_u8(v); }
TSR_INLINE uint8x16_t bytes(uint16x8_t v) { return vreinterpretq_u8_u16(v); }
TSR_INLINE uint8x16_t bytes(int16x8_t v) { return vreinterpretq_u8_s16(v); }
TSR_INLINE uint8x16_t bytes(uint32x4_t v) { return vreinterpretq_u8_u32(v); }
TSR_INLINE uint8x16_t bytes(int32x4_t v) { return vreinterpretq_u8_s32(v); }

/// Keeps a value of an unrolled loop in a register, and the loop in the written order.
TSR_INLINE void pin(Int& v) { asm volatile("" : "+w"(v.lo), "+w"(v.hi)); }

TSR_INLINE uint8x16_t load16(const void* p) { return vld1q_u8(static_cast<const uint8_t*>(p)); }
TSR_INLINE Int load(const void* p) { return {load16(p), load16(static_cast<const uint8_t*>(p) + 16)}; }
/// The first n <= 8 words of 4 bytes, then zeros; nothing beyond is read.
TSR_INLINE Int load_words(const void* p, int64_t n) {
    uint8_t words[32] = {};
    __builtin_memcpy(words, p, static_cast<size_t>(4 * n));
    return load(words);
}
TSR_INLINE void store(void* p, Int v) {
    vst1q_u8(static_cast<uint8_t*>(p), v.lo);
    vst1q_u8(static_cast<uint8_t*>(p) + 16, v.hi);
}
TSR_INLINE Flt load_float(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
TSR_INLINE void store_float(float* p, Flt v) {
    vst1q_f32(p, v.lo);
    vst1q_f32(p + 4, v.hi);
}
/// 4 bytes of any alignment, to every row.
TSR_INLINE Int broadcast4(const void* p) {
    uint32_t v;
    __builtin_memcpy(&v, p, sizeof v);
    const uint8x16_t all = bytes(vdupq_n_u32(v));
    return {all, all};
}
TSR_INLINE Int broadcast_byte(int v) {
    const uint8x16_t all = vdupq_n_u8(static_cast<uint8_t>(v));
    return {all, all};
}
TSR_INLINE Int broadcast_half(int v) {
    const uint8x16_t all = bytes(vdupq_n_s16(static_cast<int16_t>(v)));
    return {all, all};
}
TSR_INLINE Flt broadcast_float(const float* p) {
    const float32x4_t all = vld1q_dup_f32(p);
    return {all, all};
}
/// The same 16 bytes for both halves of the rows.
TSR_INLINE Int twice(const void* p) { return {load16(p), load16(p)}; }
TSR_INLINE void prefetch_l1(const void* p) { __builtin_prefetch(p); }
/// To L2.
TSR_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

TSR_INLINE Int both(Int a, Int b) { return {vandq_u8(a.lo, b.lo), vandq_u8(a.hi, b.hi)}; }
TSR_INLINE Int either(Int a, Int b) { return {vorrq_u8(a.lo, b.lo), vorrq_u8(a.hi, b.hi)}; }
/// Shifts halfwords: bits cross from one byte of a pair into the other, so a mask follows.
TSR_INLINE Int right16(Int a, int n) { return {bytes(halves(a.lo) >> n), bytes(halves(a.hi) >> n)}; }
TSR_INLINE Int left16(Int a, int n) { return {bytes(halves(a.lo) << n), bytes(halves(a.hi) << n)}; }
/// Shifts words.
TSR_INLINE Int right32(Int a, int n) { return {bytes(words(a.lo) >> n), bytes(words(a.hi) >> n)}; }
TSR_INLINE Int left32(Int a, int n) { return {bytes(words(a.lo) << n), bytes(words(a.hi) << n)}; }
TSR_INLINE Int differ(Int a, Int b) { return {veorq_u8(a.lo, b.lo), veorq_u8(a.hi, b.hi)}; }
TSR_INLINE Int add8(Int a, Int b) { return {vaddq_u8(a.lo, b.lo), vaddq_u8(a.hi, b.hi)}; }
TSR_INLINE Int sub8(Int a, Int b) { return {vsubq_u8(a.lo, b.lo), vsubq_u8(a.hi, b.hi)}; }
TSR_INLINE Int add32(Int a, Int b) {
    return {bytes(vaddq_u32(words(a.lo), words(b.lo))), bytes(vaddq_u32(words(a.hi), words(b.hi)))};
}
TSR_INLINE Int sub32(Int a, Int b) {
    return {bytes(vsubq_u32(words(a.lo), words(b.lo))), bytes(vsubq_u32(words(a.hi), words(b.hi)))};
}
TSR_INLINE Int mul32(Int a, Int b) {
    return {bytes(vmulq_u32(words(a.lo), words(b.lo))), bytes(vmulq_u32(words(a.hi), words(b.hi)))};
}
TSR_INLINE Int none() { return {vdupq_n_u8(0), vdupq_n_u8(0)}; }
TSR_INLINE uint8x16_t moved(uint8x16_t v, int from, int to) {
    return from > to ? v >> (from - to) : from < to ? v << (to - from) : v;
}
/// Moves the field of `bits` bits at bit `from` of every byte to bit `to` and clears the rest, unless the
/// shift does so.
TSR_INLINE Int field_at(Int v, int bits, int from, int to) {
    const Int at = {moved(v.lo, from, to), moved(v.hi, from, to)};
    if ((to == 0 && from + bits == 8) || (from == 0 && to + bits == 8)) return at;
    return both(at, broadcast_byte(((1 << bits) - 1) << to));
}
/// Puts that field into `code`, whose bits there are zero.
TSR_INLINE Int with_field(Int code, Int v, int bits, int from, int to) {
    const uint8x16_t mask = broadcast_byte(((1 << bits) - 1) << to).lo;
    return {vbslq_u8(mask, moved(v.lo, from, to), code.lo), vbslq_u8(mask, moved(v.hi, from, to), code.hi)};
}

TSR_INLINE uint8x16_t dot_halves(uint8x16_t a, uint8x16_t b) {
    const int16x8_t x = signed_halves(a), y = signed_halves(b);
    return bytes(vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
}
/// Signed halfwords multiplied, neighbours added: 1 word a row.
TSR_INLINE Int dot_halves(Int a, Int b) { return {dot_halves(a.lo, b.lo), dot_halves(a.hi, b.hi)}; }
/// table[byte] for bytes 0..15.
TSR_INLINE Int look_up(Int table, Int byte) {
    return {vqtbl1q_u8(table.lo, byte.lo), vqtbl1q_u8(table.hi, byte.hi)};
}

TSR_INLINE Flt to_float(Int a) {
    return {vcvtq_f32_s32(signed_words(a.lo)), vcvtq_f32_s32(signed_words(a.hi))};
}
TSR_INLINE Flt no_float() { return {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)}; }
TSR_INLINE Flt mul(Flt a, Flt b) { return {vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)}; }
TSR_INLINE Flt add_product(Flt sum, Flt a, Flt b) {
    return {vfmaq_f32(sum.lo, a.lo, b.lo), vfmaq_f32(sum.hi, a.hi, b.hi)};
}
TSR_INLINE Flt sub_product(Flt sum, Flt a, Flt b) {
    return {vfmsq_f32(sum.lo, a.lo, b.lo), vfmsq_f32(sum.hi, a.hi, b.hi)};
}

/// 8 f16 -> 8 f32.
TSR_INLINE Flt load_f16(const void* p) {
    const float16x8_t h = vreinterpretq_f16_u8(load16(p));
    return {vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)};
}
/// 8 signed bytes as halfwords.
TSR_INLINE int16x8_t load_i8_row(const void* p) { return vmovl_s8(vld1_s8(static_cast<const int8_t*>(p))); }
/// 8 unsigned bytes -> 8 words.
TSR_INLINE Int load_u8_words(const void* p) {
    const uint16x8_t v = vmovl_u8(vld1_u8(static_cast<const uint8_t*>(p)));
    return {bytes(vmovl_u16(vget_low_u16(v))), bytes(vmovl_high_u16(v))};
}
/// 16 bytes -> 16 halfwords, two a row.
TSR_INLINE Int load_u8_halves(const void* p) {
    const uint8x16_t v = load16(p);
    return {bytes(vmovl_u8(vget_low_u8(v))), bytes(vmovl_high_u8(v))};
}
TSR_INLINE Int load_i8_halves(const void* p) {
    const int8x16_t v = vreinterpretq_s8_u8(load16(p));
    return {bytes(vmovl_s8(vget_low_s8(v))), bytes(vmovl_high_s8(v))};
}
/// One signed byte a row (8 at p) in both halfwords of that row.
TSR_INLINE Int load_i8_twice(const void* p) {
    const int16x8_t v = load_i8_row(p);
    return {bytes(vzip1q_s16(v, v)), bytes(vzip2q_s16(v, v))};
}

/// Scales in the form that `scaled` takes: one word a row. All the same; one byte a row (8 at p).
TSR_INLINE Int broadcast_scale(int v) {
    const uint8x16_t all = bytes(vdupq_n_s32(v));
    return {all, all};
}
TSR_INLINE Int load_u8_scale(const void* p) { return load_u8_words(p); }
TSR_INLINE Int load_i8_scale(const void* p) {
    const int16x8_t v = load_i8_row(p);
    return {bytes(vmovl_s16(vget_low_s16(v))), bytes(vmovl_high_s16(v))};
}
TSR_INLINE uint8x16_t half_scale(uint8x16_t a, int odd) {
    return bytes((odd ? signed_words(a) : vshlq_n_s32(signed_words(a), 16)) >> 16);
}
/// Each row's even (0) or odd (1) halfword as a scale.
TSR_INLINE Int half_scale(Int a, int odd) { return {half_scale(a.lo, odd), half_scale(a.hi, odd)}; }

TSR_INLINE float32x4_t e8m0_half(uint32x4_t e) {
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    const uint32x4_t tiny = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), tiny, normal));
}
/// 8 bytes e at p: the floats 2^(e - 128).
TSR_INLINE Flt load_e8m0_half(const void* p) {
    const Int e = load_u8_words(p);
    return {e8m0_half(words(e.lo)), e8m0_half(words(e.hi))};
}

TSR_INLINE void transpose_words4(uint8x16_t& a, uint8x16_t& b, uint8x16_t& c, uint8x16_t& d) {
    const uint32x4_t ac_low = vzip1q_u32(words(a), words(c)), ac_high = vzip2q_u32(words(a), words(c));
    const uint32x4_t bd_low = vzip1q_u32(words(b), words(d)), bd_high = vzip2q_u32(words(b), words(d));
    a = bytes(vzip1q_u32(ac_low, bd_low));
    b = bytes(vzip2q_u32(ac_low, bd_low));
    c = bytes(vzip1q_u32(ac_high, bd_high));
    d = bytes(vzip2q_u32(ac_high, bd_high));
}
/// Word c of row r becomes word r of row c.
TSR_INLINE void transpose_words(Int (&v)[8]) {
    TSR_UNROLL
    for (int i = 0; i < 8; i += 4) {
        transpose_words4(v[i].lo, v[i + 1].lo, v[i + 2].lo, v[i + 3].lo);
        transpose_words4(v[i].hi, v[i + 1].hi, v[i + 2].hi, v[i + 3].hi);
    }
    TSR_UNROLL
    for (int i = 0; i < 4; i++) {
        const uint8x16_t corner = v[i].hi;
        v[i].hi = v[i + 4].lo;
        v[i + 4].lo = corner;
    }
}

// ---- codebooks

TSR_INLINE uint8x16_t negative_where(uint8x16_t w, uint8x16_t bits, int at) {
    const int8x16_t on_top = vreinterpretq_s8_u8(bits << (7 - at));
    const uint8x16_t mask = vreinterpretq_u8_s8(vshrq_n_s8(on_top, 7));
    return vsubq_u8(veorq_u8(w, mask), mask);
}
/// Bytes of w, negated where bit `at` of the byte of `bits` is set.
TSR_INLINE Int negative_where(Int w, Int bits, int at) {
    return {negative_where(w.lo, bits.lo, at), negative_where(w.hi, bits.hi, at)};
}
/// Byte t of row r becomes byte 8 * t + r.
TSR_INLINE Int bytes_of_rows(Int v) {
    static constexpr uint8_t kPlace[32] = {0, 4, 8,  12, 16, 20, 24, 28, 1, 5, 9,  13, 17, 21, 25, 29,
                                           2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31};
    const uint8x16x2_t rows = {{v.lo, v.hi}};
    return {vqtbl2q_u8(rows, load16(kPlace)), vqtbl2q_u8(rows, load16(kPlace + 16))};
}
/// 8 bytes, shifted right by 0, Bits, 2 * Bits and 3 * Bits: a mask follows.
template <int Bits>
TSR_INLINE Int spread_rows(uint64_t rows) {
    const auto both_of = [](uint64_t a, uint64_t b) {
        return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(a), vcreate_u64(b)));
    };
    return {both_of(rows, rows >> Bits), both_of(rows >> (2 * Bits), rows >> (3 * Bits))};
}
/// 16 bytes, once as they are and once with their upper nibbles shifted down: a mask follows.
TSR_INLINE Int spread_nibbles(const void* p) {
    const uint8x16_t v = load16(p);
    return {v, vshrq_n_u8(v, 4)};
}
/// One byte a row (8 at p) in all four of that row.
TSR_INLINE Int row_bytes(const void* p) {
    const uint8x16_t each = bytes(vdupq_n_u32(0x01010101));
    return mul32(load_u8_words(p), {each, each});
}
TSR_INLINE uint8x16_t top_ternary_digit(uint8x16_t v) {
    const uint8x16_t less = vqsubq_u8(v, vdupq_n_u8(1));
    return vshrq_n_u8(vrhaddq_u8(less, vrhaddq_u8(less, vdupq_n_u8(0))), 6);
}
/// 3 * byte / 256 of every byte: 3/4 of 1 less, rounded up twice.
TSR_INLINE Int top_ternary_digit(Int v) { return {top_ternary_digit(v.lo), top_ternary_digit(v.hi)}; }
/// 32 bytes and 32 more as the lower and upper bytes of halfwords.
TSR_INLINE void store_halves(uint16_t* p, Int low, Int high) {
    store(p, {vzip1q_u8(low.lo, high.lo), vzip2q_u8(low.lo, high.lo)});
    store(p + 16, {vzip1q_u8(low.hi, high.hi), vzip2q_u8(low.hi, high.hi)});
}
/// Words of 4 bytes, one a row.
template <class Index>
TSR_INLINE Int look_up_words(const int8_t* words, const Index* at) {
    uint32_t v[8];
    TSR_UNROLL
    for (int r = 0; r < 8; r++) __builtin_memcpy(v + r, words + 4 * at[r], 4);
    return {bytes(vld1q_u32(v)), bytes(vld1q_u32(v + 4))};
}
TSR_INLINE uint32x4_t two_words(const int8_t* words, int first, int second) {
    return vreinterpretq_u32_s8(vcombine_s8(vld1_s8(words + 8 * first), vld1_s8(words + 8 * second)));
}
/// Words of 8 bytes, one a row: the lower halves and the upper ones.
template <class Index>
TSR_INLINE void look_up_pairs(const int8_t* words, const Index* at, Int& low, Int& high) {
    const uint32x4_t a = two_words(words, at[0], at[1]), b = two_words(words, at[2], at[3]);
    const uint32x4_t c = two_words(words, at[4], at[5]), d = two_words(words, at[6], at[7]);
    low = {bytes(vuzp1q_u32(a, b)), bytes(vuzp1q_u32(c, d))};
    high = {bytes(vuzp2q_u32(a, b)), bytes(vuzp2q_u32(c, d))};
}

/// 64 6-bit codes of IQ4_XS: low nibbles at low[32], pairs at high[16] (quants/pack/formats.h), to out[64].
TSR_INLINE void join_six_bits_16(const uint8_t* low, const uint8_t* high, uint8_t* out, int offset) {
    const uint8x16_t pairs = load16(high), off = vdupq_n_u8(static_cast<uint8_t>(offset));
    TSR_UNROLL
    for (int f = 0; f < 4; f++) {
        const uint8x16_t nibbles = load16(low + f / 2 * 16);
        const uint8x16_t bottom = f % 2 ? vshrq_n_u8(nibbles, 4) : vandq_u8(nibbles, vdupq_n_u8(15));
        const uint8x16_t top = vandq_u8((pairs >> (2 * f)) << 4, vdupq_n_u8(0x30));
        vst1q_u8(out + 16 * f, vsubq_u8(vorrq_u8(bottom, top), off));
    }
}

}  // namespace
}  // namespace tessera::kernels
