// The float tiles, for any Isa: 16 to 64 rows of W times a few tokens, k rising, one fma a step. Weights are
// k-major: panels here, packed groups in packed_floats.inl. Included by the ISA units after their isa.h;
// everything here is local to the unit. Drivers: float_matmul.inl and packed_floats.inl.
#include <type_traits>

#include "quants/kernels/inline.h"
#include "quants/kernels/table.h"

namespace tessera::kernels {
namespace {

/// A tile's dimensions. The rows of panel p go to y + 16 p.
struct TileArgs {
    int64_t n_k;
    int64_t x_stride;
    int64_t y_stride;
    bool accumulate;
};

/// k of an iteration of a tile's loop: with one, loop control costs 4 % of the fma roofline (Granite Rapids).
constexpr int kTileStep = 4;

/// A tile's weights in panels of 16 rows that lie kSize floats apart. A constant distance takes neither
/// registers nor instructions.
template <class Isa, int64_t kSize>
struct Panels {
    static constexpr int kStep = kTileStep;
    const float* panel;

    [[gnu::always_inline]] inline void prefetch(int) const {}
    /// The weights of the 16 rows of panel p at this k.
    [[gnu::always_inline]] inline typename Isa::Wide load(int p) const {
        return Isa::load(panel + p * kSize);
    }
    [[gnu::always_inline]] inline void next() { panel += kPanelRows; }
};

/// The same of panels that lie panel_size elements apart, consecutive k panel_stride elements. As the weights
/// are read, as many bytes are prefetched from `beside` on, unless null.
template <class Isa, class Element>
struct PanelsOf {
    static constexpr int kStep = kTileStep;
    const Element* panel;
    int64_t panel_stride;
    int64_t panel_size;
    const uint8_t* beside = nullptr;

    /// Prefetches as many bytes as an iteration reads of n_panels.
    [[gnu::always_inline]] inline void prefetch(int n_panels) {
        if (!beside) return;
        const int n = n_panels * kStep * kPanelRows * static_cast<int>(sizeof(Element));
        TSR_UNROLL
        for (int at = 0; at < n; at += 64) __builtin_prefetch(beside + at);
        beside += n;
    }
    [[gnu::always_inline]] inline typename Isa::Wide load(int p) const {
        if constexpr (sizeof(Element) == 2) {
            return Isa::load_half(panel + p * panel_size);
        } else {
            return Isa::load(panel + p * panel_size);
        }
    }
    [[gnu::always_inline]] inline void next() { panel += panel_stride; }
};

/// The addresses of a tile's tokens at some k. Tokens within reach of one pointer's addressing mode share it,
/// since one pointer each takes more registers than there are, and then loads.
template <class Isa, int kTok>
struct TokenRows {
    static constexpr int kShare = Isa::kTokensAPointer;
    static constexpr int kPointers = (kTok + kShare - 1) / kShare;
    const float* x[kPointers];  // [n_k] of every kShare-th token
    int64_t stride;

    [[gnu::always_inline]] inline TokenRows(const float* first, int64_t x_stride) : stride(x_stride) {
        TSR_UNROLL
        for (int i = 0; i < kPointers; i++) x[i] = first + i * kShare * stride;
    }
    [[gnu::always_inline]] inline float at(int t, int k) const {
        return x[t / kShare][t % kShare * stride + k];
    }
    [[gnu::always_inline]] inline void next(int n_k) {
        TSR_UNROLL
        for (int i = 0; i < kPointers; i++) {
            x[i] += n_k;
            TSR_OWN_REGISTER(x[i]);
        }
    }
};

/// acc += the products at the k-th k. Each x serves all panels while it is in a register; the other loop
/// order would keep all tokens' x in registers.
template <class Isa, int kPanels, int kTok, class Source>
TSR_INLINE void add_products(Source& w, const TokenRows<Isa, kTok>& x, int k,
                             typename Isa::Wide (&acc)[kPanels * kTok]) {
    typename Isa::Wide weights[kPanels];
    TSR_UNROLL
    for (int p = 0; p < kPanels; p++) weights[p] = w.load(p);
    TSR_UNROLL
    for (int t = 0; t < kTok; t++) {
        const typename Isa::Wide spread = Isa::set1(x.at(t, k));
        TSR_UNROLL
        for (int p = 0; p < kPanels; p++) Isa::add_product(acc[p * kTok + t], weights[p], spread);
    }
    w.next();
}

/// y[t, r] (+)= sum_k w[k, r] * x[t, k] for kTok tokens. With Isa::kTileTokens and one panel, or a share of
/// them and several panels, the accumulators fill the registers; with fewer tokens, more panels keep enough
/// independent chains in flight to hide the latency of fma.
template <class Isa, int kPanels, int kTok, class Source>
void tile(Source w, const TileArgs& a, const float* first, float* y) {
    typename Isa::Wide acc[kPanels * kTok];
    TSR_UNROLL
    for (int i = 0; i < kPanels * kTok; i++) {
        acc[i] = a.accumulate ? Isa::load(y + (i % kTok) * a.y_stride + i / kTok * kPanelRows) : Isa::zero();
    }
    TokenRows<Isa, kTok> x(first, a.x_stride);
    int64_t left = a.n_k;
    for (; left >= Source::kStep; left -= Source::kStep) {
        w.prefetch(kPanels);
        TSR_UNROLL
        for (int k = 0; k < Source::kStep; k++) add_products<Isa, kPanels, kTok>(w, x, k, acc);
        x.next(Source::kStep);
    }
    for (; left > 0; left--, x.next(1)) add_products<Isa, kPanels, kTok>(w, x, 0, acc);
    TSR_UNROLL
    for (int i = 0; i < kPanels * kTok; i++) {
        Isa::store(y + (i % kTok) * a.y_stride + i / kTok * kPanelRows, acc[i]);
    }
}

template <class Source>
using TileFn = void (*)(Source w, const TileArgs& a, const float* x, float* y);

/// The largest number of tokens up to n that tiles are compiled for: all sizes of a small batch or a group of
/// query heads, and few larger ones, whose tiles are the longest code.
constexpr int64_t tile_tokens(int64_t n) { return n <= 8 ? n : n < 12 ? 8 : n < 16 ? 12 : n < 24 ? 16 : 24; }

/// The tile of n tokens, 1 <= n <= kMost, n one of tile_tokens().
template <class Isa, int kPanels, int kMost, class Source>
TileFn<Source> tile_of(int64_t n) {
    if constexpr (kMost > 1) {
        if (n < kMost) return tile_of<Isa, kPanels, static_cast<int>(tile_tokens(kMost - 1)), Source>(n);
    }
    return tile<Isa, kPanels, kMost, Source>;
}

/// All tokens against kPanels panels, in tiles as equal as possible: 7 = 4 + 3 keeps more chains going than 6
/// + 1. The first tile's weights come from `first`, the others' from w, which the first tile may have filled.
template <class Isa, int kPanels, class First, class Source>
void gemm_tiles(const First& first, const Source& w, const TileArgs& a, const float* x, int64_t n_tok,
                float* y) {
    constexpr int kMost = Isa::kTileTokens / kPanels;
    static_assert(tile_tokens(kMost) == kMost);
    for (int64_t token = 0; token < n_tok;) {
        const int64_t left = n_tok - token, n_tiles = (left + kMost - 1) / kMost;
        const int64_t n = tile_tokens((left + n_tiles - 1) / n_tiles);
        if (std::is_same_v<First, Source> || token > 0) {
            tile_of<Isa, kPanels, kMost, Source>(n)(w, a, x, y);
        } else {
            tile_of<Isa, kPanels, kMost, First>(n)(first, a, x, y);
        }
        x += n * a.x_stride;
        y += n * a.y_stride;
        token += n;
    }
}
template <class Isa, int kPanels, class Source>
void gemm_tiles(const Source& w, const TileArgs& a, const float* x, int64_t n_tok, float* y) {
    gemm_tiles<Isa, kPanels>(w, w, a, x, n_tok, y);
}

/// The panels from w on, kPanels at a time while that many are left, then fewer.
template <class Isa, int kPanels, class Source>
void gemm_sources(Source w, int64_t n_panels, const TileArgs& a, const float* x, int64_t n_tok, float* y) {
    for (; n_panels >= kPanels; n_panels -= kPanels) {
        gemm_tiles<Isa, kPanels>(w, a, x, n_tok, y);
        w.panel += kPanels * w.panel_size;
        if (w.beside) w.beside += kPanels * kPanelRows * sizeof(*w.panel) * static_cast<size_t>(a.n_k);
        y += kPanels * kPanelRows;
    }
    if constexpr (kPanels > 1) gemm_sources<Isa, kPanels / 2>(w, n_panels, a, x, n_tok, y);
}

/// As many panels at once as one tile has room for beside all tokens: the fewer tokens, the more chains of
/// sums must come from panels. For many tokens a tile has the shape that Isa prefers, unless each of its
/// weights would then be converted for fewer tokens.
template <class Isa, class Source>
void gemm_panels_of(const Source& w, const PanelsArgs& a) {
    const TileArgs tile_args{a.n_k, a.x_stride, a.y_stride, a.accumulate};
    const auto run = [&]<int kPanels>() {
        gemm_sources<Isa, kPanels>(w, a.n_panels, tile_args, a.x, a.n_tok, a.y);
    };
    static_assert(Isa::kTileTokens >= 4);
    if (4 * a.n_tok <= Isa::kTileTokens) {
        run.template operator()<4>();
    } else if (2 * a.n_tok <= Isa::kTileTokens) {
        run.template operator()<2>();
    } else {
        run.template operator()<sizeof(*w.panel) == sizeof(float) ? Isa::kGemmPanels : 1>();
    }
}

template <class Isa>
void gemm_panels(const PanelsArgs& a) {
    const auto run = [&]<class Element>(const Element* w) {
        const uint8_t* beside = static_cast<const uint8_t*>(a.beside);
        gemm_panels_of<Isa>(PanelsOf<Isa, Element>{w, a.panel_stride, a.panel_size, beside}, a);
    };
    if (a.half) {
        run(static_cast<const uint16_t*>(a.w));
    } else {
        run(static_cast<const float*>(a.w));
    }
}

}  // namespace
}  // namespace tessera::kernels
