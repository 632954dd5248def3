#pragma once
// Operations of the packed integer path on AVX2: 8 rows side by side, one in each 32-bit lane. Int holds 4
// bytes, 2 halfwords or 1 word a row, Flt one float a row.
#include <immintrin.h>
#include <stdint.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels {
namespace {

using Int = __m256i;
using Flt = __m256;

/// Groups that one and two tokens read side by side, unless WeightTuning::streams is larger. One after the
/// other gives more memory bandwidth (four side by side decode up to 7 % slower on Zen 4), which hides the
/// additional loads of activations.
constexpr int kGroupsOfFew = 1;

/// The same place in two groups, `apart` bytes from each other: the address type of wider vectors.
struct TwoGroups {
    const uint8_t* first;
    int64_t apart;
};
TSR_INLINE TwoGroups operator+(const TwoGroups& groups, int64_t n) {
    return {groups.first + n, groups.apart};
}
/// A position in the head of two groups, which has the first group's rows before the second's.
struct RowsOfBoth {
    const uint8_t* at;
};

/// Keeps a value of an unrolled loop in a register, and the loop in the written order.
TSR_INLINE void pin(Int& v) { asm volatile("" : "+x"(v)); }

TSR_INLINE Int load(const void* p) { return _mm256_loadu_si256(static_cast<const Int*>(p)); }
/// The first n words of 4 bytes, 1 <= n <= 8, then zeros; nothing beyond is read. (A copy on the stack would
/// stall the load until its stores retire.)
TSR_INLINE Int load_words(const void* p, int64_t n) {
    const Int places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const Int wanted = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), places);
    return _mm256_maskload_epi32(static_cast<const int*>(p), wanted);
}
TSR_INLINE void store(void* p, Int v) { _mm256_storeu_si256(static_cast<Int*>(p), v); }
TSR_INLINE Flt load_float(const float* p) { return _mm256_loadu_ps(p); }
TSR_INLINE void store_float(float* p, Flt v) { _mm256_storeu_ps(p, v); }
/// 4 bytes of any alignment, to every row.
TSR_INLINE Int broadcast4(const void* p) {
    int32_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}
TSR_INLINE Int broadcast_byte(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
TSR_INLINE Int broadcast_half(int v) { return _mm256_set1_epi16(static_cast<int16_t>(v)); }
TSR_INLINE Flt broadcast_float(const float* p) { return _mm256_broadcast_ss(p); }
/// The same 16 bytes in both halves.
TSR_INLINE Int twice(const void* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
TSR_INLINE void prefetch_l1(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
/// To L2.
TSR_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

TSR_INLINE Int both(Int a, Int b) { return _mm256_and_si256(a, b); }
TSR_INLINE Int either(Int a, Int b) { return _mm256_or_si256(a, b); }
/// Shifts halfwords: bits cross from one byte of a pair into the other, so a mask follows.
TSR_INLINE Int right16(Int a, int n) { return _mm256_srli_epi16(a, n); }
TSR_INLINE Int left16(Int a, int n) { return _mm256_slli_epi16(a, n); }
/// Shifts words.
TSR_INLINE Int right32(Int a, int n) { return _mm256_srli_epi32(a, n); }
TSR_INLINE Int left32(Int a, int n) { return _mm256_slli_epi32(a, n); }
TSR_INLINE Int differ(Int a, Int b) { return _mm256_xor_si256(a, b); }
TSR_INLINE Int add8(Int a, Int b) { return _mm256_add_epi8(a, b); }
TSR_INLINE Int sub8(Int a, Int b) { return _mm256_sub_epi8(a, b); }
TSR_INLINE Int add16(Int a, Int b) { return _mm256_add_epi16(a, b); }
TSR_INLINE Int mul16(Int a, Int b) { return _mm256_mullo_epi16(a, b); }
/// Swaps neighbouring words.
TSR_INLINE Int swap_words(Int a) { return _mm256_shuffle_epi32(a, 0xb1); }
TSR_INLINE Int add32(Int a, Int b) { return _mm256_add_epi32(a, b); }
TSR_INLINE Int sub32(Int a, Int b) { return _mm256_sub_epi32(a, b); }
TSR_INLINE Int none() { return _mm256_setzero_si256(); }
/// Moves the field of `bits` bits at bit `from` of every byte to bit `to` and clears the rest.
TSR_INLINE Int field_at(Int v, int bits, int from, int to) {
    const Int mask = broadcast_byte(((1 << bits) - 1) << to);
    return both(from > to ? right16(v, from - to) : from < to ? left16(v, to - from) : v, mask);
}
/// Puts that field into `code`, whose bits there are zero.
TSR_INLINE Int with_field(Int code, Int v, int bits, int from, int to) {
    return either(code, field_at(v, bits, from, to));
}

/// Unsigned bytes of w times signed bytes of a, neighbours added: 2 halfwords a row. |sum| <= 32767 is the
/// caller's promise.
TSR_INLINE Int dot_bytes(Int w, Int a) { return _mm256_maddubs_epi16(w, a); }
/// Signed halfwords multiplied, neighbours added: 1 word a row.
TSR_INLINE Int dot_halves(Int a, Int b) { return _mm256_madd_epi16(a, b); }
/// table[byte] for bytes 0..15.
TSR_INLINE Int look_up(Int table, Int byte) { return _mm256_shuffle_epi8(table, byte); }

TSR_INLINE Flt to_float(Int a) { return _mm256_cvtepi32_ps(a); }
TSR_INLINE Flt no_float() { return _mm256_setzero_ps(); }
TSR_INLINE Flt mul(Flt a, Flt b) { return _mm256_mul_ps(a, b); }
TSR_INLINE Flt add_product(Flt sum, Flt a, Flt b) { return _mm256_fmadd_ps(a, b, sum); }
TSR_INLINE Flt sub_product(Flt sum, Flt a, Flt b) { return _mm256_fnmadd_ps(a, b, sum); }

/// 8 f16 -> 8 f32.
TSR_INLINE Flt load_f16(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
/// 8 unsigned bytes -> 8 words.
TSR_INLINE Int load_u8_words(const void* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
/// 16 bytes -> 16 halfwords, two a row.
TSR_INLINE Int load_u8_halves(const void* p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
TSR_INLINE Int load_i8_halves(const void* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
/// One signed byte a row (8 at p) in both halfwords of that row.
TSR_INLINE Int load_i8_twice(const void* p) {
    int64_t v;
    __builtin_memcpy(&v, p, sizeof v);
    const Int place = _mm256_setr_epi8(-1, 0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3,  //
                                       -1, 4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(_mm256_set1_epi64x(v), place), 8);
}
/// 8 bytes e at p: the floats 2^(e - 128).
TSR_INLINE Flt load_e8m0_half(const void* p) {
    const Int e = load_u8_words(p);
    const Int normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const Int tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const Int is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, is_tiny));
}

/// Word c of row r becomes word r of row c.
TSR_INLINE void transpose_words(Int (&v)[8]) {
    Int a[8], b[8];
    TSR_UNROLL
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    }
    TSR_UNROLL
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    TSR_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

// ---- codebooks

/// Bytes of w, negated where bit `at` of the byte of `bits` is set.
TSR_INLINE Int negative_where(Int w, Int bits, int at) {
    // The top bit of a byte makes it negative; the lowest bit keeps the other bytes from being 0.
    return _mm256_sign_epi8(w, either(left16(bits, 7 - at), broadcast_byte(1)));
}
/// Byte t of row r becomes byte 8 * t + r.
TSR_INLINE Int bytes_of_rows(Int v) {
    const Int place = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                       0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const Int four_rows = _mm256_shuffle_epi8(v, place);
    return _mm256_permutevar8x32_epi32(four_rows, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
/// 8 bytes, shifted right by 0, Bits, 2 * Bits and 3 * Bits: a mask follows.
template <int Bits>
TSR_INLINE Int spread_rows(uint64_t rows) {
    const Int all = _mm256_set1_epi64x(static_cast<int64_t>(rows));
    return _mm256_srlv_epi64(all, _mm256_setr_epi64x(0, Bits, 2 * Bits, 3 * Bits));
}
/// 16 bytes, once as they are and once with their upper nibbles shifted down: a mask follows.
TSR_INLINE Int spread_nibbles(const void* p) {
    return _mm256_srlv_epi64(twice(p), _mm256_setr_epi64x(0, 0, 4, 4));
}
/// One byte a row (8 at p) in all four of that row.
TSR_INLINE Int row_bytes(const void* p) {
    int64_t v;
    __builtin_memcpy(&v, p, sizeof v);
    const Int place = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3,  //
                                       4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
    return _mm256_shuffle_epi8(_mm256_set1_epi64x(v), place);
}
/// 3 * byte / 256 of every byte.
TSR_INLINE Int top_ternary_digit(Int v) {
    // Rounded up twice, 3/4 of the byte is too large exactly for 85, 170 and 255; subtracting 1 first
    // corrects that.
    const Int less = _mm256_subs_epu8(v, broadcast_byte(1));
    return field_at(_mm256_avg_epu8(less, _mm256_avg_epu8(less, none())), 2, 6, 0);
}
/// 32 bytes and 32 more as the lower and upper bytes of halfwords.
TSR_INLINE void store_halves(uint16_t* p, Int low, Int high) {
    const Int a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
    store(p, _mm256_permute2x128_si256(a, b, 0x20));
    store(p + 16, _mm256_permute2x128_si256(a, b, 0x31));
    // Later single loads from there are faster than extracting from the vectors.
    asm("" : "+m"(*reinterpret_cast<uint16_t(*)[32]>(p)));
}
/// The lanes of two vectors, b's where `mask` has a bit. Blends and broadcast loads run on several ports,
/// where shuffles and insertions wait for the only one that moves lanes.
template <int Mask>
TSR_INLINE Int lanes(Int a, Int b) {
    return _mm256_blend_epi32(a, b, Mask);
}
TSR_INLINE Int broadcast_word(const int8_t* words, size_t index) { return broadcast4(words + 4 * index); }
TSR_INLINE Int broadcast_pair(const int8_t* words, size_t index) {
    int64_t v;
    __builtin_memcpy(&v, words + 8 * index, sizeof v);
    return _mm256_set1_epi64x(v);
}
/// Words of 4 bytes, one a row.
template <class Index>
TSR_INLINE Int look_up_words(const int8_t* words, const Index* at) {
    Int w[8];
    TSR_UNROLL
    for (int r = 0; r < 8; r++) w[r] = broadcast_word(words, at[r]);
    const Int low = lanes<0x0c>(lanes<0x02>(w[0], w[1]), lanes<0x08>(w[2], w[3]));
    const Int high = lanes<0xc0>(lanes<0x20>(w[4], w[5]), lanes<0x80>(w[6], w[7]));
    return lanes<0xf0>(low, high);
}
/// Words of 8 bytes, one a row: the lower halves and the upper ones.
template <class Index>
TSR_INLINE void look_up_pairs(const int8_t* words, const Index* at, Int& low, Int& high) {
    Int w[8];
    TSR_UNROLL
    for (int r = 0; r < 8; r++) w[r] = broadcast_pair(words, at[r]);
    const Int a = lanes<0xf0>(lanes<0x0c>(w[0], w[1]), lanes<0xc0>(w[4], w[5]));
    const Int b = lanes<0xf0>(lanes<0x0c>(w[2], w[3]), lanes<0xc0>(w[6], w[7]));
    low = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
    high = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xdd));
}

/// 64 6-bit codes of IQ4_XS: low nibbles at low[32], pairs at high[16] (quants/pack/formats.h), to out[64].
TSR_INLINE void join_six_bits_16(const uint8_t* low, const uint8_t* high, uint8_t* out, int offset) {
    const Int nibbles = load(low), pairs = twice(high);
    const Int even = _mm256_srlv_epi64(pairs, _mm256_setr_epi64x(0, 0, 4, 4));
    const Int odd = _mm256_srlv_epi64(pairs, _mm256_setr_epi64x(2, 2, 6, 6));
    const Int m4 = broadcast_byte(15), m2 = broadcast_byte(0x30), off = broadcast_byte(offset);
    const Int a = sub8(either(both(nibbles, m4), both(left16(even, 4), m2)), off);
    const Int b = sub8(either(both(right16(nibbles, 4), m4), both(left16(odd, 4), m2)), off);
    store(out, _mm256_permute2x128_si256(a, b, 0x20));
    store(out + 32, _mm256_permute2x128_si256(a, b, 0x31));
}

}  // namespace
}  // namespace tessera::kernels
