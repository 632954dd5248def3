#pragma once
// Vectors of two groups of 8 rows on AVX-512: the verbs of avx2/int_verbs.h and of words.h that tiles over
// panels need, on 16 lanes.
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
TSR_INLINE void store_float(float* p, WideFlt v) { _mm512_storeu_ps(p, v); }
TSR_INLINE WideInt splat_wide(int32_t v) { return _mm512_set1_epi32(v); }
TSR_INLINE WideFlt splat_wide_float(float v) { return _mm512_set1_ps(v); }
TSR_INLINE WideFlt as_float(WideInt a) { return _mm512_castsi512_ps(a); }
TSR_INLINE WideInt as_bits(WideFlt a) { return _mm512_castps_si512(a); }

/// As Act.
struct WideAct {
    const int8_t* at;
};
TSR_INLINE WideAct wide_act_group(const int8_t* q, int g) { return {q + 4 * g}; }
TSR_INLINE WideInt in_register(WideAct a) {
    int32_t v;
    __builtin_memcpy(&v, a.at, sizeof v);
    return splat_wide(v);
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
