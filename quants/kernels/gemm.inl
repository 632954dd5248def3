// The float tiles, for any Isa: 16 or 32 rows of W times a few tokens, k rising, one fma a step. Weights are
// k-major: panels here, packed groups in p8_floats.inl. Included by the ISA units after their isa.h;
// everything here is local to the unit. Drivers: matmul.inl and p8_floats.inl.
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

/// A tile's weights out of panels of 16 rows that lie panel_size floats apart.
template <class Isa>
struct Panels {
    /// k of a round of the tile's loop: with one its counting costs 4 % of the fma roofline (Granite Rapids).
    static constexpr int kStep = 4;
    const float* panel;
    int64_t panel_stride;
    int64_t panel_size;

    [[gnu::always_inline]] inline void fetch(int) const {}
    /// The weights of the 16 rows of panel p at this k.
    [[gnu::always_inline]] inline typename Isa::Wide load(int p) const {
        return Isa::load(panel + p * panel_size);
    }
    [[gnu::always_inline]] inline void next() { panel += panel_stride; }
};

/// acc += the products at one k, which is at x.
template <class Isa, int kPanels, int kTok, class Source>
TSR_INLINE void add_products(Source& w, const float* x, int64_t x_stride,
                             typename Isa::Wide (&acc)[kPanels * kTok]) {
    TSR_UNROLL
    for (int p = 0; p < kPanels; p++) {
        const typename Isa::Wide weights = w.load(p);
        TSR_UNROLL
        for (int t = 0; t < kTok; t++) {
            acc[p * kTok + t] = Isa::fma(weights, Isa::set1(x[t * x_stride]), acc[p * kTok + t]);
        }
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
/// + 1.
template <class Isa, int kPanels, class Source>
void gemm_tiles(const Source& w, const TileArgs& a, const float* x, int64_t n_tok, float* y) {
    constexpr int kMost = Isa::kTileTokens / kPanels;
    for (int64_t n_tiles = (n_tok + kMost - 1) / kMost; n_tiles > 0; n_tiles--) {
        const int64_t n = (n_tok + n_tiles - 1) / n_tiles;
        tile_of<Isa, kPanels, kMost, Source>(n)(w, a, x, y);
        x += n * a.x_stride;
        y += n * a.y_stride;
        n_tok -= n;
    }
}

template <class Isa>
void gemm_panel(const float* panel, int64_t panel_stride, int64_t n_k, const float* x, int64_t x_stride,
                int64_t n_tok, float* y, int64_t y_stride, bool accumulate) {
    const Panels<Isa> w{panel, panel_stride, 0};
    gemm_tiles<Isa, 1>(w, {n_k, x_stride, y_stride, accumulate}, x, n_tok, y);
}

}  // namespace
}  // namespace tessera::kernels
