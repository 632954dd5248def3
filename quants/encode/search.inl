// The scale search behind all encoders. Eight sub-blocks are searched side by side, one a lane. A candidate
// step gives every weight its nearest level, and those levels in turn give the step of least weighted square
// error (a line through the origin, or with a minimum any line). The best of a scan of candidates is kept,
// and refined by repeating this from its own result.
//
// Weights are divided beforehand by a power of two near the largest magnitude, so that no sum overflows or
// vanishes.
#include "quants/blocks.h"
#include "quants/encode/lanes.h"

namespace tessera::quants {
namespace {

/// For the inner loops: in a separate function all their sums stay in registers.
#define TSR_ONCE [[gnu::noinline]] static

/// Eight sub-blocks of n weights: weight e of lane l is lane l of x[e]. w > 0 weighs its squared error.
template <int n>
struct Group {
    Flt x[n], w[n];
};

// ---- levels: which multiples of the step a code stands for

/// The integers lo .. hi; lo has the largest magnitude.
template <int lo, int hi>
struct Uniform {
    static constexpr float kExtreme = lo;
    TSR_INLINE Flt nearest(const Flt& v) { return nearest_integer(min(max(v, all(lo)), all(hi))); }
    TSR_INLINE Int code(const Flt& level) { return to_int(level - all(lo)); }
};

/// The values of IQ4: a rising table.
struct Iq4Levels {
    static constexpr float kExtreme = kIq4Values[0];
    TSR_INLINE float middle(int k) { return 0.5f * static_cast<float>(kIq4Values[k - 1] + kIq4Values[k]); }
    TSR_INLINE Flt nearest(const Flt& v) {
        Flt level = all(kIq4Values[0]);
        TSR_UNROLL
        for (int k = 1; k < 16; k++)
            level =
                level + keep(v > all(middle(k)), all(static_cast<float>(kIq4Values[k] - kIq4Values[k - 1])));
        return level;
    }
    TSR_INLINE Int code(const Flt& level) {
        Int code = all_int(0);
        TSR_UNROLL
        for (int k = 1; k < 16; k++) code = code - (level > all(middle(k)));
        return code;
    }
};

/// The values of MXFP4: eight magnitudes and a sign.
struct Mxfp4Levels {
    static constexpr float kExtreme = kMxfp4Values[7];
    TSR_INLINE float middle(int k) {
        return 0.5f * static_cast<float>(kMxfp4Values[k - 1] + kMxfp4Values[k]);
    }
    TSR_INLINE Flt nearest(const Flt& v) {
        const Flt size = magnitude(v);
        Flt level = all(0.0f);
        TSR_UNROLL
        for (int k = 1; k < 8; k++)
            level = level + keep(size > all(middle(k)),
                                 all(static_cast<float>(kMxfp4Values[k] - kMxfp4Values[k - 1])));
        return with_sign(level, v);
    }
    TSR_INLINE Int code(const Flt& level) {
        const Flt size = magnitude(level);
        Int code = (level < all(0.0f)) & all_int(8);
        TSR_UNROLL
        for (int k = 1; k < 8; k++) code = code - (size > all(middle(k)));
        return code;
    }
};

/// Candidates for a step: the extreme weight stands at first, first * ratio, ... times the extreme level.
struct Scan {
    float first, ratio;
    int count;
};

// ---- x = step * level

/// The sums over a sub-block that determine its error at a step.
struct ScaleSums {
    Flt level_level;  // sum w level^2
    Flt level_rest;   // sum w level (x - step * level)
    Flt error;        // sum w (x - step * level)^2
};

template <class Levels, int n>
TSR_ONCE ScaleSums sums_at(const Group<n>& g, const Flt& step) {
    const Flt inverse = quotient(all(1.0f), step);
    ScaleSums s = {all(0), all(0), all(0)};
    for (int e = 0; e < n; e++) {
        const Flt level = Levels::nearest(g.x[e] * inverse);
        const Flt rest = g.x[e] - step * level;
        const Flt weighted = g.w[e] * level;
        s.level_level = s.level_level + weighted * level;
        s.level_rest = s.level_rest + weighted * rest;
        s.error = s.error + (g.w[e] * rest) * rest;
    }
    return s;
}

template <int n>
TSR_INLINE Flt extremes(const Group<n>& g) {
    Flt extreme = all(0);
    for (int e = 0; e < n; e++) extreme = select(magnitude(g.x[e]) > magnitude(extreme), g.x[e], extreme);
    return extreme;
}

/// The best free step of each lane, of either sign.
template <class Levels, int n>
TSR_INLINE Flt best_steps(const Group<n>& g, const Scan& scan, int n_refine) {
    const Flt widest = extremes(g) * all(1.0f / Levels::kExtreme);
    Flt best = all(0), least = all(__builtin_inff());
    const auto consider = [&](const Flt& step) {
        const ScaleSums s = sums_at<Levels>(g, step);
        const Flt change = quotient(s.level_rest, s.level_level);
        const Flt error = s.error - change * s.level_rest;
        const Int better = error < least;
        least = select(better, error, least);
        best = select(better, step + change, best);
    };
    float reach = scan.first;
    for (int k = 0; k < scan.count; k++, reach *= scan.ratio) {
        consider(widest * all(1.0f / reach));
        consider(widest * all(-1.0f / reach));
    }
    for (int k = 0; k < n_refine; k++) consider(best);
    return best;
}

// ---- x = step * code + offset, code in 0 .. top

struct Line {
    Flt step, offset;
};

struct LineSums {
    Flt code, code_code;         // sum w code, sum w code^2
    Flt rest, code_rest, error;  // sum w r, sum w code r, sum w r^2 with r = x - step * code - offset
};

template <int top, int n>
TSR_ONCE LineSums sums_at(const Group<n>& g, const Line& line) {
    const Flt inverse = quotient(all(1.0f), line.step);
    LineSums s = {all(0), all(0), all(0), all(0), all(0)};
    for (int e = 0; e < n; e++) {
        const Flt above = g.x[e] - line.offset;
        const Flt code = Uniform<0, top>::nearest(above * inverse);
        const Flt rest = above - line.step * code;
        const Flt weighted = g.w[e] * code, weighted_rest = g.w[e] * rest;
        s.code = s.code + weighted;
        s.code_code = s.code_code + weighted * code;
        s.rest = s.rest + weighted_rest;
        s.code_rest = s.code_rest + weighted_rest * code;
        s.error = s.error + weighted_rest * rest;
    }
    return s;
}

/// The free line of least error for given codes; `total` is the sum of w. With `below_zero` its offset is at
/// most 0.
struct LineFit {
    Line line;
    Flt error;
};
TSR_INLINE LineFit fit(const Line& line, const LineSums& s, const Flt& total, bool below_zero) {
    const Flt determinant = total * s.code_code - s.code * s.code;
    const Flt step = quotient(total * s.code_rest - s.code * s.rest, determinant);
    const Flt offset = quotient(s.code_code * s.rest - s.code * s.code_rest, determinant);
    LineFit free = {{line.step + step, line.offset + offset}, s.error - step * s.code_rest - offset * s.rest};
    if (!below_zero) return free;
    // The offset at 0: r grows by line.offset.
    const Flt code_rest = s.code_rest + line.offset * s.code;
    const Flt error0 = s.error + line.offset * (all(2) * s.rest + line.offset * total);
    const Flt step0 = quotient(code_rest, s.code_code);
    const Int above = free.line.offset > all(0);
    free.line.step = select(above, line.step + step0, free.line.step);
    free.error = select(above, error0 - step0 * code_rest, free.error);
    free.line.offset = select(above, all(0), free.line.offset);
    return free;
}

template <int n>
TSR_INLINE Flt total_weight(const Group<n>& g) {
    Flt total = all(0);
    for (int e = 0; e < n; e++) total = total + g.w[e];
    return total;
}

/// Candidates for a line span a share of the sub-block's range: first, first + step, ..., each cut off at the
/// low end, at the high end and at both; and 1 + fine * k, for |k| <= n_fine, to try other phases.
struct LineScan {
    float first, step;
    int count;
    float fine;
    int n_fine;
};

/// The best free line of each lane. Candidates span `reach` of the sub-block's range, cut off at the low end
/// in three ways: not at all, half or all of what is cut.
template <int top, int n>
TSR_INLINE Line best_lines(const Group<n>& g, const LineScan& scan, int n_refine, bool below_zero) {
    Flt low = g.x[0], high = g.x[0];
    for (int e = 1; e < n; e++) {
        low = min(low, g.x[e]);
        high = max(high, g.x[e]);
    }
    if (below_zero) low = min(low, all(0));
    const Flt range = high - low, total = total_weight(g);
    Line best = {all(0), low};
    Flt least = all(__builtin_inff());
    const auto consider = [&](const Line& line) {
        const LineFit fitted = fit(line, sums_at<top>(g, line), total, below_zero);
        const Int better = fitted.error < least;
        least = select(better, fitted.error, least);
        best.step = select(better, fitted.line.step, best.step);
        best.offset = select(better, fitted.line.offset, best.offset);
    };
    const auto consider_share = [&](float share, float below) {
        const Flt spare = range * all(1 - share);
        consider({range * all(share / top), low + all(below) * spare});
    };
    for (int k = 0; k < scan.count; k++) {
        const float share = scan.first + scan.step * static_cast<float>(k);  // of the range
        consider_share(share, 0.0f);
        consider_share(share, 1.0f);
        consider_share(share, 0.5f);
    }
    for (int k = -scan.n_fine; k <= scan.n_fine; k++) {
        const float share = 1 + scan.fine * static_cast<float>(k);
        if (k % 2 == 0) {
            consider_share(share, 0.5f);
        } else {
            consider_share(share, 0.0f);
            consider_share(share, 1.0f);
        }
    }
    Flt sum = all(0), squares = all(0);
    for (int e = 0; e < n; e++) {
        sum = sum + g.w[e] * g.x[e];
        squares = squares + (g.w[e] * g.x[e]) * g.x[e];
    }
    const Flt mean = sum / total, variance = max(squares / total - mean * mean, all(0));
    Flt sigma;
    for (int i = 0; i < kParts; i++) sigma.part[i] = root(variance.part[i]);
    static constexpr float kSpans[] = {3.2f, 4.0f, 5.0f};
    for (const float span : kSpans) consider({sigma * all(span / top), mean - sigma * all(0.5f * span)});
    for (int k = 0; k < n_refine; k++) consider(best);
    return best;
}

}  // namespace
}  // namespace tessera::quants
