// A tile of the product of packed weights and quantized activations: one body for every type, for decode and
// for prefill. R vectors of 8 or 16 rows times T tokens, k rising in blocks of 32, in the order of
// docs/design/numerics.md. Weights come from a source (packed_sources.inl), tokens from
// packed_activations.inl. packed_gemv.inl and packed_gemm.inl cut products into tiles.
#include <type_traits>

#include "quants/kernels/packed_sources.inl"

namespace tessera::kernels {
namespace {

/// Whether the dot product instruction reads its activation from memory, which saves a load where no other
/// product needs the activation in a register.
template <class Act>
constexpr bool kActInMemory = requires(const Act& a) {
    in_register(a);
};

/// Adds the products of R operands and one activation to their sums, or starts the sums. Where additions are
/// instructions of their own, both products come before both additions: interleaved, additions more often
/// take a product's port (3 % of Q4_K on Zen 4). More than two operands would take registers that decoding
/// needs.
template <int R, class Part, class Operand, class Act>
TSR_INLINE void add_dots(bool starts, const Operand (&w)[R], const Act& a, Part (&sum)[R]) {
    if constexpr (R > 1 && kActInMemory<Act>) {
        add_dots<R>(starts, w, in_register(a), sum);
    } else if constexpr (kLaneSums && R <= 2) {
        Part product[R];
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            product[r] = first_dot(w[r], a);
            pin(product[r]);
        }
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            sum[r] = starts ? product[r] : add16(sum[r], product[r]);
            pin(sum[r]);
        }
    } else {
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            sum[r] = starts ? first_dot(w[r], a) : next_dot(sum[r], w[r], a);
            pin(sum[r]);
        }
    }
}

/// Announces the next n_operands of R vectors, from group g on, to sources that interleave prefetches.
template <int R, class Source>
TSR_INLINE void before_products(const Source& s, int at, int b, int g, int n_operands) {
    if constexpr (requires { Source::before_products(s, b, g, n_operands, at, R); }) {
        Source::before_products(s, b, g, n_operands, at, R);
    }
}

/// sum[t][r] = the exact integer sums of block b, of the vectors from `at` on.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void block_sums(const Source& s, int at, int b, const Acts& x,
                           typename Source::V::Sum (&sum)[T][R]) {
    using U = typename Source::U;
    using V = typename Source::V;
    constexpr int kGroups = kScaleGroups<U>, kFit = zero_in_lanes<U>() ? kDepthCentred<U> : kDepthAsIs<U>;
    constexpr int kDepth = kFit < kGroups ? kFit : kGroups;
    TSR_UNROLL
    for (int first = 0; first < 8; first += kDepth) {
        typename V::Part part[T][R];
        if constexpr (kZeroStarts<U>) {
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const int half = kGroups == 8 ? 2 : first / 4;
                const auto start = Acts::template start_at<U, V, V::kTokens * T>(x, V::kTokens * t, b, half);
                TSR_UNROLL
                for (int r = 0; r < R; r++) part[t][r] = start;
            }
        }
        TSR_UNROLL
        for (int i = 0; i < kDepth; i += V::kJoined) {
            const int g = first + i;
            before_products<R>(s, at, b, g, V::kJoined);
            typename V::Int w[R];
            TSR_UNROLL
            for (int r = 0; r < R; r++) w[r] = Source::operand(s, at + r, g);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const auto a = V::act_group(Acts::q_at(x, V::kTokens * t, b), x.q_stride, g);
                add_dots(i == 0 && !kZeroStarts<U>, w, a, part[t]);
            }
        }
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            const auto scale =
                V::scale(U::kScales != 0 ? Source::scale(s, at + r, b, U::kScales == 2 ? first / 4 : 0)
                                         : V::broadcast_scale(1));
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                sum[t][r] = first == 0 ? scaled(part[t][r], scale) : add_scaled(sum[t][r], part[t][r], scale);
            }
        }
    }
    if constexpr (U::kZero != 0 && !kZeroStarts<U>) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            const Int zero = U::kZeroScaled ? Source::zero(s, at + r, b) : broadcast_half(U::kZero);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                sum[t][r] = sub32(sum[t][r], dot_halves(zero, broadcast4(Acts::sum16_at(x, t, b))));
            }
        }
    }
}

/// Vectors of rows whose sums are computed together: two of four where the values between codes and sums
/// (parts of codes, or weights without their signs) leave too few registers.
template <class U, int R, int T>
constexpr int kAtOnce = [] {
    constexpr bool kParts = code_parts(U::Format::kBits) > 1 && T == 1;
    constexpr bool kSizes = U::kBySigns && T == 2;
    return R == 4 && kSplitsFour && (kParts || kSizes) ? 2 : R;
}();

/// Compiler barrier: activations are loaded again for the next vectors instead of being kept live, since
/// computing a few vectors at a time is meant to save registers.
TSR_INLINE void forget_loads() { asm volatile("" ::: "memory"); }

/// Prefetches activations ahead of those of block b where their layout does so.
template <class Acts>
TSR_INLINE void prefetch_activations(const Acts& x, int b) {
    if constexpr (requires { Acts::prefetch_ahead(x, b); }) Acts::prefetch_ahead(x, b);
}

/// Accumulates a unit that is one block with a float scale.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void accumulate_block(const Source& s, const Acts& x, typename Source::V::Flt (&total)[T][R]) {
    using V = typename Source::V;
    constexpr int kEach = kAtOnce<typename Source::U, R, T>;
    prefetch_activations(x, 0);
    TSR_UNROLL
    for (int at = 0; at < R; at += kEach) {
        if (at != 0) forget_loads();
        typename V::Sum sum[T][kEach];
        block_sums<F, kEach, T>(s, at, 0, x, sum);
        TSR_UNROLL
        for (int r = at; r < at + kEach; r++) {
            const auto d = Source::d(s, r);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const auto scale = mul(d, V::broadcast_float(Acts::d_at(x, V::kTokens * t, 0), x.d_stride));
                total[t][r] = add_product(total[t][r], to_float(sum[t][r - at]), scale);
            }
            if constexpr (F::kMin == MinKind::PerBlock) {
                const auto min = Source::min(s, r, 0);
                TSR_UNROLL
                for (int t = 0; t < T; t++) {
                    total[t][r] = add_product(
                        total[t][r], min, V::broadcast_float(Acts::s_at(x, V::kTokens * t, 0), x.d_stride));
                }
            }
        }
    }
}

/// Subtracts the offsets (dmin corrections) of block b of a unit with integer scales.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void add_offsets(const Source& s, int b, const Acts& x, typename Source::V::Flt (&total)[T][R],
                            typename Source::V::Flt (&offset)[T][R]) {
    using V = typename Source::V;
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        if constexpr (F::kMin == MinKind::PerBlock) {
            const auto min = Source::min(s, r, b);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                total[t][r] = sub_product(total[t][r], min,
                                          V::broadcast_float(Acts::s_at(x, V::kTokens * t, b), x.d_stride));
            }
        }
        if constexpr (F::kMin == MinKind::PerHalf) {
            const auto min = Source::min_halves(s, r, b);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const auto sums =
                    dot_halves(min, V::broadcast4(Acts::sum16_at(x, V::kTokens * t, b), 2 * x.d_stride));
                offset[t][r] = add_product(offset[t][r], to_float(sums),
                                           V::broadcast_float(Acts::d_at(x, V::kTokens * t, b), x.d_stride));
            }
        }
    }
}

/// Accumulates the products of block b of such a unit.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void accumulate_subblock(const Source& s, int b, const Acts& x,
                                    typename Source::V::Flt (&product)[T][R]) {
    using V = typename Source::V;
    constexpr int kEach = kAtOnce<typename Source::U, R, T>;
    prefetch_activations(x, b);
    TSR_UNROLL
    for (int at = 0; at < R; at += kEach) {
        if (at != 0) forget_loads();
        typename V::Sum sum[T][kEach];
        block_sums<F, kEach, T>(s, at, b, x, sum);
        TSR_UNROLL
        for (int r = at; r < at + kEach; r++) {
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const auto scale = V::broadcast_float(Acts::d_at(x, V::kTokens * t, b), x.d_stride);
                product[t][r] = add_product(product[t][r], to_float(sum[t][r - at]), scale);
            }
        }
    }
}

/// Accumulates a unit of 8 blocks with integer scales.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void accumulate_superblock(Source& s, const Acts& x, typename Source::V::Flt (&total)[T][R]) {
    using V = typename Source::V;
    typename V::Flt product[T][R], offset[T][R];
    TSR_UNROLL
    for (int t = 0; t < T; t++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) product[t][r] = offset[t][r] = V::no_float();
    }
    // Where a tile's sums fill the registers, offsets and products take turns in them.
    if constexpr (Source::kOffsetsFirst && F::kMin != MinKind::None) {
        if constexpr (Source::kMakesOffsets) {
            TSR_ROLLED
            for (int b = 0; b < F::kBlocks; b++) add_offsets<F, R, T>(s, b, x, total, offset);
        } else {
            for (int b = 0; b < F::kBlocks; b++) add_offsets<F, R, T>(s, b, x, total, offset);
        }
    }
    for (int b = 0; b < F::kBlocks; b++) {
        Source::open_block(s, b);
        accumulate_subblock<F, R, T>(s, b, x, product);
        if constexpr (!Source::kOffsetsFirst) add_offsets<F, R, T>(s, b, x, total, offset);
        Source::close_block(s);
    }
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        const auto d = Source::d(s, r);
        TSR_UNROLL
        for (int t = 0; t < T; t++) total[t][r] = add_product(total[t][r], product[t][r], d);
        if constexpr (F::kMin == MinKind::PerHalf) {
            const auto dmin = Source::dmin(s, r);
            TSR_UNROLL
            for (int t = 0; t < T; t++) total[t][r] = sub_product(total[t][r], offset[t][r], dmin);
        }
    }
}

/// The sums of V::kTokens tokens and one vector's rows, from and to rows y_stride apart.
template <class V>
TSR_INLINE typename V::Flt load_sums(const float* y, [[maybe_unused]] int64_t y_stride) {
    if constexpr (V::kTokens == 2) {
        return V::load_two(y, y + y_stride);
    } else {
        return V::load_float(y);
    }
}
template <class Source>
TSR_INLINE void store_sums(float* y, [[maybe_unused]] int64_t y_stride, [[maybe_unused]] int64_t apart,
                           typename Source::V::Flt sums) {
    if constexpr (Source::kGroupsApart) {
        Source::V::store_groups(y, y + apart, sums);
    } else if constexpr (Source::V::kTokens == 2) {
        Source::V::store_two(y, y + y_stride, sums);
    } else {
        store_float(y, sums);
    }
}

/// Adds the products of units i to end, of n_units, to the totals. words: room for the starts of block sums
/// (Acts::open_unit).
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void add_units(Source& s, Acts& x, int64_t i, int64_t end, int64_t n_units,
                          int16_t (&words)[Source::V::kTokens * T][kTokenStarts],
                          typename Source::V::Flt (&total)[T][R]) {
    for (; i < end; i++) {
        Source::open_unit(s);
        Acts::template open_unit<typename Source::U>(x, i, n_units, words);
        if constexpr (F::kSuper) {
            accumulate_superblock<F, R, T>(s, x, total);
        } else {
            Source::open_block(s, 0);
            accumulate_block<F, R, T>(s, x, total);
        }
        Source::close_unit(s);
        Acts::template close_unit<F>(x);
    }
}

/// Tokens of a tile of T that exist; the sums of the padding are computed from whatever its places hold, and
/// not stored.
template <int T, class Acts>
TSR_INLINE int64_t tokens_of(const Acts& x) {
    if constexpr (requires { x.n_tok; }) {
        return x.n_tok;
    } else {
        return T;
    }
}

/// y[t][r * apart ...] = the totals of a tile (see below) for the first n_tok tokens.
template <class Source, int R, int T>
TSR_INLINE void store_totals(const typename Source::V::Flt (&total)[T][R], float* y, int64_t y_stride,
                             int64_t apart, int64_t n_tok) {
    using V = typename Source::V;
    TSR_UNROLL
    for (int t = 0; t < T; t++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            const int64_t first = Source::kGroupsApart ? V::kGroups * r : r;
            float* to = y + V::kTokens * t * y_stride + apart * first;
            if (t < n_tok) store_sums<Source>(to, y_stride, apart, total[t][r]);
        }
    }
}

/// y[t][r * apart ...] (+)= the product over n_units. apart: rows from one vector to the next, or from one
/// group to the next where these lie far apart. resume: y holds the sum of the units before.
template <class F, int R, int T, class Source, class Acts>
[[gnu::noinline, TSR_NO_CLONES]] void tile(typename Source::Start start, int64_t n_units, Acts x, float* y,
                                           int64_t y_stride, bool resume,
                                           int64_t apart = kGroupRows * Source::V::kGroups) {
    using V = typename Source::V;
    static_assert(!Source::kGroupsApart || V::kGroups == 2);
    Source s;
    Source::start(s, start);
    typename V::Flt total[T][R];
    const int64_t n_tok = tokens_of<T>(x);
    // Stores retire in order: one that misses holds up the stores of spilled sums after it.
    TSR_UNROLL
    for (int t = 0; t < V::kTokens * T; t++) prefetch_l1(y + t * y_stride);
    TSR_UNROLL
    for (int t = 0; t < T; t++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            total[t][r] = resume && t < n_tok
                              ? load_sums<V>(y + V::kTokens * t * y_stride + apart * r, y_stride)
                              : V::no_float();
        }
    }
    [[maybe_unused]] alignas(32) int16_t words[V::kTokens * T][kTokenStarts];
    add_units<F, R, T>(s, x, 0, n_units, n_units, words, total);
    store_totals<Source>(total, y, y_stride, apart, n_tok);
}

/// y[t][...] = the product over n_units of a panel's rows and two tiles of T tokens, the second of which may
/// be padded. Both tiles take a few units in turn, so that the panel holds only these: it stays in L1 for the
/// second tile, and the second tile's work overlaps the memory accesses of the first (6 to 8 tokens +15 to 25
/// % with AVX2).
template <class F, class P, int T>
[[gnu::noinline, TSR_NO_CLONES]] void tile_pair(typename P::Unpacking::Start start, int64_t n_units,
                                                TiledAct<T> x, TiledAct<T> next_x, float* y,
                                                int64_t y_stride) {
    constexpr int64_t kUnits = kStartBlocks / F::kBlocks;
    typename P::Unpacking filling;
    P panel;
    P::Unpacking::start(filling, start);
    Flt total[T][2] = {}, next_total[T][2] = {};
    const int64_t n_next = next_x.n_tok;
    TSR_UNROLL
    for (int t = 0; t < 2 * T; t++) prefetch_l1(y + t * y_stride);
    [[maybe_unused]] alignas(32) int16_t words[T][kTokenStarts], next_words[T][kTokenStarts];
    for (int64_t i = 0; i < n_units; i += kUnits) {
        // A constant 1 where it is one unit: for a loop that might repeat gcc 12 moves both tiles' totals
        // between registers and stack.
        const int64_t end = kUnits == 1 || i + kUnits < n_units ? i + kUnits : n_units;
        filling.to = start.panel;
        add_units<F, 2, T>(filling, x, i, end, n_units, words, total);
        P::start(panel, start.panel);
        add_units<F, 2, T>(panel, next_x, i, end, n_units, next_words, next_total);
    }
    store_totals<P>(total, y, y_stride, kGroupRows, T);
    store_totals<P>(next_total, y + T * y_stride, y_stride, kGroupRows, n_next);
}

}  // namespace
}  // namespace tessera::kernels
