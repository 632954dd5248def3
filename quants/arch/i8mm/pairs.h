#pragma once
// Products of bytes with the matrix instructions: 2 rows by 8 k times 2 tokens by 8 k, a word for each of the
// four pairs. Only for panel tiles; few tokens go through the dot products of dotprod/dot.h.
#include "quants/arch/dotprod/dot.h"

namespace tessera::kernels {
namespace {

/// Rows 0 and 1, 2 and 3, 4 and 5, 6 and 7: a register has 8 bytes a row of two rows (operands), or words:
/// each token's of the first row, then of the second.
struct PairInt {
    uint8x16_t v[4];
};
struct PairFlt {
    float32x4_t v[4];
};
/// 2 tokens by 8 k.
struct PairAct {
    int8x16_t q;
};

/// f of each of the four registers.
template <class Out, class F, class... In>
TSR_INLINE Out each_pair(const F& f, const In&... in) {
    return {{f(in.v[0]...), f(in.v[1]...), f(in.v[2]...), f(in.v[3]...)}};
}

TSR_INLINE void pin(PairInt& sum) {
    asm volatile("" : "+w"(sum.v[0]), "+w"(sum.v[1]), "+w"(sum.v[2]), "+w"(sum.v[3]));
}
TSR_INLINE PairInt next_dot(const PairInt& sum, const PairInt& w, PairAct a) {
    return each_pair<PairInt>(
        [a](uint8x16_t s, uint8x16_t rows) {
            return bytes(vmmlaq_s32(signed_words(s), vreinterpretq_s8_u8(rows), a.q));
        },
        sum, w);
}
TSR_INLINE PairInt first_dot(const PairInt& w, PairAct a) {
    const uint8x16_t zero = vdupq_n_u8(0);
    return next_dot({{zero, zero, zero, zero}}, w, a);
}
TSR_INLINE PairInt dot_halves(const PairInt& a, const PairInt& b) {
    return each_pair<PairInt>([](uint8x16_t x, uint8x16_t y) { return dot_halves(x, y); }, a, b);
}
TSR_INLINE PairInt first_halves(const PairInt& a, const PairInt& b) { return dot_halves(a, b); }
TSR_INLINE PairInt scaled(const PairInt& sum, const PairInt& scale) {
    return each_pair<PairInt>(
        [](uint8x16_t s, uint8x16_t by) { return bytes(vmulq_s32(signed_words(s), signed_words(by))); }, sum,
        scale);
}
TSR_INLINE PairInt add_scaled(const PairInt& sum, const PairInt& part, const PairInt& scale) {
    return each_pair<PairInt>(
        [](uint8x16_t s, uint8x16_t p, uint8x16_t by) {
            return bytes(vmlaq_s32(signed_words(s), signed_words(p), signed_words(by)));
        },
        sum, part, scale);
}
TSR_INLINE PairFlt to_float(const PairInt& a) {
    return each_pair<PairFlt>([](uint8x16_t x) { return vcvtq_f32_s32(signed_words(x)); }, a);
}
TSR_INLINE PairFlt mul(const PairFlt& a, const PairFlt& b) {
    return each_pair<PairFlt>([](float32x4_t x, float32x4_t y) { return vmulq_f32(x, y); }, a, b);
}
TSR_INLINE PairFlt add_product(const PairFlt& sum, const PairFlt& a, const PairFlt& b) {
    return each_pair<PairFlt>([](float32x4_t s, float32x4_t x, float32x4_t y) { return vfmaq_f32(s, x, y); },
                              sum, a, b);
}
TSR_INLINE PairFlt sub_product(const PairFlt& sum, const PairFlt& a, const PairFlt& b) {
    return each_pair<PairFlt>([](float32x4_t s, float32x4_t x, float32x4_t y) { return vfmsq_f32(s, x, y); },
                              sum, a, b);
}

/// The vectors of a panel's tile (see NativeVec in kernels/packed_sources.inl).
struct PairVec {
    using Int = PairInt;
    using Flt = PairFlt;
    using Act = PairAct;
    using Part = PairInt;
    using Sum = PairInt;
    static constexpr int kGroups = 1;
    static constexpr int kTokens = 2, kJoined = 2;
    /// 2 pairs of tokens times 16 rows are 16 registers of sums.
    static constexpr int kTile = 2;

    /// Two neighbouring groups of 8 rows, so that each two rows have their 8 k side by side.
    TSR_INLINE void store_joined(kernels::Int even, kernels::Int odd, uint8_t* at, uint8_t* next) {
        store(at, {bytes(vzip1q_u32(words(even.lo), words(odd.lo))),
                   bytes(vzip2q_u32(words(even.lo), words(odd.lo)))});
        store(next, {bytes(vzip1q_u32(words(even.hi), words(odd.hi))),
                     bytes(vzip2q_u32(words(even.hi), words(odd.hi)))});
    }
    TSR_INLINE Int load_joined(const uint8_t* at, const uint8_t* next) {
        return {{load16(at), load16(at + 16), load16(next), load16(next + 16)}};
    }
    /// A word or float a row, for both tokens.
    TSR_INLINE Flt load_float(const float* p) {
        const kernels::Flt rows = kernels::load_float(p);
        return {{vzip1q_f32(rows.lo, rows.lo), vzip2q_f32(rows.lo, rows.lo), vzip1q_f32(rows.hi, rows.hi),
                 vzip2q_f32(rows.hi, rows.hi)}};
    }
    TSR_INLINE Int load(const void* p) {
        return each_pair<Int>([](float32x4_t x) { return vreinterpretq_u8_f32(x); },
                              load_float(static_cast<const float*>(p)));
    }
    /// 4 bytes a token, for every row; the second token's lie `stride` halfwords behind.
    TSR_INLINE Int broadcast4(const int16_t* p, int64_t stride) {
        uint32_t first, second;
        __builtin_memcpy(&first, p, sizeof first);
        __builtin_memcpy(&second, p + stride, sizeof second);
        const uint8x16_t all = bytes(vtrn1q_u32(vdupq_n_u32(first), vdupq_n_u32(second)));
        return {{all, all, all, all}};
    }
    TSR_INLINE Flt broadcast_float(const float* p, int64_t stride) {
        const float32x4_t all = vtrn1q_f32(vld1q_dup_f32(p), vld1q_dup_f32(p + stride));
        return {{all, all, all, all}};
    }
    TSR_INLINE Flt no_float() {
        const float32x4_t zero = vdupq_n_f32(0.0f);
        return {{zero, zero, zero, zero}};
    }
    TSR_INLINE Act act_group(const int8_t* q, int64_t stride, int g) {
        return {vcombine_s8(vld1_s8(q + 4 * g), vld1_s8(q + stride + 4 * g))};
    }
    TSR_INLINE Int broadcast_scale(int v) {
        const uint8x16_t all = bytes(vdupq_n_s32(v));
        return {{all, all, all, all}};
    }
    TSR_INLINE Int scale(const Int& scale) { return scale; }

    /// 8 rows of two tokens.
    TSR_INLINE Flt load_two(const float* first, const float* second) {
        const kernels::Flt a = kernels::load_float(first), b = kernels::load_float(second);
        return {
            {vzip1q_f32(a.lo, b.lo), vzip2q_f32(a.lo, b.lo), vzip1q_f32(a.hi, b.hi), vzip2q_f32(a.hi, b.hi)}};
    }
    TSR_INLINE void store_two(float* first, float* second, const Flt& sums) {
        store_float(first, {vuzp1q_f32(sums.v[0], sums.v[1]), vuzp1q_f32(sums.v[2], sums.v[3])});
        store_float(second, {vuzp2q_f32(sums.v[0], sums.v[1]), vuzp2q_f32(sums.v[2], sums.v[3])});
    }
};

}  // namespace
}  // namespace tessera::kernels
