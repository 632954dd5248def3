#pragma once
// Operations of the float kernels on AVX-512: a Wide of 16 lanes is one register. Unpackers work on 8 rows,
// as on AVX2. Meanings of the Wide operations: arch/scalar/isa.h. Included by ISA units: only C headers here.
#include "quants/arch/avx2/isa.h"

namespace tessera::kernels {
namespace {

struct Avx512Isa : Avx2Isa {
    /// 24 sums beside four panels' weights and one x for all of them: six tokens take ten loads for 24
    /// products, where twelve tokens of two panels would take 14.
    static constexpr int kTileTokens = 24;
    static constexpr int kGemmPanels = 4;

    using Wide = __m512;

    TSR_INLINE Wide set1(float f) { return _mm512_set1_ps(f); }
    TSR_INLINE Wide zero() { return _mm512_setzero_ps(); }
    TSR_INLINE Wide load(const float* p) { return _mm512_loadu_ps(p); }
    TSR_INLINE void store(float* p, Wide a) { _mm512_storeu_ps(p, a); }

    TSR_INLINE Wide add(Wide a, Wide b) { return _mm512_add_ps(a, b); }
    TSR_INLINE Wide sub(Wide a, Wide b) { return _mm512_sub_ps(a, b); }
    TSR_INLINE Wide mul(Wide a, Wide b) { return _mm512_mul_ps(a, b); }
    TSR_INLINE Wide div(Wide a, Wide b) { return _mm512_div_ps(a, b); }
    TSR_INLINE Wide fma(Wide a, Wide b, Wide c) { return _mm512_fmadd_ps(a, b, c); }
    TSR_INLINE void add_product(Wide& sum, Wide a, Wide b) { sum = fma(a, b, sum); }
    TSR_INLINE Wide fma_alternating(Wide a, Wide b, Wide c) { return _mm512_fmaddsub_ps(a, b, c); }
    TSR_INLINE Wide neg(Wide a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
    TSR_INLINE Wide abs(Wide a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
    TSR_INLINE Wide with_sign_of(Wide a, Wide s) {
        return _mm512_or_ps(abs(a), _mm512_and_ps(s, _mm512_set1_ps(-0.0f)));
    }
    TSR_INLINE Wide max(Wide a, Wide b) { return _mm512_max_ps(a, b); }
    TSR_INLINE Wide select_less(Wide a, Wide b, Wide yes, Wide no) {
        return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
    }
    TSR_INLINE Wide select_nan(Wide a, Wide yes, Wide no) {
        return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), no, yes);
    }
    TSR_INLINE Wide add_exponent(Wide a, Wide n) {
        const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(n), 23);
        return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), exponent));
    }

    TSR_INLINE float sum(Wide a) { return Avx2Isa::sum({low(a), high(a)}); }
    TSR_INLINE float largest(Wide a) { return Avx2Isa::largest({low(a), high(a)}); }
    TSR_INLINE __m256 low(Wide a) { return _mm512_castps512_ps256(a); }
    TSR_INLINE __m256 high(Wide a) { return _mm512_extractf32x8_ps(a, 1); }

    TSR_INLINE Wide twice_even(Wide a) { return _mm512_moveldup_ps(a); }
    TSR_INLINE Wide twice_odd(Wide a) { return _mm512_movehdup_ps(a); }
    TSR_INLINE Wide swap_pairs(Wide a) { return _mm512_permute_ps(a, 0xb1); }
    TSR_INLINE void load_pairs(const float* p, Wide& even, Wide& odd) {
        const Wide a = load(p), b = load(p + 16);
        const __m512i place = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        even = _mm512_permutex2var_ps(a, place, b);
        odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(place, _mm512_set1_epi32(1)), b);
    }

    TSR_INLINE Wide load_half(const uint16_t* p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    TSR_INLINE void store_half(uint16_t* p, Wide a) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                            _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }

    TSR_INLINE __m256i load_two16(const void* a, const void* b) {
        return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a)), load16(b), 1);
    }
    TSR_INLINE Wide load_groups_f32(const void* a, const void* b) {
        return _mm512_insertf32x8(_mm512_castps256_ps512(load_f32x8(a)), load_f32x8(b), 1);
    }
    TSR_INLINE Wide load_groups_f16(const void* a, const void* b) {
        return _mm512_cvtph_ps(load_two16(a, b));
    }
    TSR_INLINE Wide load_groups_bf16(const void* a, const void* b) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_two16(a, b)), 16));
    }

    using Pair = __m512i;
    using Pairs = __m512i;
    using Sums = __m512i;
    TSR_INLINE void store_int16(int16_t* p, Wide a) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(a)));
    }
    TSR_INLINE Sums no_sums() { return _mm512_setzero_si512(); }
    TSR_INLINE Pairs load_int8_pairs(const int8_t* p) {
        return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    TSR_INLINE Pair set1_pair(const int16_t* p) {
        int32_t pair;
        memcpy(&pair, p, sizeof pair);
        return _mm512_set1_epi32(pair);
    }
    /// In assembler: gcc 12 copies each sum before the instruction and back, and to memory.
    TSR_INLINE Sums add_dots(Sums a, Pairs v, Pair w) {
        asm("vpdpwssd %2, %1, %0" : "+v"(a) : "v"(v), "v"(w));
        return a;
    }
    TSR_INLINE Wide to_wide(Sums a) { return _mm512_cvtepi32_ps(a); }
};

}  // namespace
}  // namespace tessera::kernels
