#pragma once
// Operations of the kernels on AVX2, FMA and F16C. Wide is 16 virtual lanes (vector functions, gemm tiles);
// RowF and RowI hold one number of each of 8 weight rows (unpackers). Meanings of the Wide operations:
// arch/scalar/isa.h. Included by ISA units: only C headers here.
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels {
namespace {

struct Avx2Isa {
    // ---- 16 virtual lanes

    static constexpr int kWide = 16;
    /// 6 tokens x 2 registers of sums plus two weight registers and one broadcast fit 16 registers.
    static constexpr int kTileTokens = 6;
    static constexpr int kGemmPanels = 1;
    /// An index register goes into an address once or twice.
    static constexpr int kTokensAPointer = 3;
    struct Wide {
        __m256 lo, hi;
    };

    TSR_INLINE Wide set1(float f) { return {_mm256_set1_ps(f), _mm256_set1_ps(f)}; }
    TSR_INLINE Wide zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
    TSR_INLINE Wide load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
    TSR_INLINE void store(float* p, Wide a) {
        _mm256_storeu_ps(p, a.lo);
        _mm256_storeu_ps(p + 8, a.hi);
    }

    TSR_INLINE Wide add(Wide a, Wide b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
    TSR_INLINE Wide sub(Wide a, Wide b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
    TSR_INLINE Wide mul(Wide a, Wide b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
    TSR_INLINE Wide div(Wide a, Wide b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
    TSR_INLINE Wide fma(Wide a, Wide b, Wide c) {
        return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
    }
    /// sum += a * b. In assembler, since gcc 12 otherwise overwrites factors with sums and moves them back
    /// for the next iteration: 9 % of the fma roofline (Zen 3).
    TSR_INLINE void add_product(Wide& sum, Wide a, Wide b) {
        asm("vfmadd231ps %1, %2, %0" : "+x"(sum.lo) : "x"(a.lo), "x"(b.lo));
        asm("vfmadd231ps %1, %2, %0" : "+x"(sum.hi) : "x"(a.hi), "x"(b.hi));
    }
    TSR_INLINE Wide fma_alternating(Wide a, Wide b, Wide c) {
        return {_mm256_fmaddsub_ps(a.lo, b.lo, c.lo), _mm256_fmaddsub_ps(a.hi, b.hi, c.hi)};
    }
    TSR_INLINE Wide neg(Wide a) {
        const __m256 sign = _mm256_set1_ps(-0.0f);
        return {_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
    }
    TSR_INLINE Wide abs(Wide a) {
        const __m256 sign = _mm256_set1_ps(-0.0f);
        return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
    }
    TSR_INLINE Wide with_sign_of(Wide a, Wide s) {
        const __m256 sign = _mm256_set1_ps(-0.0f);
        const Wide magnitude = abs(a);
        return {_mm256_or_ps(magnitude.lo, _mm256_and_ps(s.lo, sign)),
                _mm256_or_ps(magnitude.hi, _mm256_and_ps(s.hi, sign))};
    }
    TSR_INLINE Wide max(Wide a, Wide b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
    TSR_INLINE Wide select_less(Wide a, Wide b, Wide yes, Wide no) {
        return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
                _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
    }
    TSR_INLINE Wide select_nan(Wide a, Wide yes, Wide no) {
        return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q)),
                _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q))};
    }
    TSR_INLINE __m256 add_exponent8(__m256 a, __m256 n) {
        const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(n), 23);
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), exponent));
    }
    TSR_INLINE Wide add_exponent(Wide a, Wide n) {
        return {add_exponent8(a.lo, n.lo), add_exponent8(a.hi, n.hi)};
    }

    TSR_INLINE float sum(Wide a) {
        const __m256 by8 = _mm256_add_ps(a.lo, a.hi);
        const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
        const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
        return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
    }
    TSR_INLINE float largest(Wide a) {
        const __m256 by8 = _mm256_max_ps(a.lo, a.hi);
        const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
        const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
        return _mm_cvtss_f32(_mm_max_ss(by2, _mm_movehdup_ps(by2)));
    }

    TSR_INLINE Wide twice_even(Wide a) { return {_mm256_moveldup_ps(a.lo), _mm256_moveldup_ps(a.hi)}; }
    TSR_INLINE Wide twice_odd(Wide a) { return {_mm256_movehdup_ps(a.lo), _mm256_movehdup_ps(a.hi)}; }
    TSR_INLINE Wide swap_pairs(Wide a) {
        return {_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)};
    }
    TSR_INLINE void load_pairs8(const float* p, __m256& even, __m256& odd) {
        const __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps(p + 8);
        const __m256d e = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
        const __m256d o = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
        even = _mm256_castpd_ps(_mm256_permute4x64_pd(e, 0xd8));
        odd = _mm256_castpd_ps(_mm256_permute4x64_pd(o, 0xd8));
    }
    TSR_INLINE void load_pairs(const float* p, Wide& even, Wide& odd) {
        load_pairs8(p, even.lo, odd.lo);
        load_pairs8(p + 16, even.hi, odd.hi);
    }

    TSR_INLINE __m256 load_half8(const void* p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    }
    TSR_INLINE Wide load_half(const uint16_t* p) { return load_groups_f16(p, p + 8); }
    TSR_INLINE void store_half8(uint16_t* p, __m256 a) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                         _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    TSR_INLINE void store_half(uint16_t* p, Wide a) {
        store_half8(p, a.lo);
        store_half8(p + 8, a.hi);
    }

    // 16 lanes of 8 numbers at a and 8 at b.
    TSR_INLINE __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
    TSR_INLINE __m256 load_f32x8(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
    TSR_INLINE __m256 load_bf16x8(const void* p) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p)), 16));
    }
    TSR_INLINE Wide load_groups_f32(const void* a, const void* b) { return {load_f32x8(a), load_f32x8(b)}; }
    TSR_INLINE Wide load_groups_f16(const void* a, const void* b) { return {load_half8(a), load_half8(b)}; }
    TSR_INLINE Wide load_groups_bf16(const void* a, const void* b) {
        return {load_bf16x8(a), load_bf16x8(b)};
    }

    using Pair = __m256i;
    struct Pairs {
        __m256i lo, hi;
    };
    struct Sums {
        __m256i lo, hi;
    };
    TSR_INLINE void store_int16(int16_t* p, Wide a) {
        const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
    }
    TSR_INLINE Sums no_sums() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
    TSR_INLINE __m256i widen16(const int8_t* p) {
        return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    TSR_INLINE Pairs load_int8_pairs(const int8_t* p) { return {widen16(p), widen16(p + 16)}; }
    TSR_INLINE Pair set1_pair(const int16_t* p) {
        int32_t pair;
        memcpy(&pair, p, sizeof pair);
        return _mm256_set1_epi32(pair);
    }
    TSR_INLINE Sums add_dots(Sums a, Pairs v, Pair w) {
        return {_mm256_add_epi32(a.lo, _mm256_madd_epi16(v.lo, w)),
                _mm256_add_epi32(a.hi, _mm256_madd_epi16(v.hi, w))};
    }
    TSR_INLINE Wide to_wide(Sums a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }

    // ---- one number of each of kRowLanes weight rows

    static constexpr int kRowLanes = 8;
    using RowF = __m256;
    using RowI = __m256i;

    TSR_INLINE RowF set_f(float f) { return _mm256_set1_ps(f); }
    TSR_INLINE RowF mul_f(RowF a, RowF b) { return _mm256_mul_ps(a, b); }
    /// a * b - c, rounded once.
    TSR_INLINE RowF fms_f(RowF a, RowF b, RowF c) { return _mm256_fmsub_ps(a, b, c); }
    TSR_INLINE RowF neg_f(RowF a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
    TSR_INLINE void store_f(float* p, RowF a) { _mm256_storeu_ps(p, a); }

    TSR_INLINE RowI set_i(uint32_t u) { return _mm256_set1_epi32(static_cast<int>(u)); }
    TSR_INLINE RowI and_i(RowI a, RowI b) { return _mm256_and_si256(a, b); }
    TSR_INLINE RowI or_i(RowI a, RowI b) { return _mm256_or_si256(a, b); }
    TSR_INLINE RowI xor_i(RowI a, RowI b) { return _mm256_xor_si256(a, b); }
    TSR_INLINE RowI sub_i(RowI a, RowI b) { return _mm256_sub_epi32(a, b); }
    /// Four byte-wise differences a lane.
    TSR_INLINE RowI sub_bytes(RowI a, RowI b) { return _mm256_sub_epi8(a, b); }
    TSR_INLINE RowI shl(RowI a, int n) { return _mm256_slli_epi32(a, n); }
    TSR_INLINE RowI shr(RowI a, int n) { return _mm256_srli_epi32(a, n); }
    TSR_INLINE RowI shr_signed(RowI a, int n) { return _mm256_srai_epi32(a, n); }
    TSR_INLINE RowF to_float(RowI a) { return _mm256_cvtepi32_ps(a); }
    TSR_INLINE RowF as_float(RowI a) { return _mm256_castsi256_ps(a); }

    /// Each byte of a (0..15) replaced by table[it].
    TSR_INLINE RowI look_up(const int8_t* table, RowI a) {
        const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), a);
    }
    /// Byte b of a lane becomes 0xff where bit first + b of the lane is set, else 0; first is a multiple
    /// of 4.
    TSR_INLINE RowI bits_to_bytes(RowI a, int first) {
        const int byte = first / 8 * 0x01010101;
        const __m256i source = _mm256_add_epi8(
            _mm256_set1_epi32(byte),
            _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c));
        const __m256i bit = _mm256_set1_epi32(first % 8 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
        return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(a, source), bit), bit);
    }

    /// 16 bytes of each row: lane r of out[j] = bytes 4j .. 4j + 3 of row r. Rows 0-3 go to the lower and 4-7
    /// to the upper halves, so that two 4x4 transposes run at once and nothing crosses the middle.
    TSR_INLINE void load_rows16(const uint8_t* p, size_t stride, RowI out[4]) {
        const __m256i a = load_two(p, p + 4 * stride);
        const __m256i b = load_two(p + stride, p + 5 * stride);
        const __m256i c = load_two(p + 2 * stride, p + 6 * stride);
        const __m256i d = load_two(p + 3 * stride, p + 7 * stride);
        const __m256i ab_lo = _mm256_unpacklo_epi32(a, b), ab_hi = _mm256_unpackhi_epi32(a, b);
        const __m256i cd_lo = _mm256_unpacklo_epi32(c, d), cd_hi = _mm256_unpackhi_epi32(c, d);
        out[0] = _mm256_unpacklo_epi64(ab_lo, cd_lo);
        out[1] = _mm256_unpackhi_epi64(ab_lo, cd_lo);
        out[2] = _mm256_unpacklo_epi64(ab_hi, cd_hi);
        out[3] = _mm256_unpackhi_epi64(ab_hi, cd_hi);
    }
    TSR_INLINE __m256i load_two(const uint8_t* low, const uint8_t* high) {
        const __m128i l = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low));
        return _mm256_inserti128_si256(_mm256_castsi128_si256(l),
                                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
    }
    /// 4, 2 and 1 bytes of each row, the last two zero-extended.
    TSR_INLINE RowI load_rows4(const uint8_t* p, size_t stride) {
        return _mm256_setr_epi32(dword(p), dword(p + stride), dword(p + 2 * stride), dword(p + 3 * stride),
                                 dword(p + 4 * stride), dword(p + 5 * stride), dword(p + 6 * stride),
                                 dword(p + 7 * stride));
    }
    TSR_INLINE RowI load_rows2(const uint8_t* p, size_t stride) {
        return _mm256_cvtepu16_epi32(load_rows2_packed(p, stride));
    }
    TSR_INLINE RowI load_rows1(const uint8_t* p, size_t stride) {
        return _mm256_setr_epi32(p[0], p[stride], p[2 * stride], p[3 * stride], p[4 * stride], p[5 * stride],
                                 p[6 * stride], p[7 * stride]);
    }
    /// An IEEE half of each row.
    TSR_INLINE RowF load_rows_half(const uint8_t* p, size_t stride) {
        return _mm256_cvtph_ps(load_rows2_packed(p, stride));
    }
    TSR_INLINE __m128i load_rows2_packed(const uint8_t* p, size_t stride) {
        return _mm_setr_epi16(word(p), word(p + stride), word(p + 2 * stride), word(p + 3 * stride),
                              word(p + 4 * stride), word(p + 5 * stride), word(p + 6 * stride),
                              word(p + 7 * stride));
    }
    TSR_INLINE int dword(const uint8_t* p) {
        int u;
        memcpy(&u, p, sizeof u);
        return u;
    }
    TSR_INLINE short word(const uint8_t* p) {
        short u;
        memcpy(&u, p, sizeof u);
        return u;
    }
    /// The half in the low 16 bits of each lane; the high bits do not matter.
    TSR_INLINE RowF low_half(RowI a) {
        const __m256i low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
        const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
        return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
    }

    /// 16 halves of each row as floats: row r's k-th at panel[k * panel_stride + r]. The transpose is done on
    /// halves, and goes through memory because vcvtph2ps is cheaper from there.
    TSR_INLINE void transpose_halves(const uint8_t* p, size_t stride, float* panel, size_t panel_stride) {
        __m256i v[8], w[8];
        TSR_UNROLL
        for (int r = 0; r < 8; r++)
            v[r] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + r * stride));
        TSR_UNROLL
        for (int i = 0; i < 4; i++) {
            w[2 * i] = _mm256_unpacklo_epi16(v[2 * i], v[2 * i + 1]);
            w[2 * i + 1] = _mm256_unpackhi_epi16(v[2 * i], v[2 * i + 1]);
        }
        TSR_UNROLL
        for (int i = 0; i < 4;
             i++) {  // rows 0-3 to v[0..3], rows 4-7 to v[4..7]; v[4h + j] holds k = 2j, 2j + 1
            const int from = 4 * (i / 2) + i % 2;
            v[4 * (i / 2) + 2 * (i % 2)] = _mm256_unpacklo_epi32(w[from], w[from + 2]);
            v[4 * (i / 2) + 2 * (i % 2) + 1] = _mm256_unpackhi_epi32(w[from], w[from + 2]);
        }
        alignas(32) uint16_t halves[8][16];
        TSR_UNROLL
        for (int j = 0; j < 4; j++) {
            _mm256_store_si256(reinterpret_cast<__m256i*>(halves[2 * j]),
                               _mm256_unpacklo_epi64(v[j], v[4 + j]));
            _mm256_store_si256(reinterpret_cast<__m256i*>(halves[2 * j + 1]),
                               _mm256_unpackhi_epi64(v[j], v[4 + j]));
        }
        TSR_UNROLL
        for (size_t k = 0; k < 8; k++) {
            _mm256_storeu_ps(panel + k * panel_stride, load_half8(halves[k]));
            _mm256_storeu_ps(panel + (8 + k) * panel_stride, load_half8(halves[k] + 8));
        }
    }

    TSR_INLINE void prefetch_l1(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
    /// To L2.
    TSR_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
};

}  // namespace
}  // namespace tessera::kernels
