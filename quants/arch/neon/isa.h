#pragma once
// Operations of the float kernels on NEON. Wide is 16 virtual lanes in four registers (vector functions, gemm
// tiles); RowF and RowI hold one number of each of 4 weight rows (unpackers). Meanings of the Wide
// operations: arch/scalar/isa.h. Included by ISA units: only C headers here.
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels {
namespace {

struct NeonIsa {
    // ---- 16 virtual lanes

    static constexpr int kWide = 16;
    /// 5 tokens x 4 registers of sums, 4 weight registers and one broadcast leave some of 32 free; a sixth
    /// token spilled.
    static constexpr int kTileTokens = 5;
    static constexpr int kGemmPanels = 1;
    /// Loads to all lanes take no index.
    static constexpr int kTokensAPointer = 1;
    struct Wide {
        float32x4_t a, b, c, d;
    };

    /// f of the four registers of each operand.
    template <class F, class... W>
    TSR_INLINE Wide each(const F& f, W... w) {
        return {f(w.a...), f(w.b...), f(w.c...), f(w.d...)};
    }
    template <class F>
    TSR_INLINE float32x4_t reduce4(const F& f, Wide w) {
        return f(f(w.a, w.c), f(w.b, w.d));
    }

    TSR_INLINE Wide set1(float f) { return {vdupq_n_f32(f), vdupq_n_f32(f), vdupq_n_f32(f), vdupq_n_f32(f)}; }
    TSR_INLINE Wide zero() { return set1(0.0f); }
    TSR_INLINE Wide load(const float* p) {
        return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
    }
    TSR_INLINE void store(float* p, Wide w) {
        vst1q_f32(p, w.a);
        vst1q_f32(p + 4, w.b);
        vst1q_f32(p + 8, w.c);
        vst1q_f32(p + 12, w.d);
    }

    TSR_INLINE Wide add(Wide x, Wide y) {
        return each([](float32x4_t a, float32x4_t b) { return vaddq_f32(a, b); }, x, y);
    }
    TSR_INLINE Wide sub(Wide x, Wide y) {
        return each([](float32x4_t a, float32x4_t b) { return vsubq_f32(a, b); }, x, y);
    }
    TSR_INLINE Wide mul(Wide x, Wide y) {
        return each([](float32x4_t a, float32x4_t b) { return vmulq_f32(a, b); }, x, y);
    }
    TSR_INLINE Wide div(Wide x, Wide y) {
        return each([](float32x4_t a, float32x4_t b) { return vdivq_f32(a, b); }, x, y);
    }
    TSR_INLINE Wide fma(Wide x, Wide y, Wide z) {
        return each([](float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }, x, y, z);
    }
    TSR_INLINE void add_product(Wide& sum, Wide x, Wide y) { sum = fma(x, y, sum); }
    TSR_INLINE Wide fma_alternating(Wide x, Wide y, Wide z) {
        const uint32x4_t even = vreinterpretq_u32_u64(vdupq_n_u64(0x80000000u));
        return each(
            [even](float32x4_t a, float32x4_t b, float32x4_t c) {
                return vfmaq_f32(vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(c), even)), a, b);
            },
            x, y, z);
    }
    TSR_INLINE Wide neg(Wide x) {
        return each([](float32x4_t a) { return vnegq_f32(a); }, x);
    }
    TSR_INLINE Wide abs(Wide x) {
        return each([](float32x4_t a) { return vabsq_f32(a); }, x);
    }
    TSR_INLINE Wide with_sign_of(Wide x, Wide sign) {
        return each([](float32x4_t a, float32x4_t s) { return vbslq_f32(vdupq_n_u32(0x80000000u), s, a); }, x,
                    sign);
    }
    TSR_INLINE float32x4_t larger(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
    TSR_INLINE Wide max(Wide x, Wide y) {
        return each([](float32x4_t a, float32x4_t b) { return larger(a, b); }, x, y);
    }
    TSR_INLINE Wide select_less(Wide x, Wide y, Wide yes, Wide no) {
        return each([](float32x4_t a, float32x4_t b, float32x4_t t,
                       float32x4_t f) { return vbslq_f32(vcltq_f32(a, b), t, f); },
                    x, y, yes, no);
    }
    TSR_INLINE Wide select_nan(Wide x, Wide yes, Wide no) {
        return each(
            [](float32x4_t a, float32x4_t t, float32x4_t f) { return vbslq_f32(vceqq_f32(a, a), f, t); }, x,
            yes, no);
    }
    TSR_INLINE Wide add_exponent(Wide x, Wide y) {
        return each(
            [](float32x4_t a, float32x4_t n) {
                const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(n), 23);
                return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(a), exponent));
            },
            x, y);
    }

    TSR_INLINE float sum(Wide w) {
        const float32x4_t by4 = reduce4([](float32x4_t a, float32x4_t b) { return vaddq_f32(a, b); }, w);
        const float32x2_t by2 = vadd_f32(vget_low_f32(by4), vget_high_f32(by4));
        return vget_lane_f32(by2, 0) + vget_lane_f32(by2, 1);
    }
    TSR_INLINE float largest(Wide w) {
        const float32x4_t by4 = reduce4([](float32x4_t a, float32x4_t b) { return larger(a, b); }, w);
        const float32x2_t low = vget_low_f32(by4), high = vget_high_f32(by4);
        const float32x2_t by2 = vbsl_f32(vcgt_f32(low, high), low, high);
        const float a = vget_lane_f32(by2, 0), b = vget_lane_f32(by2, 1);
        return a > b ? a : b;
    }

    TSR_INLINE Wide twice_even(Wide x) {
        return each([](float32x4_t a) { return vtrn1q_f32(a, a); }, x);
    }
    TSR_INLINE Wide twice_odd(Wide x) {
        return each([](float32x4_t a) { return vtrn2q_f32(a, a); }, x);
    }
    TSR_INLINE Wide swap_pairs(Wide x) {
        return each([](float32x4_t a) { return vrev64q_f32(a); }, x);
    }
    TSR_INLINE void load_pairs(const float* p, Wide& even, Wide& odd) {
        const float32x4x2_t a = vld2q_f32(p), b = vld2q_f32(p + 8), c = vld2q_f32(p + 16),
                            d = vld2q_f32(p + 24);
        even = {a.val[0], b.val[0], c.val[0], d.val[0]};
        odd = {a.val[1], b.val[1], c.val[1], d.val[1]};
    }

    TSR_INLINE float32x4_t low_halves(uint16x8_t h) {
        return vcvt_f32_f16(vget_low_f16(vreinterpretq_f16_u16(h)));
    }
    TSR_INLINE float32x4_t high_halves(uint16x8_t h) { return vcvt_high_f32_f16(vreinterpretq_f16_u16(h)); }
    TSR_INLINE Wide load_half(const uint16_t* p) { return load_groups_f16(p, p + 8); }

    // 16 lanes of 8 numbers at a and 8 at b.
    TSR_INLINE float32x4_t load_f32x4(const void* p, int i) {
        return vld1q_f32(static_cast<const float*>(p) + 4 * i);
    }
    TSR_INLINE uint16x8_t load16(const void* p) { return vld1q_u16(static_cast<const uint16_t*>(p)); }
    TSR_INLINE Wide load_groups_f32(const void* a, const void* b) {
        return {load_f32x4(a, 0), load_f32x4(a, 1), load_f32x4(b, 0), load_f32x4(b, 1)};
    }
    TSR_INLINE Wide load_groups_f16(const void* a, const void* b) {
        const uint16x8_t low = load16(a), high = load16(b);
        return {low_halves(low), high_halves(low), low_halves(high), high_halves(high)};
    }
    TSR_INLINE float32x4_t low_bfloats(uint16x8_t h) {
        return vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16));
    }
    TSR_INLINE float32x4_t high_bfloats(uint16x8_t h) {
        return vreinterpretq_f32_u32(vshll_high_n_u16(h, 16));
    }
    TSR_INLINE Wide load_groups_bf16(const void* a, const void* b) {
        const uint16x8_t low = load16(a), high = load16(b);
        return {low_bfloats(low), high_bfloats(low), low_bfloats(high), high_bfloats(high)};
    }
    TSR_INLINE void store_half(uint16_t* p, Wide w) {
        vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(w.a), w.b)));
        vst1q_u16(p + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(w.c), w.d)));
    }

    using Pair = int16x4_t;
    struct Pairs {
        int16x8_t even_low, even_high, odd_low, odd_high;
    };
    struct Sums {
        int32x4_t a, b, c, d;
    };
    TSR_INLINE void store_int16(int16_t* p, Wide w) {
        vst1q_s16(p, vcombine_s16(vmovn_s32(vcvtnq_s32_f32(w.a)), vmovn_s32(vcvtnq_s32_f32(w.b))));
        vst1q_s16(p + 8, vcombine_s16(vmovn_s32(vcvtnq_s32_f32(w.c)), vmovn_s32(vcvtnq_s32_f32(w.d))));
    }
    TSR_INLINE Sums no_sums() { return {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)}; }
    TSR_INLINE Pairs load_int8_pairs(const int8_t* p) {
        const int8x16x2_t v = vld2q_s8(p);
        return {vmovl_s8(vget_low_s8(v.val[0])), vmovl_high_s8(v.val[0]), vmovl_s8(vget_low_s8(v.val[1])),
                vmovl_high_s8(v.val[1])};
    }
    TSR_INLINE Pair set1_pair(const int16_t* p) {
        uint32_t pair;
        memcpy(&pair, p, sizeof pair);
        return vreinterpret_s16_u32(vdup_n_u32(pair));
    }
    TSR_INLINE int32x4_t low_dots(int32x4_t a, int16x8_t even, int16x8_t odd, Pair w) {
        return vmlal_lane_s16(vmlal_lane_s16(a, vget_low_s16(even), w, 0), vget_low_s16(odd), w, 1);
    }
    TSR_INLINE int32x4_t high_dots(int32x4_t a, int16x8_t even, int16x8_t odd, Pair w) {
        return vmlal_high_lane_s16(vmlal_high_lane_s16(a, even, w, 0), odd, w, 1);
    }
    TSR_INLINE Sums add_dots(Sums s, Pairs v, Pair w) {
        return {low_dots(s.a, v.even_low, v.odd_low, w), high_dots(s.b, v.even_low, v.odd_low, w),
                low_dots(s.c, v.even_high, v.odd_high, w), high_dots(s.d, v.even_high, v.odd_high, w)};
    }
    TSR_INLINE Wide to_wide(Sums s) {
        return {vcvtq_f32_s32(s.a), vcvtq_f32_s32(s.b), vcvtq_f32_s32(s.c), vcvtq_f32_s32(s.d)};
    }

    // ---- one number of each of kRowLanes weight rows

    static constexpr int kRowLanes = 4;
    using RowF = float32x4_t;
    using RowI = uint32x4_t;

    TSR_INLINE RowF set_f(float f) { return vdupq_n_f32(f); }
    TSR_INLINE RowF mul_f(RowF a, RowF b) { return vmulq_f32(a, b); }
    /// a * b - c, rounded once.
    TSR_INLINE RowF fms_f(RowF a, RowF b, RowF c) { return vfmaq_f32(vnegq_f32(c), a, b); }
    TSR_INLINE RowF neg_f(RowF a) { return vnegq_f32(a); }
    TSR_INLINE void store_f(float* p, RowF a) { vst1q_f32(p, a); }

    TSR_INLINE RowI set_i(uint32_t u) { return vdupq_n_u32(u); }
    TSR_INLINE RowI and_i(RowI a, RowI b) { return vandq_u32(a, b); }
    TSR_INLINE RowI or_i(RowI a, RowI b) { return vorrq_u32(a, b); }
    TSR_INLINE RowI xor_i(RowI a, RowI b) { return veorq_u32(a, b); }
    TSR_INLINE RowI sub_i(RowI a, RowI b) { return vsubq_u32(a, b); }
    /// Four byte-wise differences a lane.
    TSR_INLINE RowI sub_bytes(RowI a, RowI b) {
        return vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b)));
    }
    TSR_INLINE RowI shl(RowI a, int n) { return a << n; }
    TSR_INLINE RowI shr(RowI a, int n) { return a >> n; }
    TSR_INLINE RowI shr_signed(RowI a, int n) { return vreinterpretq_u32_s32(vreinterpretq_s32_u32(a) >> n); }
    TSR_INLINE RowF to_float(RowI a) { return vcvtq_f32_s32(vreinterpretq_s32_u32(a)); }
    TSR_INLINE RowF as_float(RowI a) { return vreinterpretq_f32_u32(a); }

    /// Each byte of a (0..15) replaced by table[it].
    TSR_INLINE RowI look_up(const int8_t* table, RowI a) {
        return vreinterpretq_u32_s8(vqtbl1q_s8(vld1q_s8(table), vreinterpretq_u8_u32(a)));
    }
    /// Byte b of a lane becomes 0xff where bit first + b of the lane is set, else 0; first is a multiple
    /// of 4.
    TSR_INLINE RowI bits_to_bytes(RowI a, int first) {
        const uint8x16_t lane = vreinterpretq_u8_u32(uint32x4_t{0, 0x04040404, 0x08080808, 0x0c0c0c0c});
        const uint8x16_t source = vaddq_u8(lane, vdupq_n_u8(static_cast<uint8_t>(first / 8)));
        const uint8x16_t bit = vreinterpretq_u8_u32(vdupq_n_u32(first % 8 == 0 ? 0x08040201u : 0x80402010u));
        return vreinterpretq_u32_u8(vtstq_u8(vqtbl1q_u8(vreinterpretq_u8_u32(a), source), bit));
    }

    /// 16 bytes of each row: lane r of out[j] = bytes 4j .. 4j + 3 of row r.
    TSR_INLINE void load_rows16(const uint8_t* p, size_t stride, RowI out[4]) {
        const uint32x4_t a = bytes16(p), b = bytes16(p + stride), c = bytes16(p + 2 * stride),
                         d = bytes16(p + 3 * stride);
        const uint32x4_t ac_low = vzip1q_u32(a, c), ac_high = vzip2q_u32(a, c);
        const uint32x4_t bd_low = vzip1q_u32(b, d), bd_high = vzip2q_u32(b, d);
        out[0] = vzip1q_u32(ac_low, bd_low);
        out[1] = vzip2q_u32(ac_low, bd_low);
        out[2] = vzip1q_u32(ac_high, bd_high);
        out[3] = vzip2q_u32(ac_high, bd_high);
    }
    TSR_INLINE uint32x4_t bytes16(const uint8_t* p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }
    /// 4, 2 and 1 bytes of each row, the last two zero-extended.
    TSR_INLINE RowI load_rows4(const uint8_t* p, size_t stride) { return rows<uint32_t>(p, stride); }
    TSR_INLINE RowI load_rows2(const uint8_t* p, size_t stride) { return rows<uint16_t>(p, stride); }
    TSR_INLINE RowI load_rows1(const uint8_t* p, size_t stride) { return rows<uint8_t>(p, stride); }
    template <class T>
    TSR_INLINE RowI rows(const uint8_t* p, size_t stride) {
        return four(one<T>(p), one<T>(p + stride), one<T>(p + 2 * stride), one<T>(p + 3 * stride));
    }
    TSR_INLINE RowI four(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return RowI{a, b, c, d}; }
    template <class T>
    TSR_INLINE T one(const uint8_t* p) {
        T value;
        memcpy(&value, p, sizeof value);
        return value;
    }
    /// An IEEE half of each row.
    TSR_INLINE RowF load_rows_half(const uint8_t* p, size_t stride) {
        return low_half(load_rows2(p, stride));
    }
    /// The half in the low 16 bits of each lane; the high bits do not matter.
    TSR_INLINE RowF low_half(RowI a) { return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(a))); }

    /// 16 halves of each row as floats: row r's k-th at panel[k * panel_stride + r]. Two k are a word of the
    /// transpose.
    TSR_INLINE void transpose_halves(const uint8_t* p, size_t stride, float* panel, size_t panel_stride) {
        for (int half = 0; half < 2; half++, p += 16) {
            RowI v[4];
            load_rows16(p, stride, v);
            TSR_UNROLL
            for (int i = 0; i < 4; i++, panel += 2 * panel_stride) {
                store_f(panel, low_half(v[i]));
                store_f(panel + panel_stride, low_half(shr(v[i], 16)));
            }
        }
    }

    TSR_INLINE void prefetch_l1(const void* p) { __builtin_prefetch(p); }
    /// To L2.
    TSR_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }
};

}  // namespace
}  // namespace tessera::kernels
