// The vector functions of ggml-like/cpu/vec.h, for any Isa: 16 virtual lanes, the same operations in the same
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
    static constexpr int64_t kWide = 16, kBlock = 32, kLine = 64;

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

    static void gelu_mul(const float* gate, const float* up, float* out, int64_t n) {
        map2(gate, up, out, n, [](Wide g, Wide u) {
            const Wide cubic = Isa::fma(Isa::mul(g, g), Isa::set1(-2 * 0.7978845608f * 0.044715f),
                                        Isa::set1(-2 * 0.7978845608f));
            return Isa::mul(Isa::div(g, Isa::add(Isa::set1(1.0f), exp(Isa::mul(g, cubic)))), u);
        });
    }
    static void clamped_silu_mul(const float* gate, const float* up, float* out, int64_t n) {
        map2(gate, up, out, n, [](Wide g, Wide u) {
            const Wide limit = Isa::set1(7.0f), one = Isa::set1(1.0f);
            g = Isa::select_less(limit, g, limit, g);
            u = Isa::select_less(limit, u, limit, u);
            u = Isa::select_less(u, Isa::neg(limit), Isa::neg(limit), u);
            const Wide e = exp(Isa::mul(g, Isa::set1(-1.702f)));
            return Isa::mul(Isa::div(g, Isa::add(one, e)), Isa::add(u, one));
        });
    }
    static void softcap(float* x, float cap, int64_t n) {
        const Wide limit = Isa::set1(cap);
        map(x, x, n, [limit](Wide v) { return Isa::mul(limit, tanh(Isa::div(v, limit))); });
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

    /// 2^x for x <= 0 within 2 ulp, not less than 2^-100: smaller weights of a softmax change nothing, and
    /// products with them would be subnormal and slow. The polynomial is a minimax fit of degree 5 with 1 as
    /// its first coefficient, of relative error 9e-8.
    TSR_INLINE Wide exp2_weight(Wide x) {
        const Wide shifter = Isa::set1(0x1.8p23f);
        x = Isa::max(Isa::set1(-100.0f), x);  // a NaN stays one
        const Wide shifted = Isa::add(x, shifter);
        const Wide r = Isa::sub(x, Isa::sub(shifted, shifter));
        Wide p = Isa::fma(Isa::set1(0x1.5bd97cp-10f), r, Isa::set1(0x1.3ce8b2p-7f));
        p = Isa::fma(p, r, Isa::set1(0x1.c6b6dap-5f));
        p = Isa::fma(p, r, Isa::set1(0x1.ebf9c2p-3f));
        p = Isa::fma(p, r, Isa::set1(0x1.62e42ap-1f));
        p = Isa::fma(p, r, Isa::set1(1.0f));
        return Isa::add_exponent(p, shifted);
    }

    /// The largest of n floats, n a multiple of 16; NaNs do not count.
    TSR_INLINE float largest_of(const float* x, int64_t n) {
        constexpr int kChains = 4;
        Wide top[kChains];
        TSR_UNROLL
        for (int c = 0; c < kChains; c++) top[c] = Isa::set1(-__builtin_inff());
        int64_t i = 0;
        for (; i + kChains * kWide <= n; i += kChains * kWide) {
            TSR_UNROLL
            for (int c = 0; c < kChains; c++) top[c] = Isa::max(Isa::load(x + i + c * kWide), top[c]);
        }
        for (; i < n; i += kWide) top[0] = Isa::max(Isa::load(x + i), top[0]);
        return Isa::largest(Isa::max(Isa::max(top[0], top[1]), Isa::max(top[2], top[3])));
    }

    static void softmax_chunk(float* s, int64_t lo, int64_t hi, int64_t n, float scale, float cap,
                              float* max_out, float* sum_out) {
        // Whole groups of 16 around [lo, hi); elements outside it must not be the largest.
        const int64_t first = lo / kWide * kWide, last = (hi + kWide - 1) / kWide * kWide;
        if (cap > 0) {
            const Wide by = Isa::set1(scale), limit = Isa::set1(cap);
            map(s + first, s + first, last - first,
                [by, limit](Wide v) { return Isa::mul(limit, tanh(Isa::div(Isa::mul(v, by), limit))); });
            scale = 1;
        }
        for (int64_t i = first; i < lo; i++) s[i] = -__builtin_inff();
        for (int64_t i = hi; i < last; i++) s[i] = -__builtin_inff();
        const float top = largest_of(s + first, last - first);
        const float to_bits = scale * 0x1.715476p+0f;
        const Wide by = Isa::set1(to_bits), base = Isa::set1(-(top * to_bits));
        Wide sum = Isa::zero();
        for (int64_t i = first; i < last; i += kWide) {
            Wide e = exp2_weight(Isa::fma(Isa::load(s + i), by, base));
            Isa::store(s + i, e);
            if (i < lo || i + kWide > hi) {
                for (int64_t j = i; j < i + kWide; j++) s[j] = lo <= j && j < hi ? s[j] : 0.0f;
                e = Isa::load(s + i);
            }
            sum = Isa::add(sum, e);
        }
        memset(s, 0, static_cast<size_t>(first) * sizeof(float));
        memset(s + last, 0, static_cast<size_t>(n - last) * sizeof(float));
        *max_out = top * scale;
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

    static float largest_product(const float* a, const float* b, int64_t n) {
        Wide top = Isa::zero(), other = top;
        int64_t i = 0;
        for (; i + 2 * kWide <= n; i += 2 * kWide) {
            top = Isa::max(Isa::mul(Isa::load(a + i), Isa::load(b + i)), top);
            other = Isa::max(Isa::mul(Isa::load(a + i + kWide), Isa::load(b + i + kWide)), other);
        }
        if (i < n) top = Isa::max(Isa::mul(Isa::load(a + i), Isa::load(b + i)), top);
        return Isa::largest(Isa::max(top, other));
    }
    static void products_to_int16(const float* a, const float* b, int64_t n, float top, int16_t* q) {
        const Wide by = Isa::set1(top < 0x1p-100f ? 0.0f : 32767.0f / top);
        for (int64_t i = 0; i < n; i += kWide)
            Isa::store_int16(q + i, Isa::mul(Isa::mul(Isa::load(a + i), Isa::load(b + i)), by));
    }

    static void nibble_pairs_to_int8(const uint8_t* nibbles, int8_t* codes, int64_t n) {
        for (int64_t i = 0; i < n; i++) {
            codes[2 * i] = static_cast<int8_t>((nibbles[i] & 15) - 8);
            codes[2 * i + 1] = static_cast<int8_t>((nibbles[i] >> 4) - 8);
        }
    }

    /// Cache lines to be prefetched, one after the other.
    struct Lines {
        const char *at = nullptr, *end = nullptr;
        bool near = false;
        TSR_INLINE void prefetch_one(Lines& lines) {
            if (lines.at >= lines.end) return;
            if (lines.near) {
                __builtin_prefetch(lines.at, 0, 3);
            } else {
                __builtin_prefetch(lines.at, 0, 2);
            }
            lines.at += kLine;
        }
    };
    /// The part of a.next[part] whose prefetch falls to n elements.
    TSR_INLINE Lines share_of_next(const AttnValuesArgs& a, int64_t part, int64_t element, int64_t n) {
        const char* next = static_cast<const char*>(a.next[part]);
        if (!next) return {};
        return {next + a.next_bytes * element / kBlock, next + a.next_bytes * (element + n) / kBlock,
                a.next_to_l1};
    }

    /// 16 kPanels elements of kRows rows.
    template <int kPanels, int kRows>
    static void attn_values_tile(const AttnValuesArgs& a, int64_t row, int64_t element) {
        typename Isa::Sums sums[kPanels * kRows];
        TSR_UNROLL
        for (int i = 0; i < kPanels * kRows; i++) sums[i] = Isa::no_sums();
        const int16_t* q = a.q + row * kAttnValuesPositions;
        for (int64_t part = 0; part < a.n_parts; part++) {
            const int8_t* v = a.codes[part] + 2 * element;
            // Interleaved with the products: a core has about 24 outstanding misses (L2 MSHRs), and stalls on
            // more prefetches at once.
            Lines next = row == 0 && a.next ? share_of_next(a, part, element, kPanels * kWide) : Lines{};
            for (int64_t i = 0; i < a.n_pairs[part]; i++, v += 2 * a.head_dim, q += 2) {
                Lines::prefetch_one(next);
                typename Isa::Pairs pairs[kPanels];
                TSR_UNROLL
                for (int p = 0; p < kPanels; p++) pairs[p] = Isa::load_int8_pairs(v + 2 * kWide * p);
                TSR_UNROLL
                for (int r = 0; r < kRows; r++) {
                    const auto w = Isa::set1_pair(q + r * kAttnValuesPositions);
                    TSR_UNROLL
                    for (int p = 0; p < kPanels; p++)
                        sums[p * kRows + r] = Isa::add_dots(sums[p * kRows + r], pairs[p], w);
                }
            }
            while (next.at < next.end) Lines::prefetch_one(next);
        }
        TSR_UNROLL
        for (int r = 0; r < kRows; r++) {
            const Wide scale = Isa::set1(a.top[row + r] * (1.0f / 32767.0f));
            TSR_UNROLL
            for (int p = 0; p < kPanels; p++) {
                Isa::store(a.out + (row + r) * a.head_dim + element + kWide * p,
                           Isa::mul(Isa::to_wide(sums[p * kRows + r]), scale));
            }
        }
    }

    using AttnValuesTile = void (*)(const AttnValuesArgs& a, int64_t row, int64_t element);
    /// The tile of n rows, 1 <= n <= kMost.
    template <int kPanels, int kMost>
    TSR_INLINE AttnValuesTile attn_values_tile_of(int64_t n) {
        if constexpr (kMost > 1) {
            if (n < kMost) return attn_values_tile_of<kPanels, kMost - 1>(n);
        }
        return attn_values_tile<kPanels, kMost>;
    }

    static void attn_values_block(const AttnValuesArgs& a) {
        constexpr int kPanels = Isa::kGemmPanels < kBlock / kWide ? Isa::kGemmPanels : kBlock / kWide;
        constexpr int kMost = Isa::kTileTokens / kPanels;
        for (int64_t element = 0; element < kBlock; element += kPanels * kWide) {
            int64_t row = 0;
            for (int64_t n_tiles = (a.n_rows + kMost - 1) / kMost; n_tiles > 0; n_tiles--) {
                const int64_t n = (a.n_rows - row + n_tiles - 1) / n_tiles;
                attn_values_tile_of<kPanels, kMost>(n)(a, row, element);
                row += n;
            }
        }
    }

    static void hadamard(float* x, int64_t n, float scale) {
        // Pairs inside a group of 16 in scalar code: four of the rounds, on values in L1.
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

    static void prefetch_for_write(void* p, int64_t n) {
        for (int64_t at = 0; at < n; at += kLine) __builtin_prefetch(static_cast<char*>(p) + at, 1);
    }

    static constexpr VecTable table(const char* name) {
        return {name,
                rms_norm,
                add_scaled,
                scale,
                add,
                silu_mul,
                gelu_mul,
                clamped_silu_mul,
                softcap,
                rope_norm,
                rope_neox,
                softmax_chunk,
                softmax_merge,
                exp_all,
                f32_to_f16,
                f16_to_f32,
                hadamard,
                largest_product,
                products_to_int16,
                nibble_pairs_to_int8,
                attn_values_block,
                prefetch_for_write};
    }
};

}  // namespace
}  // namespace tessera::cpu
