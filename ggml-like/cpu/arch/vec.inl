// The vector verbs of ggml-like/cpu/vec.h, for any Isa: 16 virtual lanes, the same operations in the same
// order, so that every table gives the same bits. Included by the ISA units after their isa.h; everything
// here is local.
#include <string.h>

#include "ggml-like/cpu/vec.h"
#include "quants/blocks.h"
#include "quants/kernels/inline.h"

namespace tessera::cpu {
namespace {

template <class Isa>
struct Vec {
    using Wide = typename Isa::Wide;
    static constexpr int64_t kWide = 16;

    /// Fewer than 16 elements: the missing ones are zeros and are not written.
    TSR_INLINE Wide load_part(const float* p, int64_t n) {
        float part[kWide] = {};
        memcpy(part, p, static_cast<size_t>(n) * sizeof(float));
        return Isa::load(part);
    }
    TSR_INLINE void store_part(float* p, Wide a, int64_t n) {
        float part[kWide];
        Isa::store(part, a);
        memcpy(p, part, static_cast<size_t>(n) * sizeof(float));
    }
    /// y[i] = f(x[i]) for one input, f(a[i], b[i]) for two.
    template <class F>
    TSR_INLINE void map(const float* x, float* y, int64_t n, const F& f) {
        int64_t i = 0;
        for (; i + kWide <= n; i += kWide) Isa::store(y + i, f(Isa::load(x + i)));
        if (i < n) store_part(y + i, f(load_part(x + i, n - i)), n - i);
    }
    template <class F>
    TSR_INLINE void map2(const float* a, const float* b, float* y, int64_t n, const F& f) {
        int64_t i = 0;
        for (; i + kWide <= n; i += kWide) Isa::store(y + i, f(Isa::load(a + i), Isa::load(b + i)));
        if (i < n) store_part(y + i, f(load_part(a + i, n - i), load_part(b + i, n - i)), n - i);
    }

    /// e^x within 1 ulp where it is a normal number; 0 below (also where it would be subnormal), +inf above,
    /// NaN for NaN. x = n ln 2 + r, |r| <= ln 2 / 2, the nearest n by adding 1.5 * 2^23; the polynomial is a
    /// minimax fit of degree 6 whose first two coefficients are held at 1. Its relative error is 3e-9, so
    /// that rounding decides. n = 128 is reached only with r < 0, where the exponent field ends at 254.
    TSR_INLINE Wide exp(Wide x) {
        const Wide shifter = Isa::set1(0x1.8p23f);
        const Wide shifted = Isa::fma(x, Isa::set1(0x1.715476p+0f), shifter);
        const Wide n = Isa::sub(shifted, shifter);
        Wide r = Isa::fma(n, Isa::set1(-0x1.62e4p-1f), x);
        r = Isa::fma(n, Isa::set1(-0x1.7f7d1cp-20f), r);
        Wide p = Isa::fma(Isa::set1(0x1.6a4744p-10f), r, Isa::set1(0x1.1239a2p-7f));
        p = Isa::fma(p, r, Isa::set1(0x1.5558b6p-5f));
        p = Isa::fma(p, r, Isa::set1(0x1.555492p-3f));
        p = Isa::fma(p, r, Isa::set1(0x1.fffffcp-2f));
        p = Isa::fma(Isa::mul(r, r), p, r);
        Wide y = Isa::add_exponent(Isa::add(p, Isa::set1(1.0f)), shifted);
        y = Isa::select_less(x, Isa::set1(-0x1.5d589ep+6f), Isa::zero(), y);                 // ln of 2^-126
        y = Isa::select_less(Isa::set1(0x1.62e42ep+6f), x, Isa::set1(__builtin_inff()), y);  // ln of 2^128
        return Isa::select_nan(x, Isa::add(x, x), y);
    }

    /// (1 - e) / (1 + e) with e = exp(-2 |x|), and the sign of x. The absolute error is an ulp of 1.
    TSR_INLINE Wide tanh(Wide x) {
        const Wide one = Isa::set1(1.0f);
        const Wide e = exp(Isa::mul(Isa::abs(x), Isa::set1(-2.0f)));
        return Isa::with_sign_of(Isa::div(Isa::sub(one, e), Isa::add(one, e)), x);
    }

    static void rms_norm(const float* x, const float* w, int64_t n, float eps, float* y) {
        Wide squares = Isa::zero();
        int64_t i = 0;
        for (; i + kWide <= n; i += kWide) {
            const Wide v = Isa::load(x + i);
            squares = Isa::fma(v, v, squares);
        }
        if (i < n) {
            const Wide v = load_part(x + i, n - i);
            squares = Isa::fma(v, v, squares);
        }
        const Wide s = Isa::set1(1.0f / __builtin_sqrtf(Isa::sum(squares) / static_cast<float>(n) + eps));
        if (w) {
            map2(x, w, y, n, [s](Wide v, Wide weight) { return Isa::mul(Isa::mul(v, s), weight); });
        } else {
            map(x, y, n, [s](Wide v) { return Isa::mul(v, s); });
        }
    }

    static void add_scaled(float* y, const float* x, float scale, int64_t n) {
        const Wide s = Isa::set1(scale);
        map2(x, y, y, n, [s](Wide a, Wide b) { return Isa::fma(a, s, b); });
    }
    static void scale(float* x, float scale, int64_t n) {
        const Wide s = Isa::set1(scale);
        map(x, x, n, [s](Wide a) { return Isa::mul(a, s); });
    }
    static void add(float* x, const float* b, int64_t n) {
        map2(x, b, x, n, [](Wide a, Wide c) { return Isa::add(a, c); });
    }
    static void silu_mul(const float* gate, const float* up, float* out, int64_t n) {
        map2(gate, up, out, n, [](Wide g, Wide u) {
            return Isa::mul(Isa::div(g, Isa::add(Isa::set1(1.0f), exp(Isa::neg(g)))), u);
        });
    }

    static void rope_norm(float* x, const float* cs, int64_t n_rot) {
        map2(x, cs, x, n_rot, [](Wide v, Wide angle) {
            const Wide crossed = Isa::mul(Isa::twice_odd(v), Isa::swap_pairs(angle));  // b s, b c
            return Isa::fma_alternating(Isa::twice_even(v), angle, crossed);
        });
    }

    static void rope_neox(float* x, const float* cs, int64_t n_rot) {
        const int64_t half = n_rot / 2;
        const auto rotate = [](Wide& a, Wide& b, const float* angles) {
            Wide c, s;
            Isa::load_pairs(angles, c, s);
            const Wide bs = Isa::mul(b, s), bc = Isa::mul(b, c);
            b = Isa::fma(a, s, bc);
            a = Isa::fma(a, c, Isa::neg(bs));
        };
        int64_t i = 0;
        for (; i + kWide <= half; i += kWide) {
            Wide a = Isa::load(x + i), b = Isa::load(x + half + i);
            rotate(a, b, cs + 2 * i);
            Isa::store(x + i, a);
            Isa::store(x + half + i, b);
        }
        if (i < half) {
            float angles[2 * kWide] = {};
            memcpy(angles, cs + 2 * i, static_cast<size_t>(half - i) * 2 * sizeof(float));
            Wide a = load_part(x + i, half - i), b = load_part(x + half + i, half - i);
            rotate(a, b, angles);
            store_part(x + i, a, half - i);
            store_part(x + half + i, b, half - i);
        }
    }

    static void softmax_chunk(float* s, int64_t lo, int64_t hi, int64_t n, float scale, float cap,
                              float* max_out, float* sum_out) {
        // Whole groups of 16 around [lo, hi); what they hold outside it becomes -inf and so exp's 0.
        const int64_t first = lo / kWide * kWide, last = (hi + kWide - 1) / kWide * kWide;
        const Wide by = Isa::set1(scale);
        if (cap > 0) {
            const Wide limit = Isa::set1(cap);
            map(s + first, s + first, last - first,
                [by, limit](Wide v) { return Isa::mul(limit, tanh(Isa::div(Isa::mul(v, by), limit))); });
        } else {
            map(s + first, s + first, last - first, [by](Wide v) { return Isa::mul(v, by); });
        }
        for (int64_t i = first; i < lo; i++) s[i] = -__builtin_inff();
        for (int64_t i = hi; i < last; i++) s[i] = -__builtin_inff();

        Wide top = Isa::set1(-__builtin_inff());
        for (int64_t i = first; i < last; i += kWide) top = Isa::max(Isa::load(s + i), top);
        const float m = Isa::largest(top);
        Wide sum = Isa::zero();
        for (int64_t i = first; i < last; i += kWide) {
            const Wide e = exp(Isa::sub(Isa::load(s + i), Isa::set1(m)));
            Isa::store(s + i, e);
            sum = Isa::add(sum, e);
        }
        memset(s, 0, static_cast<size_t>(first) * sizeof(float));
        memset(s + last, 0, static_cast<size_t>(n - last) * sizeof(float));
        *max_out = m;
        *sum_out = Isa::sum(sum);
    }

    static void softmax_merge(float* run_max, float* run_sum, float* run_out, float chunk_max,
                              float chunk_sum, const float* chunk_out, int64_t n) {
        const float m = *run_max > chunk_max ? *run_max : chunk_max;
        const Wide a = exp(Isa::set1(*run_max - m)), b = exp(Isa::set1(chunk_max - m));
        map2(run_out, chunk_out, run_out, n,
             [a, b](Wide o, Wide c) { return Isa::fma(o, a, Isa::mul(c, b)); });
        const Wide sum = Isa::fma(Isa::set1(*run_sum), a, Isa::mul(Isa::set1(chunk_sum), b));
        store_part(run_sum, sum, 1);
        *run_max = m;
    }

    static void exp_all(const float* x, float* out, int64_t n) {
        map(x, out, n, [](Wide v) { return exp(v); });
    }

    static void f32_to_f16(const float* x, uint16_t* y, int64_t n) {
        int64_t i = 0;
        for (; i + kWide <= n; i += kWide) Isa::store_half(y + i, Isa::load(x + i));
        if (i == n) return;
        uint16_t part[kWide];
        Isa::store_half(part, load_part(x + i, n - i));
        memcpy(y + i, part, static_cast<size_t>(n - i) * sizeof(uint16_t));
    }
    static void f16_to_f32(const uint16_t* x, float* y, int64_t n) {
        int64_t i = 0;
        for (; i + kWide <= n; i += kWide) Isa::store(y + i, Isa::load_half(x + i));
        if (i == n) return;
        uint16_t part[kWide] = {};
        memcpy(part, x + i, static_cast<size_t>(n - i) * sizeof(uint16_t));
        store_part(y + i, Isa::load_half(part), n - i);
    }

    /// One block of 32 codes times its half scale.
    TSR_INLINE void scale_codes(const void* d, const int8_t* codes, float* y) {
        uint16_t halves[kWide] = {};
        memcpy(halves, d, sizeof(uint16_t));
        float scales[kWide];
        Isa::store(scales, Isa::load_half(halves));
        const Wide by = Isa::set1(scales[0]);
        Isa::store(y, Isa::mul(Isa::load_int8(codes), by));
        Isa::store(y + kWide, Isa::mul(Isa::load_int8(codes + kWide), by));
    }
    static void q8_0_to_f32(const void* blocks, float* y, int64_t n) {
        const auto* b = static_cast<const quants::BlockQ8_0*>(blocks);
        for (int64_t i = 0; i < n; i += b->kWeights, b++) scale_codes(b->d, b->qs, y + i);
    }
    static void q4_0_to_f32(const void* blocks, float* y, int64_t n) {
        const auto* b = static_cast<const quants::BlockQ4_0*>(blocks);
        for (int64_t i = 0; i < n; i += b->kWeights, b++) {
            int8_t codes[2 * kWide];
            for (int e = 0; e < kWide; e++) {
                codes[e] = static_cast<int8_t>((b->qs[e] & 15) - 8);
                codes[kWide + e] = static_cast<int8_t>((b->qs[e] >> 4) - 8);
            }
            scale_codes(b->d, codes, y + i);
        }
    }

    static void hadamard(float* x, int64_t n, float scale) {
        // Pairs inside a group of 16 by scalars: four of the rounds on values that are in L1 anyway.
        for (int64_t step = 1; step < kWide; step *= 2) {
            for (int64_t i = 0; i < n; i += 2 * step) {
                for (int64_t j = i; j < i + step; j++) {
                    const float a = x[j], b = x[j + step];
                    x[j] = a + b;
                    x[j + step] = a - b;
                }
            }
        }
        for (int64_t step = kWide; step < n; step *= 2) {
            for (int64_t i = 0; i < n; i += 2 * step) {
                for (int64_t j = i; j < i + step; j += kWide) {
                    const Wide a = Isa::load(x + j), b = Isa::load(x + j + step);
                    Isa::store(x + j, Isa::add(a, b));
                    Isa::store(x + j + step, Isa::sub(a, b));
                }
            }
        }
        Vec::scale(x, scale, n);
    }

    static constexpr VecTable table(const char* name) {
        return {name,       rms_norm,    add_scaled,    scale,         add,     silu_mul,
                rope_norm,  rope_neox,   softmax_chunk, softmax_merge, exp_all, f32_to_f16,
                f16_to_f32, q8_0_to_f32, q4_0_to_f32,   hadamard};
    }
};

}  // namespace
}  // namespace tessera::cpu
