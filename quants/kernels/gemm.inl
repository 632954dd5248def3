// The float tiles, for any Isa: 16 or 32 rows of W as k-major panels times a few tokens, k rising, one fma a
// step. Included by the ISA units after their isa.h; everything here is local to the unit. Drivers:
// matmul.inl.
#include "quants/kernels/inline.h"
#include "quants/kernels/table.h"

namespace tessera::kernels {
namespace {

/// Where a tile works. Panels of 16 rows lie panel_size floats apart; the rows of panel p go to y + 16 p.
struct TileArgs {
    const float* panel;
    int64_t panel_stride;
    int64_t panel_size;
    int64_t n_k;
    int64_t x_stride;
    int64_t y_stride;
    bool accumulate;
};

/// y[t, r] (+)= sum_k panel[k, r] * x[t, k] for kTok tokens. With Isa::kTileTokens and one panel, or half of
/// that and two, the accumulators fill the registers as far as is good; with fewer tokens, two panels keep
/// enough independent chains going to cover the latency of fma.
template <class Isa, int kPanels, int kTok>
void tile(const TileArgs& a, const float* x, float* y) {
    typename Isa::Wide acc[kPanels * kTok];
    TSR_UNROLL
    for (int i = 0; i < kPanels * kTok; i++) {
        acc[i] = a.accumulate ? Isa::load(y + (i % kTok) * a.y_stride + i / kTok * kPanelRows) : Isa::zero();
    }
    const float* panel = a.panel;
    for (int64_t k = 0; k < a.n_k; k++) {
        TSR_UNROLL
        for (int p = 0; p < kPanels; p++) {
            const typename Isa::Wide w = Isa::load(panel + p * a.panel_size);
            TSR_UNROLL
            for (int t = 0; t < kTok; t++) {
                acc[p * kTok + t] = Isa::fma(w, Isa::set1(x[t * a.x_stride + k]), acc[p * kTok + t]);
            }
        }
        panel += a.panel_stride;
    }
    TSR_UNROLL
    for (int i = 0; i < kPanels * kTok; i++) {
        Isa::store(y + (i % kTok) * a.y_stride + i / kTok * kPanelRows, acc[i]);
    }
}

using TileFn = void (*)(const TileArgs& a, const float* x, float* y);

/// The tile of n tokens, 1 <= n <= kMost.
template <class Isa, int kPanels, int kMost>
TileFn tile_of(int64_t n) {
    if constexpr (kMost > 1) {
        if (n < kMost) return tile_of<Isa, kPanels, kMost - 1>(n);
    }
    return tile<Isa, kPanels, kMost>;
}

/// All tokens against kPanels panels, in tiles as equal as possible: 7 = 4 + 3 keeps more chains going than 6
/// + 1.
template <class Isa, int kPanels>
void gemm_tiles(const TileArgs& a, const float* x, int64_t n_tok, float* y) {
    constexpr int kMost = Isa::kTileTokens / kPanels;
    for (int64_t n_tiles = (n_tok + kMost - 1) / kMost; n_tiles > 0; n_tiles--) {
        const int64_t n = (n_tok + n_tiles - 1) / n_tiles;
        tile_of<Isa, kPanels, kMost>(n)(a, x, y);
        x += n * a.x_stride;
        y += n * a.y_stride;
        n_tok -= n;
    }
}

template <class Isa>
void gemm_panel(const float* panel, int64_t panel_stride, int64_t n_k, const float* x, int64_t x_stride,
                int64_t n_tok, float* y, int64_t y_stride, bool accumulate) {
    gemm_tiles<Isa, 1>({panel, panel_stride, 0, n_k, x_stride, y_stride, accumulate}, x, n_tok, y);
}

}  // namespace
}  // namespace tessera::kernels
