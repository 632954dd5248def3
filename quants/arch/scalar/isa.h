#pragma once
// The vector operations in portable C: 16 virtual lanes as an array. They define every other ISA's operations
// bit for bit. Included by ISA units: only C headers here.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels {
namespace {

struct ScalarIsa {
    static constexpr int kWide = 16;
    static constexpr int kTileTokens = 1;
    static constexpr int kGemmPanels = 1;
    static constexpr int kTokensAPointer = 1;
    struct Wide {
        float lane[16];
    };

    TSR_INLINE uint32_t bits(float f) {
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        return u;
    }
    TSR_INLINE float from_bits(uint32_t u) {
        float f;
        memcpy(&f, &u, sizeof f);
        return f;
    }

    TSR_INLINE Wide set1(float f) {
        Wide r;
        for (float& lane : r.lane) lane = f;
        return r;
    }
    TSR_INLINE Wide zero() { return set1(0.0f); }
    TSR_INLINE Wide load(const float* p) {
        Wide r;
        memcpy(r.lane, p, sizeof r.lane);
        return r;
    }
    TSR_INLINE void store(float* p, const Wide& a) { memcpy(p, a.lane, sizeof a.lane); }

    TSR_INLINE Wide add(Wide a, const Wide& b) {
        for (int i = 0; i < kWide; i++) a.lane[i] += b.lane[i];
        return a;
    }
    TSR_INLINE Wide sub(Wide a, const Wide& b) {
        for (int i = 0; i < kWide; i++) a.lane[i] -= b.lane[i];
        return a;
    }
    TSR_INLINE Wide mul(Wide a, const Wide& b) {
        for (int i = 0; i < kWide; i++) a.lane[i] *= b.lane[i];
        return a;
    }
    TSR_INLINE Wide div(Wide a, const Wide& b) {
        for (int i = 0; i < kWide; i++) a.lane[i] /= b.lane[i];
        return a;
    }
    /// a * b + c, rounded once.
    TSR_INLINE Wide fma(const Wide& a, const Wide& b, Wide c) {
        for (int i = 0; i < kWide; i++) c.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
        return c;
    }
    /// sum = fma(a, b, sum), for loops that keep many sums in registers.
    TSR_INLINE void add_product(Wide& sum, const Wide& a, const Wide& b) { sum = fma(a, b, sum); }
    /// Even lanes a * b - c, odd lanes a * b + c, rounded once.
    TSR_INLINE Wide fma_alternating(const Wide& a, const Wide& b, Wide c) {
        for (int i = 0; i < kWide; i++) {
            c.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], i % 2 == 0 ? -c.lane[i] : c.lane[i]);
        }
        return c;
    }
    TSR_INLINE Wide neg(Wide a) {
        for (float& lane : a.lane) lane = -lane;
        return a;
    }
    TSR_INLINE Wide abs(Wide a) {
        for (float& lane : a.lane) lane = from_bits(bits(lane) & 0x7fffffffu);
        return a;
    }
    TSR_INLINE Wide with_sign_of(Wide a, const Wide& sign) {
        for (int i = 0; i < kWide; i++) {
            a.lane[i] = from_bits((bits(a.lane[i]) & 0x7fffffffu) | (bits(sign.lane[i]) & 0x80000000u));
        }
        return a;
    }
    /// a > b ? a : b, hence b where either is NaN.
    TSR_INLINE Wide max(Wide a, const Wide& b) {
        for (int i = 0; i < kWide; i++) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
        return a;
    }
    /// a < b ? yes : no.
    TSR_INLINE Wide select_less(const Wide& a, const Wide& b, const Wide& yes, Wide no) {
        for (int i = 0; i < kWide; i++) no.lane[i] = a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i];
        return no;
    }
    /// a is NaN ? yes : no.
    TSR_INLINE Wide select_nan(const Wide& a, const Wide& yes, Wide no) {
        for (int i = 0; i < kWide; i++) no.lane[i] = a.lane[i] != a.lane[i] ? yes.lane[i] : no.lane[i];
        return no;
    }
    /// Adds the low 9 bits of n's pattern to the exponent field of a.
    TSR_INLINE Wide add_exponent(Wide a, const Wide& n) {
        for (int i = 0; i < kWide; i++) a.lane[i] = from_bits(bits(a.lane[i]) + (bits(n.lane[i]) << 23));
        return a;
    }

    /// The fixed tree: lane[j] += lane[j + 8], then 4, 2, 1.
    TSR_INLINE float sum(Wide a) {
        for (int half = 8; half > 0; half /= 2) {
            for (int i = 0; i < half; i++) a.lane[i] += a.lane[i + half];
        }
        return a.lane[0];
    }
    TSR_INLINE float largest(Wide a) {
        for (int half = 8; half > 0; half /= 2) {
            for (int i = 0; i < half; i++)
                a.lane[i] = a.lane[i] > a.lane[i + half] ? a.lane[i] : a.lane[i + half];
        }
        return a.lane[0];
    }

    /// (a0 a1 a2 a3 ...) -> (a0 a0 a2 a2 ...), (a1 a1 a3 a3 ...), (a1 a0 a3 a2 ...).
    TSR_INLINE Wide twice_even(Wide a) {
        for (int i = 0; i < kWide; i += 2) a.lane[i + 1] = a.lane[i];
        return a;
    }
    TSR_INLINE Wide twice_odd(Wide a) {
        for (int i = 0; i < kWide; i += 2) a.lane[i] = a.lane[i + 1];
        return a;
    }
    TSR_INLINE Wide swap_pairs(const Wide& a) {
        Wide r;
        for (int i = 0; i < kWide; i++) r.lane[i] = a.lane[i ^ 1];
        return r;
    }
    /// 32 floats at p -> those at even places, those at odd places.
    TSR_INLINE void load_pairs(const float* p, Wide& even, Wide& odd) {
        for (int i = 0; i < kWide; i++) {
            even.lane[i] = p[2 * i];
            odd.lane[i] = p[2 * i + 1];
        }
    }

    /// Exact; a NaN's payload moves up and becomes quiet.
    TSR_INLINE float half_to_float(uint16_t h) {
        const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
        const uint32_t exponent = (h >> 10) & 31u;
        const uint32_t mantissa = h & 0x3ffu;
        if (exponent == 31)
            return from_bits(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0u));
        if (exponent != 0) return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
        return from_bits(sign | bits(static_cast<float>(mantissa) * 0x1p-24f));
    }
    /// To nearest even; overflow to infinity; NaN keeps sign and upper payload and becomes quiet.
    TSR_INLINE uint16_t float_to_half(float f) {
        const uint32_t u = bits(f);
        const uint32_t sign = u >> 16 & 0x8000u;
        const uint32_t magnitude = u & 0x7fffffffu;
        uint32_t h;
        if (magnitude > 0x7f800000u) {
            h = 0x7e00u | (magnitude >> 13 & 0x3ffu);
        } else if (magnitude >= 0x47800000u) {  // 65536 and up
            h = 0x7c00u;
        } else if (magnitude >= 0x38800000u) {  // normal: a carry may run into the exponent, up to infinity
            h = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
        } else {  // subnormal: 0.5 has an ulp of 2^-24, half's smallest step, and the adder rounds to even
            h = bits(from_bits(magnitude) + 0.5f) - 0x3f000000u;
        }
        return static_cast<uint16_t>(sign | h);
    }
    TSR_INLINE Wide load_half(const uint16_t* p) {
        Wide r;
        for (int i = 0; i < kWide; i++) r.lane[i] = half_to_float(p[i]);
        return r;
    }
    TSR_INLINE void store_half(uint16_t* p, const Wide& a) {
        for (int i = 0; i < kWide; i++) p[i] = float_to_half(a.lane[i]);
    }

    /// Products of int8 and int16 in pairs, summed exactly: 16 pairs (2 i, 2 i + 1), one that all lanes
    /// share, and a sum of each lane.
    struct Pairs {
        int8_t at[2 * kWide];
    };
    struct Pair {
        int16_t at[2];
    };
    struct Sums {
        int32_t lane[16];
    };
    /// To the nearest integer, ties to even; |a| <= 32767. A NaN becomes anything.
    TSR_INLINE void store_int16(int16_t* p, const Wide& a) {
        for (int i = 0; i < kWide; i++)
            p[i] = static_cast<int16_t>(static_cast<uint16_t>(bits(a.lane[i] + 0x1.8p23f)));
    }
    TSR_INLINE Sums no_sums() { return {}; }
    TSR_INLINE Pairs load_int8_pairs(const int8_t* p) {
        Pairs r;
        memcpy(r.at, p, sizeof r.at);
        return r;
    }
    TSR_INLINE Pair set1_pair(const int16_t* p) { return {{p[0], p[1]}}; }
    TSR_INLINE Sums add_dots(Sums s, const Pairs& v, Pair w) {
        for (int i = 0; i < kWide; i++) s.lane[i] += v.at[2 * i] * w.at[0] + v.at[2 * i + 1] * w.at[1];
        return s;
    }
    TSR_INLINE Wide to_wide(const Sums& s) {
        Wide r;
        for (int i = 0; i < kWide; i++) r.lane[i] = static_cast<float>(s.lane[i]);
        return r;
    }
};

}  // namespace
}  // namespace tessera::kernels
