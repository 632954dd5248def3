#pragma once
// Vectors of two groups of 8 rows on AVX-512: the operations of avx2/int_ops.h and of words.h that panel
// tiles need, on 16 lanes.
#include "quants/arch/avx512/dot.h"

namespace tessera::kernels {
namespace {

using WideInt = __m512i;
using WideFlt = __m512;

TSR_INLINE void pin(WideInt& v) { asm volatile("" : "+v"(v)); }
TSR_INLINE WideInt load_wide(const void* p) { return _mm512_loadu_si512(p); }
TSR_INLINE WideFlt load_wide_float(const float* p) { return _mm512_loadu_ps(p); }
TSR_INLINE WideInt join_wide(Int a, Int b) { return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1); }
TSR_INLINE WideFlt join_wide(Flt a, Flt b) {
    return _mm512_castpd_ps(
        _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(a)), _mm256_castps_pd(b), 1));
}
TSR_INLINE WideInt load(const TwoGroups& p) { return join_wide(load(p.first), load(p.first + p.apart)); }
TSR_INLINE void store_float(float* p, WideFlt v) { _mm512_storeu_ps(p, v); }
/// Stores the sums of a first group and of a second one.
TSR_INLINE void store_groups(float* first, float* second, WideFlt v) {
    store_float(first, _mm512_castps512_ps256(v));
    store_float(second, _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
}
TSR_INLINE WideInt broadcast_wide(int32_t v) { return _mm512_set1_epi32(v); }
TSR_INLINE WideFlt broadcast_wide_float(float v) { return _mm512_set1_ps(v); }
TSR_INLINE WideFlt as_float(WideInt a) { return _mm512_castsi512_ps(a); }
TSR_INLINE WideInt as_bits(WideFlt a) { return _mm512_castps_si512(a); }

// For operands (packed_unpack.inl): as the operations on one group's vector.

/// Halfwords: the shift counts are constants after inlining.
using WideHalves = uint16_t __attribute__((vector_size(64)));
TSR_INLINE WideInt bytes_like(WideInt, int v) { return _mm512_set1_epi8(static_cast<char>(v)); }
TSR_INLINE WideInt sub8(WideInt a, WideInt b) { return _mm512_sub_epi8(a, b); }
TSR_INLINE WideInt both(WideInt a, WideInt b) { return _mm512_and_si512(a, b); }
TSR_INLINE WideInt either(WideInt a, WideInt b) { return _mm512_or_si512(a, b); }
TSR_INLINE WideInt right16(WideInt a, int n) {
    return reinterpret_cast<WideInt>(reinterpret_cast<WideHalves>(a) >> n);
}
TSR_INLINE WideInt left16(WideInt a, int n) {
    return reinterpret_cast<WideInt>(reinterpret_cast<WideHalves>(a) << n);
}
TSR_INLINE WideInt look_up_code(const uint8_t* table, WideInt code) {
    const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), code);
}
TSR_INLINE __m256i load_halves_of_both(const TwoGroups& p) {
    const auto* first = reinterpret_cast<const __m128i*>(p.first);
    const auto* second = reinterpret_cast<const __m128i*>(p.first + p.apart);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(first)), _mm_loadu_si128(second),
                                   1);
}
TSR_INLINE WideFlt load_f16(const TwoGroups& p) { return _mm512_cvtph_ps(load_halves_of_both(p)); }
TSR_INLINE WideInt load_u8_halves(const TwoGroups& p) { return _mm512_cvtepu8_epi16(load_halves_of_both(p)); }
TSR_INLINE WideInt load_i8_halves(const TwoGroups& p) { return _mm512_cvtepi8_epi16(load_halves_of_both(p)); }
TSR_INLINE WideInt half_scale(WideInt a, int odd) {
    return as_bits(_mm512_cvtepi32_ps(_mm512_srai_epi32(odd ? a : _mm512_slli_epi32(a, 16), 16)));
}

/// Interleaves four blocks of 8 bytes of one group with those of the other, so that each block has both
/// groups; and two blocks of 16 bytes.
TSR_INLINE void store_blocks(uint8_t* p, WideInt v) {
    _mm512_storeu_si512(p, _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), v));
}
TSR_INLINE void store_block_halves(uint8_t* p, WideInt v) {
    _mm512_storeu_si512(p, _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 4, 5, 2, 3, 6, 7), v));
}
TSR_INLINE WideInt load_u8_words(RowsOfBoth p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p.at)));
}
TSR_INLINE WideInt load_i8_halves(RowsOfBoth p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p.at)));
}

/// As Act, for two groups.
struct WideAct {
    const int8_t* at;
};
TSR_INLINE WideAct wide_act_group(const int8_t* q, int g) { return {q + 4 * g}; }
TSR_INLINE WideInt in_register(WideAct a) {
    int32_t v;
    __builtin_memcpy(&v, a.at, sizeof v);
    return broadcast_wide(v);
}

TSR_INLINE WideInt dot_words(WideInt sum, WideInt w, WideInt a) { return _mm512_dpbusd_epi32(sum, w, a); }
TSR_INLINE WideInt dot_words(WideInt sum, WideInt w, WideAct a) {
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(sum)
        : "v"(w), "m"(*reinterpret_cast<const int8_t(*)[4]>(a.at)));
    return sum;
}
TSR_INLINE WideInt dot_halves(WideInt sum, WideInt a, WideInt b) { return _mm512_dpwssd_epi32(sum, a, b); }
TSR_INLINE WideInt dot_halves(WideInt a, WideInt b) { return _mm512_madd_epi16(a, b); }
TSR_INLINE WideFlt to_float(WideInt a) { return _mm512_cvtepi32_ps(a); }
TSR_INLINE WideFlt sub(WideFlt a, WideFlt b) { return _mm512_sub_ps(a, b); }
TSR_INLINE WideFlt mul(WideFlt a, WideFlt b) { return _mm512_mul_ps(a, b); }
TSR_INLINE WideFlt add_product(WideFlt sum, WideFlt a, WideFlt b) { return _mm512_fmadd_ps(a, b, sum); }
TSR_INLINE WideFlt sub_product(WideFlt sum, WideFlt a, WideFlt b) { return _mm512_fnmadd_ps(a, b, sum); }

}  // namespace
}  // namespace tessera::kernels

#include "quants/arch/avx512/wide_words.h"
