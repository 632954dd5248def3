// Products of many tokens: two vectors of rows at a time are unpacked into a panel in L2, which all tokens'
// tiles read. packed_matmul chooses between this path and packed_gemv.inl. Over the operations and Unpack of
// the unit that includes this.
#include "quants/kernels/packed_gemv.inl"

namespace tessera::kernels {
namespace {

/// k of a panel of 16 rows: the panel stays below 160 KiB, half of a small L2; processors with wider vectors
/// have larger ones. Many tiles read a panel from L2 as fast as from L1.
constexpr int kPanelUnitsK = 4096;
template <class F>
constexpr int64_t kPanelUnits = kPanelUnitsK / F::kUnitK;
template <class P>
constexpr int64_t kPanelBytes = P::kUnitBytes* kPanelUnits<typename P::F>;
/// Bytes of activations that all panels of a call read before the next ones: half of a large L2, since tokens
/// lie at distances that share few of its sets. Unpacking again for fewer than kFewestTokens would be felt,
/// more so with wider vectors.
constexpr int64_t kActPassBytes = int64_t{1} << 20, kFewestTokens = 128;

/// The packed units of a panel of n groups.
template <class F>
TSR_INLINE PackedUnits panel_units(const PackedMatmulArgs& a, int64_t row, int n) {
    PackedUnits units = packed_units<F>(a, row, n);
    const PrefetchDistance ahead = n == 1 ? a.tuning.one : a.tuning.several;
    if (!a.beside) set_distance(units.plan, {whole_units<F>(ahead.l1), whole_units<F>(ahead.l2)});
    return units;
}

/// Tile sizes of a panel: the full tile, and sizes for the remaining tokens.
template <class V>
constexpr uint32_t kPanelSizes =
    V::kTile == 3 || V::kTile == 2 ? kTileRange<1, V::kTile> : kTileSizes<1, 2, 4, V::kTile>;

/// run<T>(token, x) for a panel's tiles from k on, full ones first. kPadded: tokens lie in full tiles, the
/// last of which is padded.
template <class V, bool kPadded, class Run>
TSR_INLINE void each_panel_tile(const ActView& x, int64_t n_tok, int64_t k, const Run& run) {
    if constexpr (kActTile > 1) {
        for (int64_t token = 0; token < n_tok; token += kActTile) {
            const int64_t n = n_tok - token < kActTile ? n_tok - token : kActTile;
            run_size<kPadded ? kTileSizes<kActTile> : kTileRange<1, kActTile>>(
                n, [&]<int T>() { run.template operator()<T>(token, tiled_act<T>(x, token, k, n)); });
        }
    } else {
        each_tile<kPanelSizes<V>>(n_tok / V::kTokens, [&]<int T>(int64_t t) {
            run.template operator()<T>(V::kTokens * t, tile_act(x, V::kTokens * t, k));
        });
    }
}

/// The rows of a panel's groups times all tokens, unpacked once, to y_row: rows y_stride apart.
template <class F, class V, bool kPadded>
void panel_rows(const PackedMatmulArgs& a, int64_t row, PackedUnits units, float* y_row, int64_t y_stride) {
    const int64_t n_units = a.n_k / F::kUnitK;
    uint8_t* panel = static_cast<uint8_t*>(a.scratch);
    using P = PanelOf<F, V>;
    constexpr bool kAnySize = requires { P::kUnpacksInAnyTile; };
    if constexpr (kActTile > 1 && kUnpacksInFirstTile<P> && !kAnySize) {
        constexpr int kFull = V::kTile;
        if (kPadded ? a.n_tok > kFull && a.n_tok <= 2 * kFull : a.n_tok == 2 * kFull) {
            return tile_pair<F, P, kFull>({units, panel}, n_units, tiled_act<kFull>(a.x, 0, 0, kFull),
                                          tiled_act<kFull>(a.x, kFull, 0, a.n_tok - kFull), y_row, y_stride);
        }
    }
    constexpr int64_t kChunk = kPanelUnits<F>;
    static_assert(!kUnpacksInFirstTile<P> || kActTile > 1 || kStreamPlan<F>.tokens >= V::kTile,
                  "the first tile is a full one");
    static_assert(kPanelBytes<P> <= static_cast<int64_t>(kPackedScratchBytes));
    for (int64_t first = 0; first < n_units; first += kChunk) {
        const int64_t count = n_units - first < kChunk ? n_units - first : kChunk;
        const bool resume = first != 0;
        if constexpr (!kUnpacksInFirstTile<P>) write_panel<P>(units, count, panel);
        each_panel_tile<V, kPadded>(a.x, a.n_tok, first * F::kUnitK,
                                    [&]<int T>(int64_t token, const auto& x) {
                                        float* y = y_row + token * y_stride;
                                        if constexpr (kUnpacksInFirstTile<P>) {
                                            // A first tile that is not full is all that there is, in a tile
                                            // of its own width.
                                            if (token == 0) {
                                                if constexpr (T == V::kTile || kAnySize)
                                                    return tile<F, 2, T, typename P::Unpacking>(
                                                        {units, panel}, count, x, y, y_stride, resume);
                                                else if constexpr (kActTile > 1)
                                                    write_panel<P>(units, count, panel);
                                            }
                                        }
                                        tile<F, 2, T, P>(panel, count, x, y, y_stride, resume);
                                    });
        units.unit += count * F::kUnitBytes;
    }
    if (a.n_tok % V::kTokens != 0) {
        const int64_t token = a.n_tok - 1;
        stream_tile<F, NativeVec, P::kGroups, 1>(a, {row, kGroupRows}, row, tile_act(a.x, token, 0),
                                                 y_row + token * y_stride, y_stride);
    }
}
template <class F, class V, bool kPadded>
void panel_rows(const PackedMatmulArgs& a, int64_t row) {
    panel_rows<F, V, kPadded>(a, row, panel_units<F>(a, row, PanelOf<F, V>::kGroups), a.y + row, a.y_stride);
}

/// The same product of some tokens only; in the tiled layout `token` begins a tile.
TSR_INLINE PackedMatmulArgs of_tokens(PackedMatmulArgs a, int64_t token, int64_t n_tok) {
    const int64_t at = token * a.x.d_stride;
    a.x = {a.x.q + token * a.x.q_stride,
           a.x.d + at,
           a.x.s + at,
           a.x.sum16 + 2 * at,
           a.x.sum8 + 4 * at,
           a.x.q_stride,
           a.x.d_stride,
           a.x.tile};
    a.y += token * a.y_stride;
    a.n_tok = n_tok;
    return a;
}

/// All rows that are whole panels, times the tokens that a large L2 holds at a time. Returns the first row
/// that is left.
template <class F, class V>
int64_t panels(const PackedMatmulArgs& a) {
    constexpr int kRows = 2 * V::kGroups * kGroupRows, kWhole = V::kTile * V::kTokens;
    static_assert(kActTile == 1 || kWhole % kActTile == 0);
    const int64_t n_rows = a.n_rows / kRows * kRows;
    const int64_t fit = kActPassBytes / a.n_k, fewest = kFewestTokens * V::kGroups;
    const int64_t most = fit > fewest ? fit : fewest;
    int64_t token = 0;
    for (int64_t parts = (a.n_tok + most - 1) / most; token < a.n_tok; parts--) {
        const int64_t rest = a.n_tok - token;
        const int64_t n = parts == 1 ? rest : (rest / parts + kWhole - 1) / kWhole * kWhole;
        const PackedMatmulArgs part = of_tokens(a, token, n);
        for (int64_t row = 0; row < n_rows; row += kRows) panel_rows<F, V, false>(part, row);
        token += n;
    }
    return n_rows;
}

/// The same where tokens lie in rows and the products read tiles: as many tokens at a time as the scratch has
/// room for beside the panel are copied to padded tiles there.
template <class F, class V>
int64_t panels_of_rows(const PackedMatmulArgs& a) {
    constexpr int64_t kAt = (kPanelBytes<PanelOf<F, V>> + 63) / 64 * 64;
    const int64_t most = tokens_in_tiles(a.n_k, static_cast<int64_t>(kPackedScratchBytes) - kAt);
    const int64_t n_rows = most == 0 ? 0 : a.n_rows / (2 * kGroupRows) * (2 * kGroupRows);
    if (n_rows == 0) return 0;
    for (int64_t token = 0; token < a.n_tok; token += most) {
        const int64_t rest = a.n_tok - token;
        PackedMatmulArgs part = of_tokens(a, token, rest < most ? rest : most);
        part.x = lay_tiles<kActTile>(part.x, part.n_tok, a.n_k, static_cast<uint8_t*>(a.scratch) + kAt);
        for (int64_t row = 0; row < n_rows; row += 2 * kGroupRows) panel_rows<F, V, true>(part, row);
    }
    return n_rows;
}

/// Two full tiles of tokens times the rows, two groups at a time while that many are complete, straight from
/// packed units. Returns the first row that is left.
template <class F>
int64_t tiled_pairs(const PackedMatmulArgs& a) {
    int64_t row = 0;
    for (; row + 2 * kGroupRows <= a.n_rows; row += 2 * kGroupRows) {
        const PackedUnits units = stream_units<F>(a, {row, kGroupRows}, row, 2, a.tuning.several);
        for (int64_t t = 0; t < a.n_tok; t += kActTile) {
            tile<F, 2, kActTile, Stream<Unpack<F>, 2>>(units, a.n_k / F::kUnitK,
                                                       tiled_act<kActTile>(a.x, t, 0, kActTile),
                                                       a.y + t * a.y_stride + row, a.y_stride, false);
        }
    }
    return row;
}

/// The matrix's last rows, fewer than two groups, times tokens in tiles: a panel whose second group is the
/// first one again where there is no other.
template <class F, class V>
void last_tiled_rows(const PackedMatmulArgs& a, int64_t row) {
    constexpr int64_t kTokens = 8 * kActTile, kRows = 2 * kGroupRows;
    if (row == a.n_rows) return;
    PackedUnits units = panel_units<F>(a, row, 2);
    if (a.n_rows - row <= kGroupRows) units.group_bytes = 0;
    for (int64_t token = 0; token < a.n_tok; token += kTokens) {
        float last[kTokens * kRows];
        const int64_t n = a.n_tok - token < kTokens ? a.n_tok - token : kTokens;
        panel_rows<F, V, false>(of_tokens(a, token, n), row, units, last, kRows);
        copy_last(a, row, token, n, last, kRows);
    }
}

/// V: the vectors of panels and, where they hold several groups, of streams for more than a few tokens.
template <class F, class V = NativeVec>
void packed_matmul(const PackedMatmulArgs& a) {
    if constexpr (kActTile > 1) {
        if (a.x.tile > 1) {
            if constexpr (kStreamPlan<F>.tokens >= kFewestTiled) {
                if (a.n_tok == 2 * kActTile) return last_tiled_rows<F, V>(a, tiled_pairs<F>(a));
            }
            return last_tiled_rows<F, V>(a, panels<F, V>(a));
        }
    }
    if (a.n_tok <= kStreamPlan<F>.tokens && (a.n_tok <= kTileSums || packs_act<F, V>(a)))
        return packed_gemv<F, V>(a, 0);
    int64_t row;
    if constexpr (kActTile > 1) {
        row = panels_of_rows<F, V>(a);
    } else {
        row = panels<F, V>(a);
    }
    if (row < a.n_rows) packed_gemv<F, V>(a, row);
}

}  // namespace
}  // namespace tessera::kernels
