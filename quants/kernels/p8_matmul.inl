// How a product's rows and tokens are cut into tiles (p8_tile.inl): few tokens straight from packed units, in
// streams of one, two or four groups, many from panels. What is gathered, how many tokens go which way, and
// what is fetched is decided here, by what kernels_bench measured. Over the verbs and Unpack of the unit that
// includes this.
#include "quants/kernels/p8_tile.inl"
#include "quants/kernels/streams.h"

namespace tessera::kernels {
namespace {

TSR_INLINE bool next_only(Fetch how) { return how == Fetch::NextOnly || how == Fetch::NextNear; }

/// How packed units of a type are multiplied; a unit of an instruction set may know better.
struct StreamPlan {
    /// Tokens up to which unpacking in registers beats unpacking into a panel.
    int tokens = kStreamTokens;
    /// Groups whose streams one and two tokens read side by side, unless all streams are far apart: 1 or 4.
    int groups = kGroupsOfFew;
    /// How a single token's weights are asked for where others are in two steps, and the processor does not
    /// read ahead (reads_ahead).
    Fetch one = Fetch::TwoSteps;
    /// Bytes that wider vectors ask ahead in each of the streams that lie far apart.
    int wide_ahead = 1664;
};
/// Types of so many instructions that a single token's product does not wait for memory.
template <class F>
constexpr bool kSlowToUnpack =
    std::is_same_v<F, IQ1_S> || std::is_same_v<F, IQ1_M> || std::is_same_v<F, IQ2_XS> ||
    std::is_same_v<F, IQ2_S> || std::is_same_v<F, IQ3_S> || std::is_same_v<F, TQ1_0> ||
    std::is_same_v<F, TQ2_0>;
/// Operands that are made by the block (kOpensBlocks) cost so much that a panel keeps them for a second tile.
template <class F>
constexpr int kStreamTokensOf =
    kStreamTokens > kTileSums&& Unpack<F>::kOpensBlocks ? kTileSums : kStreamTokens;
template <class F>
constexpr StreamPlan kStreamPlan = {.tokens = kStreamTokensOf<F>,
                                    .groups = kSlowToUnpack<F> ? 4 : kGroupsOfFew};
/// k per panel of 16 rows: the panel stays below 160 KiB, in half of a small L2 cache; processors with wider
/// vectors have larger ones. Many tiles read it from there as fast as from the first cache; two take turns.
constexpr int kPanelUnitsK = 4096;
template <class F>
constexpr int64_t kPanelUnits = kPanelUnitsK / F::kUnitK;
template <class P>
constexpr int64_t kPanelBytes = P::kUnitBytes* kPanelUnits<typename P::F>;
/// Activations that the panels of a call read one after the other, in bytes: half of a large L2 cache, since
/// tokens lie at distances that share few of its sets. Of fewer than so many tokens unpacking would be felt,
/// more so with products of wider vectors.
constexpr int64_t kActPassBytes = int64_t{1} << 20, kFewestTokens = 128;

/// run<n>(token) of the tile of n tokens, Least <= n <= Most.
template <int Most, int Least, class Run>
TSR_INLINE void run_tile(int64_t n, int64_t token, const Run& run) {
    if constexpr (Most > Least) {
        if (n < Most) return run_tile<Most - 1, Least>(n, token, run);
    }
    run.template operator()<Most>(token);
}

/// All tokens in tiles of at most Most, as equal as possible: 9 = 5 + 4 keeps more sums going than 8 + 1. Of
/// n_tok >= Least tokens no tile has fewer, Least being at most Most / 2.
template <int Most, int Least = 1, class Run>
TSR_INLINE void each_tile(int64_t n_tok, const Run& run) {
    static_assert(Least == 1 || 2 * Least <= Most);
    int64_t token = 0;
    for (int64_t n_tiles = (n_tok + Most - 1) / Most; n_tiles > 0; n_tiles--) {
        const int64_t n = (n_tok - token + n_tiles - 1) / n_tiles;
        run_tile<Most, Least>(n, token, run);
        token += n;
    }
}

/// n neighbouring groups of F from that of a row and from unit `first` on. If they are in a cache, what is
/// read next is fetched, each of its bytes with one of theirs: their end is where they start.
template <class F>
TSR_INLINE PackedUnits packed_units(const PackedMatmulArgs& a, int64_t row, int n, int64_t first) {
    const int64_t group_bytes = a.n_k / F::kUnitK * F::kUnitBytes;
    const uint8_t *w = static_cast<const uint8_t*>(a.w), *group = w + row / kGroupRows * group_bytes;
    PackedUnits units{group + first * F::kUnitBytes, group_bytes, group + group_bytes, (n - 1) * group_bytes};
    if (next_only(a.fetch)) {
        units.end = group;
        units.next_groups = a.next ? static_cast<const uint8_t*>(a.next) - w : 0;
        (a.fetch == Fetch::NextNear ? units.near : units.far) = 0;
    }
    return units;
}

/// At least n bytes of whole units: where streams are short and wrap often, no line is missed then.
template <class F>
constexpr int whole_units(int n) {
    return (n + F::kUnitBytes - 1) / F::kUnitBytes * F::kUnitBytes;
}
/// Fetches each of n streams to the outer cache, and from there to the inner one. With the near step alone,
/// as many lines as the inner cache can wait for are too few: 6 % of the read bandwidth on Zen 4. One stream
/// alone has as many lines under way as four.
template <class F>
TSR_INLINE void fetch_in_two_steps(PackedUnits& units, int n_streams) {
    units.far = whole_units<F>(n_streams == 1 ? 16384 : 4096);
    units.near = whole_units<F>(n_streams == 1 ? 4096 : 1024);
}
/// How far ahead each of the streams that lie far apart is: a processor that fetches the rest of a page by
/// itself is only hindered by more. Of one token and two, wider vectors, whose products are so quick that
/// many units are under way at once, read somewhat more with less (StreamPlan::wide_ahead).
constexpr int kFarStreamsBytes = 2048;
/// The same of wider vectors for more tokens, and of each unit's first line, which is asked for earlier than
/// the others. Up to 12 % more where memory is fast, with other types nothing (docs/performance-notes.md,
/// "Several sequences").
constexpr int kWideRowsBytes = 3072, kFirstLineBytes = 4096;

/// packed_units of a panel.
template <class F>
TSR_INLINE PackedUnits panel_units(const PackedMatmulArgs& a, int64_t row, int n, int64_t first) {
    PackedUnits units = packed_units<F>(a, row, n, first);
    if (next_only(a.fetch)) return units;
    if (a.fetch == Fetch::FarStreams) {
        units.near = whole_units<F>(kFarStreamsBytes);
    } else {
        fetch_in_two_steps<F>(units, n);
    }
    return units;
}

/// Rows that the first of some streams goes through; how far from there each other one's are, in the matrix
/// and in what the product is written to.
struct StreamRows {
    int64_t first, n, apart = n, y_apart = n;
};

/// The units of n_streams streams' rows that lie as `row` does within those of the first stream.
template <class F>
TSR_INLINE PackedUnits stream_units(const PackedMatmulArgs& a, StreamRows rows, int64_t row, int n_streams,
                                    int far_streams_bytes = kFarStreamsBytes) {
    PackedUnits units = packed_units<F>(a, row, n_streams, 0);
    if (next_only(a.fetch)) return units;
    const Fetch how = a.n_tok == 1 && a.fetch == Fetch::TwoSteps ? kStreamPlan<F>.one : a.fetch;
    if (how == Fetch::TwoSteps) fetch_in_two_steps<F>(units, n_streams);
    if (how == Fetch::FarStreams) units.near = far_streams_bytes;
    units.end += (rows.first + rows.n - kGroupRows - row) / kGroupRows * units.group_bytes;
    units.group_bytes *= rows.apart / kGroupRows;
    // With nothing known to come it is what lies behind, which a thread often goes on with.
    units.next_groups = a.apart > 0 ? 0 : (n_streams - 1) * units.group_bytes;
    if (a.next && rows.first + n_streams * rows.n >= a.n_rows) {
        units.next_groups = static_cast<const uint8_t*>(a.next) - units.end;
    }
    return units;
}

/// Whether the processor reads a single token's weights ahead better by itself: where its product is quick
/// (kReadsAhead) and a group leaves the activations in the inner cache, so that weights are all that it waits
/// for. With long rows that costs a quarter of the read.
template <class F>
TSR_INLINE bool reads_ahead(const PackedMatmulArgs& a) {
    constexpr int64_t kPassBytes = 24 << 10;
    const int64_t group_bytes = a.n_k / F::kUnitK * F::kUnitBytes, act_bytes = a.n_k + a.n_k / kActBlock * 8;
    return a.n_tok == 1 && a.fetch == Fetch::TwoSteps && group_bytes + act_bytes <= kPassBytes;
}

/// So many tokens are gathered, as long as the scratch has room for them. Fewer wait for memory, which gives
/// more in one stream of one group, or in four far apart.
constexpr int kFewestGathered = 3;
/// So many rows repay the gathering of tokens that one group's vectors share (kGathersFew).
constexpr int64_t kFewestGatheredRows = 128;
/// Bytes of a gathered token.
template <class F>
TSR_INLINE int64_t gathered_bytes(const PackedMatmulArgs& a) {
    return a.n_k / kActBlock * kGatheredBytes<Unpack<F>>;
}
template <class F, class V>
TSR_INLINE bool gathers(const PackedMatmulArgs& a) {
    const int64_t bytes = a.n_tok * gathered_bytes<F>(a);
    return V::kGroups > 1 && a.n_tok >= kFewestGathered && bytes <= static_cast<int64_t>(kPackedScratchBytes);
}
/// Gathers all tokens in tiles of at most Most, each tile's where its first token has its place.
template <class F, int Most, int Least>
void gather_tiles(const PackedMatmulArgs& a, uint8_t* out) {
    each_tile<Most, Least>(a.n_tok, [&]<int T>(int64_t token) {
        gather_act<Unpack<F>>(tile_act(a.x, token, 0), T, a.n_k / kActBlock,
                              out + token * gathered_bytes<F>(a));
    });
}

/// The tokens that two groups share (kGathersFew), gathered in tiles of at most Most, or null where they stay
/// as they lie: too few, more than there is room for, or too few rows to repay it.
template <class F, int Most>
const uint8_t* gather_few(const PackedMatmulArgs& a, int64_t n_rows) {
    if (a.n_tok < kFewestGathered || n_rows < kFewestGatheredRows) return nullptr;
    if (a.n_tok * gathered_bytes<F>(a) > static_cast<int64_t>(kPackedScratchBytes)) return nullptr;
    uint8_t* gathered = static_cast<uint8_t*>(a.scratch);
    gather_tiles<F, Most, 1>(a, gathered);
    return gathered;
}

/// R groups, two of them a vector of a V that has two, times the T tokens from `token` on, straight from
/// packed units. gathered: of gather_few, or null.
template <class F, class V, int R, int T>
TSR_INLINE void stream_tile(const PackedMatmulArgs& a, StreamRows rows, int64_t row, int64_t token, float* y,
                            int64_t y_stride, const uint8_t* gathered = nullptr) {
    constexpr int kAhead = V::kGroups > 1 ? kStreamPlan<F>.wide_ahead : kFarStreamsBytes;
    const auto run = [&]<class Source>() {
        const auto times = [&](auto x) {
            tile<F, R / V::kGroups, T, Source>(stream_units<F>(a, rows, row, R, kAhead), a.n_k / F::kUnitK, x,
                                               y, y_stride, false, rows.y_apart);
        };
        if constexpr (kGathersFew && R == 2 && T >= kFewestGathered) {
            using Acts = GatheredAct<Unpack<F>, T>;
            if (gathered) return times(Acts{gathered + token * gathered_bytes<F>(a)});
        }
        times(tile_act(a.x, token, 0));
    };
    if constexpr (V::kGroups > 1) {
        run.template operator()<WideStream<Unpack<F>, V, R / V::kGroups>>();
    } else {
        if constexpr (R == 1 && T == 1 && kReadsAhead) {
            if (reads_ahead<F>(a)) return run.template operator()<Stream<Unpack<F>, R, Asks::Never>>();
        }
        run.template operator()<Stream<Unpack<F>, R>>();
    }
}

/// Rows of each of n_streams streams from `row` on, which leave a group for each.
template <class F>
TSR_INLINE int64_t rows_of_stream(const PackedMatmulArgs& a, int64_t row, int n_streams) {
    const int64_t n_groups = (a.n_rows - row) / (n_streams * kGroupRows);
    if (a.apart > 0) return n_groups * kGroupRows;
    return groups_of_stream(n_groups, a.n_k / F::kUnitK * F::kUnitBytes, n_streams) * kGroupRows;
}

/// The rows from `row` on, R groups at a time while that many are complete, times all tokens: the weights
/// come from memory once, however many tiles they take. Returns the first row that is left.
template <class F, int R, class V = OwnVectors>
int64_t stream_groups(const PackedMatmulArgs& a, int64_t row) {
    constexpr int kMost = (R == 2 ? kPairSums : kTileSums) / R;
    const uint8_t* gathered = nullptr;
    if constexpr (kGathersFew && R == 2) gathered = gather_few<F, kMost>(a, a.n_rows - row);
    while (a.n_rows - row >= R * kGroupRows) {
        const bool far = R == 1 || a.fetch == Fetch::FarStreams;
        const int64_t n = far ? rows_of_stream<F>(a, row, R) : kGroupRows;
        const StreamRows rows = a.apart > 0 ? StreamRows{row, n, a.apart, a.y_apart} : StreamRows{row, n};
        for (int64_t at = row; at < row + n; at += kGroupRows) {
            each_tile<kMost>(a.n_tok, [&]<int T>(int64_t token) {
                stream_tile<F, V, R, T>(a, rows, at, token, a.y + token * a.y_stride + at, a.y_stride,
                                        gathered);
            });
        }
        row += R * n;
    }
    return row;
}

/// stream_groups of one of V's vectors, the tokens gathered once for all rows.
template <class F, class V>
int64_t wide_rows(const PackedMatmulArgs& a, int64_t row) {
    using U = Unpack<F>;
    static_assert(U::kZero == 0 || kStartsOfBlock<U> != 0, "wider sums take a zero point at their start");
    constexpr int kRows = kGroupRows * V::kGroups;
    const int64_t token_bytes = gathered_bytes<F>(a);
    uint8_t* gathered = static_cast<uint8_t*>(a.scratch);
    if (row + kRows > a.n_rows) return row;
    gather_tiles<F, kTileSums, kFewestGathered>(a, gathered);
    while (row + kRows <= a.n_rows) {
        const bool far = a.fetch == Fetch::FarStreams;
        const int64_t n = far ? rows_of_stream<F>(a, row, V::kGroups) : kGroupRows;  // of each group's stream
        for (int64_t at = row; at < row + n; at += kGroupRows) {
            PackedUnits units = stream_units<F>(a, {row, n}, at, V::kGroups, kWideRowsBytes);
            if (far) units.first_line = kFirstLineBytes;
            each_tile<kTileSums, kFewestGathered>(a.n_tok, [&]<int T>(int64_t token) {
                tile<F, 1, T, WideStream<U, V>>(units, a.n_k / F::kUnitK,
                                                GatheredAct<U, T>{gathered + token * token_bytes},
                                                a.y + token * a.y_stride + at, a.y_stride, false, n);
            });
        }
        row += V::kGroups * n;
    }
    return row;
}

/// What of a group's sums for T tokens from `token` on the matrix has rows for.
template <int T>
TSR_INLINE void copy_last(const PackedMatmulArgs& a, int64_t row, int64_t token,
                          const float (&last)[T * kGroupRows]) {
    const int64_t end = row + kGroupRows < a.n_rows ? row + kGroupRows : a.n_rows;
    for (int t = 0; t < T; t++) {
        float* y = a.y + (token + t) * a.y_stride;
        for (int64_t r = row; r < end; r++) y[r] = last[t * kGroupRows + r - row];
    }
}

/// The rows from `row` on times all tokens, the matrix's last and incomplete group included.
template <class F, class V = OwnVectors>
void stream_rows(const PackedMatmulArgs& a, int64_t row) {
    // Groups side by side share what is made of activations, and a sum waits for none before it. Which order
    // of groups memory gives most in depends on the processor.
    constexpr int kGroups = kStreamPlan<F>.groups;
    const bool four = kGroups == 4 || a.fetch == Fetch::FarStreams;
    // Side by side they come as wider vectors do, but where operands are made by the block.
    using Four = std::conditional_t<Unpack<F>::kOpensBlocks, OwnVectors, V>;
    if (four && a.n_tok <= kTileSums / 4) {
        row = stream_groups<F, 4, Four>(a, row);
    } else if (kGroups == 4 || a.n_tok > 2) {
        if (gathers<F, V>(a)) {
            if constexpr (V::kGroups > 1) row = wide_rows<F, V>(a, row);
        } else if (kGathersFew || 2 * a.n_tok <= kPairSums) {
            // Six tokens gathered are better off in two tiles of two groups than in one of one.
            row = stream_groups<F, 2>(a, row);
        }
    }
    row = stream_groups<F, 1>(a, row);
    if (row == a.n_rows) return;
    each_tile<kTileSums>(a.n_tok, [&]<int T>(int64_t token) {
        float last[T * kGroupRows];
        stream_tile<F, OwnVectors, 1, T>(a, {row, kGroupRows}, row, token, last, kGroupRows);
        copy_last<T>(a, row, token, last);
    });
}

/// The tile of T tokens of a product from `token` on, as panels read them.
template <int T, class V>
TSR_INLINE auto panel_act(const ActView& x, int64_t token, int64_t k) {
    if constexpr (kActTile > 1) {
        return tiled_act<T>(x, token, k);
    } else {
        return tile_act(x, V::kTokens * token, k);
    }
}

/// run<n>(token) for the tiles that a panel takes its tokens in. Even: they are as equal as possible, and not
/// full ones and a rest.
template <class V, bool Even, class Run>
TSR_INLINE void each_panel_tile(int64_t n_tok, const Run& run) {
    if constexpr (kActTile > 1 && !Even) {
        for (int64_t token = 0; token < n_tok; token += kActTile)
            run_tile<kActTile, 1>(n_tok - token, token, run);
    } else {
        each_tile<V::kTile>(n_tok / V::kTokens, run);
    }
}

/// The rows of two vectors times all tokens, their weights unpacked once.
template <class F, class V, bool Even>
void panel_rows(const PackedMatmulArgs& a, int64_t row) {
    const int64_t n_units = a.n_k / F::kUnitK;
    uint8_t* panel = static_cast<uint8_t*>(a.scratch);
    using P = PanelOf<F, V>;
    // The two tiles that each_panel_tile would make of six to eight tokens.
    if constexpr (kActTile > 1 && kFillsPanels<P>) {
        constexpr int kFull = V::kTile;
        const auto take_turns = [&]<int First, int Second>() {
            two_tiles<F, P, First, Second>({panel_units<F>(a, row, P::kGroups, 0), panel}, n_units,
                                           tiled_act<First>(a.x, 0, 0), tiled_act<Second>(a.x, First, 0),
                                           a.y + row, a.y_stride);
        };
        if (a.n_tok == 2 * kFull) return take_turns.template operator()<kFull, kFull>();
        if (a.n_tok == 2 * kFull - 1) return take_turns.template operator()<kFull, kFull - 1>();
        if constexpr (Even) {
            if (a.n_tok == 2 * kFull - 2) return take_turns.template operator()<kFull - 1, kFull - 1>();
        }
    }
    constexpr int64_t kChunk = kPanelUnits<F>;
    static_assert(kPanelBytes<P> <= static_cast<int64_t>(kPackedScratchBytes));
    for (int64_t first = 0; first < n_units; first += kChunk) {
        const int64_t count = n_units - first < kChunk ? n_units - first : kChunk;
        const PackedUnits units = panel_units<F>(a, row, P::kGroups, first);
        if constexpr (!kFillsPanels<P>) write_panel<P>(units, count, panel);
        each_panel_tile<V, Even>(a.n_tok, [&]<int T>(int64_t t) {
            const auto x = panel_act<T, V>(a.x, t, first * F::kUnitK);
            float* y = a.y + V::kTokens * t * a.y_stride + row;
            if constexpr (kFillsPanels<P>) {
                if (t == 0)
                    return tile<F, 2, T, typename P::FilledBy>({units, panel}, count, x, y, a.y_stride,
                                                               first != 0);
            }
            tile<F, 2, T, P>(panel, count, x, y, a.y_stride, first != 0);
        });
    }
    if (a.n_tok % V::kTokens != 0) {
        const int64_t token = a.n_tok - 1;
        stream_tile<F, OwnVectors, P::kGroups, 1>(a, {row, kGroupRows}, row, token,
                                                  a.y + token * a.y_stride + row, a.y_stride);
    }
}

/// The same product of some tokens only.
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

/// All rows that are whole panels, times the tokens that a large L2 cache holds at a time. Returns the first
/// row that is left.
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

/// The same of tokens in rows for products of tiles: as many tokens at a time as the scratch has room for are
/// laid out so behind the panel.
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

/// The rows from `row` on, R groups at a time while that many are complete, times tokens in tiles. Returns
/// the first row that is left.
template <class F, int R>
int64_t tiled_groups(const PackedMatmulArgs& a, int64_t row) {
    for (; row + R * kGroupRows <= a.n_rows; row += R * kGroupRows) {
        const PackedUnits units = stream_units<F>(a, {row, kGroupRows}, row, R);
        each_panel_tile<OwnVectors, false>(a.n_tok, [&]<int T>(int64_t t) {
            tile<F, R, T, Stream<Unpack<F>, R>>(units, a.n_k / F::kUnitK, tiled_act<T>(a.x, t, 0),
                                                a.y + t * a.y_stride + row, a.y_stride, false);
        });
    }
    return row;
}

/// The same to the matrix's end, its incomplete group included.
template <class F>
void tiled_rows(const PackedMatmulArgs& a, int64_t row) {
    row = tiled_groups<F, 1>(a, row);
    if (row == a.n_rows) return;
    const PackedUnits units = stream_units<F>(a, {row, kGroupRows}, row, 1);
    each_panel_tile<OwnVectors, false>(a.n_tok, [&]<int T>(int64_t t) {
        float last[T * kGroupRows];
        tile<F, 1, T, Stream<Unpack<F>, 1>>(units, a.n_k / F::kUnitK, tiled_act<T>(a.x, t, 0), last,
                                            kGroupRows, false);
        copy_last<T>(a, row, t, last);
    });
}

template <class F, class V = OwnVectors>
void packed_matmul(const PackedMatmulArgs& a);

/// Whether pieces are what streams far apart go through.
template <class F>
TSR_INLINE bool streams_pieces(const PackedMatmulArgs& a) {
    const int most =
        kStreamPlan<F>.tokens < kTileSums / kPieces ? kStreamPlan<F>.tokens : kTileSums / kPieces;
    return a.fetch == Fetch::FarStreams && a.n_tok <= most && a.x.tile <= 1;
}

/// The product of pieces, each by itself.
template <class F, class V>
void each_piece(PackedMatmulArgs a) {
    const int64_t piece_bytes = a.apart / kGroupRows * (a.n_k / F::kUnitK * F::kUnitBytes);
    a.n_rows /= kPieces;
    a.apart = 0;
    for (int i = 0; i < kPieces; i++) {
        packed_matmul<F, V>(a);
        a.w = static_cast<const uint8_t*>(a.w) + piece_bytes;
        a.y += a.y_apart;
    }
}

/// V: the vectors of panels and, where they are of several groups, of streams for more than a few tokens.
template <class F, class V>
void packed_matmul(const PackedMatmulArgs& a) {
    if (a.apart > 0 && !streams_pieces<F>(a)) return each_piece<F, V>(a);
    if constexpr (kActTile > 1) {
        if (a.x.tile > 1) {
            if constexpr (kStreamPlan<F>.tokens >= kFewestTiled) {
                if (a.n_tok <= kStreamPlan<F>.tokens) return tiled_rows<F>(a, tiled_groups<F, 2>(a, 0));
            }
            return tiled_rows<F>(a, panels<F, V>(a));
        }
    }
    if (a.n_tok <= kStreamPlan<F>.tokens && (a.n_tok <= kTileSums || gathers<F, V>(a))) {
        return stream_rows<F, V>(a, 0);
    }
    int64_t row;
    if constexpr (kActTile > 1) {
        row = panels_of_rows<F, V>(a);
    } else {
        row = panels<F, V>(a);
    }
    if (row < a.n_rows) stream_rows<F, V>(a, row);
}

}  // namespace
}  // namespace tessera::kernels
