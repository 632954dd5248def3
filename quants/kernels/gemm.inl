// The float tiles, for any Isa: 16 to 64 rows of W times a few tokens, k rising, one fma a step. Weights are
// k-major: panels here, packed groups in p8_floats.inl. Included by the ISA units after their isa.h;
// everything here is local to the unit. Drivers: matmul.inl and p8_floats.inl.
#include <type_traits>

#include "quants/kernels/inline.h"
#include "quants/kernels/table.h"

namespace tessera::kernels {
namespace {

/// Where a tile works. The rows of panel p go to y + 16 p.
struct TileArgs {
    int64_t n_k;
    int64_t x_stride;
    int64_t y_stride;
    bool accumulate;
};

/// A tile's weights out of panels of 16 rows that lie panel_size elements apart. kFetches: as many bytes as
/// the panels hold are fetched from elsewhere as they are read, where next_bytes is not null.
template <class Isa, class Element, bool kFetches>
struct PanelsOf {
    /// k of a round of the tile's loop: with one its counting costs 4 % of the fma roofline (Granite Rapids).
    static constexpr int kStep = 4;
    const Element* panel;
    int64_t panel_stride;
    int64_t panel_size;
    const uint8_t* next_bytes = nullptr;

    /// As many as a round reads of n_panels.
    [[gnu::always_inline]] inline void fetch([[maybe_unused]] int n_panels) {
        if (!kFetches || !next_bytes) return;
        const int n = n_panels * kStep * kPanelRows * static_cast<int>(sizeof(Element));
        TSR_UNROLL
        for (int at = 0; at < n; at += 64) __builtin_prefetch(next_bytes + at);
        next_bytes += n;
    }
    /// The weights of the 16 rows of panel p at this k.
    [[gnu::always_inline]] inline typename Isa::Wide load(int p) const {
        if constexpr (sizeof(Element) == 2) {
            return Isa::load_half(panel + p * panel_size);
        } else {
            return Isa::load(panel + p * panel_size);
        }
    }
    [[gnu::always_inline]] inline void next() { panel += panel_stride; }
};
template <class Isa>
using Panels = PanelsOf<Isa, float, false>;

/// acc += the products at one k, which is at x. Each x serves all panels while it is in a register: the other
/// way round all tokens' would be kept in some.
template <class Isa, int kPanels, int kTok, class Source>
TSR_INLINE void add_products(Source& w, const float* x, int64_t x_stride,
                             typename Isa::Wide (&acc)[kPanels * kTok]) {
    typename Isa::Wide weights[kPanels];
    TSR_UNROLL
    for (int p = 0; p < kPanels; p++) weights[p] = w.load(p);
    TSR_UNROLL
    for (int t = 0; t < kTok; t++) {
        const typename Isa::Wide spread = Isa::set1(x[t * x_stride]);
        TSR_UNROLL
        for (int p = 0; p < kPanels; p++) Isa::add_product(acc[p * kTok + t], weights[p], spread);
    }
    w.next();
}

/// y[t, r] (+)= sum_k w[k, r] * x[t, k] for kTok tokens. With Isa::kTileTokens and one panel, or half of
/// that and two, the accumulators fill the registers as far as is good; with fewer tokens, two panels keep
/// enough independent chains going to cover the latency of fma.
template <class Isa, int kPanels, int kTok, class Source>
void tile(Source w, const TileArgs& a, const float* x, float* y) {
    typename Isa::Wide acc[kPanels * kTok];
    TSR_UNROLL
    for (int i = 0; i < kPanels * kTok; i++) {
        acc[i] = a.accumulate ? Isa::load(y + (i % kTok) * a.y_stride + i / kTok * kPanelRows) : Isa::zero();
    }
    int64_t k = 0;
    for (; k + Source::kStep <= a.n_k; k += Source::kStep) {
        w.fetch(kPanels);
        TSR_UNROLL
        for (int i = 0; i < Source::kStep; i++) {
            add_products<Isa, kPanels, kTok>(w, x + k + i, a.x_stride, acc);
        }
    }
    for (; k < a.n_k; k++) add_products<Isa, kPanels, kTok>(w, x + k, a.x_stride, acc);
    TSR_UNROLL
    for (int i = 0; i < kPanels * kTok; i++) {
        Isa::store(y + (i % kTok) * a.y_stride + i / kTok * kPanelRows, acc[i]);
    }
}

template <class Source>
using TileFn = void (*)(Source w, const TileArgs& a, const float* x, float* y);

/// The tile of n tokens, 1 <= n <= kMost.
template <class Isa, int kPanels, int kMost, class Source>
TileFn<Source> tile_of(int64_t n) {
    if constexpr (kMost > 1) {
        if (n < kMost) return tile_of<Isa, kPanels, kMost - 1, Source>(n);
    }
    return tile<Isa, kPanels, kMost, Source>;
}

/// All tokens against kPanels panels, in tiles as equal as possible: 7 = 4 + 3 keeps more chains going than 6
/// + 1. The first tile's weights are `first`, where all others' come to be.
template <class Isa, int kPanels, class First, class Source>
void gemm_tiles(const First& first, const Source& w, const TileArgs& a, const float* x, int64_t n_tok,
                float* y) {
    constexpr int kMost = Isa::kTileTokens / kPanels;
    const int64_t most = (n_tok + kMost - 1) / kMost;
    for (int64_t n_tiles = most; n_tiles > 0; n_tiles--) {
        const int64_t n = (n_tok + n_tiles - 1) / n_tiles;
        if (std::is_same_v<First, Source> || n_tiles < most) {
            tile_of<Isa, kPanels, kMost, Source>(n)(w, a, x, y);
        } else {
            tile_of<Isa, kPanels, kMost, First>(n)(first, a, x, y);
        }
        x += n * a.x_stride;
        y += n * a.y_stride;
        n_tok -= n;
    }
}
template <class Isa, int kPanels, class Source>
void gemm_tiles(const Source& w, const TileArgs& a, const float* x, int64_t n_tok, float* y) {
    gemm_tiles<Isa, kPanels>(w, w, a, x, n_tok, y);
}

/// The panels from w on, kPanels at a time while there are as many and then fewer.
template <class Isa, int kPanels, class Source>
void gemm_sources(Source w, int64_t n_panels, const TileArgs& a, const float* x, int64_t n_tok, float* y) {
    for (; n_panels >= kPanels; n_panels -= kPanels) {
        gemm_tiles<Isa, kPanels>(w, a, x, n_tok, y);
        w.panel += kPanels * w.panel_size;
        if (w.next_bytes)
            w.next_bytes += kPanels * kPanelRows * sizeof(*w.panel) * static_cast<size_t>(a.n_k);
        y += kPanels * kPanelRows;
    }
    if constexpr (kPanels > 1) gemm_sources<Isa, kPanels / 2>(w, n_panels, a, x, n_tok, y);
}

/// As many panels at once as one tile has room for next to all tokens: the fewer the tokens, the more chains
/// of sums they need from panels.
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
        run.template operator()<1>();
    }
}

template <class Isa>
void gemm_panels(const PanelsArgs& a) {
    const auto run = [&]<class Element>(const Element* w) {
        const uint8_t* next = static_cast<const uint8_t*>(a.next);
        gemm_panels_of<Isa>(PanelsOf<Isa, Element, true>{w, a.panel_stride, a.panel_size, next}, a);
    };
    if (a.half) {
        run(static_cast<const uint16_t*>(a.w));
    } else {
        run(static_cast<const float*>(a.w));
    }
}

}  // namespace
}  // namespace tessera::kernels
