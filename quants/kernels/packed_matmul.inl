// How a product's rows and tokens are cut into tiles (tile.inl): few tokens straight from packed units, in
// streams of one, two or four groups, many from panels. What is gathered, how many tokens go which way, and
// what is fetched is decided here, by what kernels_bench measured. Over the verbs and Unpack of the unit that
// includes this.
#include "quants/kernels/streams.h"
#include "quants/kernels/tile.inl"

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
/// Types whose tiles are compiled for few token counts only, since unpacking dominates their time and their
/// tiles are the largest: codebooks, and types that are slow to unpack.
template <class F>
constexpr bool kFewTileSizes = Unpack<F>::kOpensBlocks || kSlowToUnpack<F>;
/// Of these, more tokens than one tile of a stream has room for share a panel, which unpacks once.
template <class F>
constexpr int kStreamTokensOf = !kFewTileSizes<F>           ? kStreamTokens
                                : kStreamTokens > kTileSums ? kTileSums
                                                            : kTileSums / 2;
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

/// A set of tile sizes in tokens, one bit each: the token counts that a path is compiled for.
template <int... kSizes>
constexpr uint32_t kTileSizes = ((1U << kSizes) | ...);
/// All sizes from kLeast to kMost.
template <int kLeast, int kMost>
constexpr uint32_t kTileRange = (2U << kMost) - (1U << kLeast);
constexpr int least_size(uint32_t sizes) { return __builtin_ctz(sizes); }
constexpr int largest_size(uint32_t sizes) { return 31 - __builtin_clz(sizes); }
constexpr bool is_range(uint32_t sizes) { return (sizes & (sizes + (sizes & -sizes))) == 0; }

/// run<n>() for an n of the set.
template <uint32_t kSizes, class Run>
TSR_INLINE void run_size(int64_t n, const Run& run) {
    constexpr int kMost = largest_size(kSizes);
    constexpr uint32_t kSmaller = kSizes & ~(1U << kMost);
    if constexpr (kSmaller != 0) {
        if (n < kMost) return run_size<kSmaller>(n, run);
    }
    run.template operator()<kMost>();
}

/// run<n>(token) for all tokens in tiles whose sizes are in the set. Of a range they are as equal as
/// possible: 9 = 5 + 4 keeps more sums going than 8 + 1. Otherwise the largest that fits comes first.
template <uint32_t kSizes, class Run>
TSR_INLINE void each_tile(int64_t n_tok, const Run& run) {
    constexpr int kMost = largest_size(kSizes);
    for (int64_t token = 0; token < n_tok;) {
        const int64_t left = n_tok - token, n_tiles = (left + kMost - 1) / kMost;
        const int64_t most = is_range(kSizes) ? (left + n_tiles - 1) / n_tiles : left < kMost ? left : kMost;
        const int64_t n = largest_size(kSizes & ((2U << most) - 1));
        run_size<kSizes>(n, [&]<int T>() { run.template operator()<T>(token); });
        token += n;
    }
}

/// run<T>(token, place, n) for all tokens in tiles of T >= n tokens, the first n of which exist, and `place`
/// tokens' room in the tiles before it. As equal as possible, then padded to the next size of the set.
template <uint32_t kSizes, class Run>
TSR_INLINE void each_padded_tile(int64_t n_tok, const Run& run) {
    constexpr int kMost = largest_size(kSizes);
    for (int64_t token = 0, place = 0; token < n_tok;) {
        const int64_t left = n_tok - token, n_tiles = (left + kMost - 1) / kMost;
        const int64_t n = (left + n_tiles - 1) / n_tiles;
        const int64_t size = least_size(kSizes >> n << n);
        run_size<kSizes>(size, [&]<int T>() { run.template operator()<T>(token, place, n); });
        token += n;
        place += size;
    }
}
/// Tokens that such tiles have room for in all.
template <uint32_t kSizes>
TSR_INLINE int64_t padded_tokens(int64_t n_tok) {
    constexpr int kMost = largest_size(kSizes);
    const int64_t n_tiles = (n_tok + kMost - 1) / kMost, n = (n_tok + n_tiles - 1) / n_tiles;
    return n_tiles * least_size(kSizes >> n << n);
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

/// Tokens that are gathered at least, as long as the scratch has room for them. Fewer wait for memory, which
/// gives more in one stream of one group, or in four far apart.
constexpr int kPackActMinTokens = 3;
/// Rows at least that repay the gathering of tokens that two groups share.
constexpr int64_t kPackActMinRows = 64;
/// Whether a few tokens that two groups share are gathered: where the instruction set gains by it, and for
/// types that pad tiles.
template <class F>
constexpr bool kPacksPairAct = kPacksFewAct || kFewTileSizes<F>;
/// Tile sizes of one group's stream: of one and two tokens, of what other tiles leave, and of tokens that no
/// pair of groups takes.
template <class F, class V>
constexpr uint32_t kOneGroupSizes =
    V::kGroups == 1 && !kPacksPairAct<F> ? kTileSizes<1, 2, 4> | kTileRange<kPairSums / 2 + 1, kTileSums>
                                         : kTileSizes<1, 2, 4>;
/// Of two groups' streams, where tokens lie in rows and where they are gathered.
template <class F>
constexpr uint32_t kPairSizes = kTileRange<kPackActMinTokens, kPairSums / 2>;
template <class F>
constexpr uint32_t kPackedPairSizes =
    kFewTileSizes<F> ? kTileSizes<kTileSums / 2> : kTileRange<kPackActMinTokens, kPairSums / 2>;
/// Of two groups as one vector.
template <class F>
constexpr uint32_t kWideSizes =
    kFewTileSizes<F> ? kTileSizes<kTileSums / 2, kTileSums> : kTileRange<kPackActMinTokens, kTileSums>;
/// Bytes of a gathered token.
template <class F>
TSR_INLINE int64_t packed_act_bytes(const PackedMatmulArgs& a) {
    return a.n_k / kActBlock * kPackedActBytes<Unpack<F>>;
}
template <class F, uint32_t kSizes>
TSR_INLINE bool has_room_to_pack(const PackedMatmulArgs& a) {
    return padded_tokens<kSizes>(a.n_tok) * packed_act_bytes<F>(a) <=
           static_cast<int64_t>(kPackedScratchBytes);
}
template <class F, class V>
TSR_INLINE bool packs_act(const PackedMatmulArgs& a) {
    return V::kGroups > 1 && a.n_tok >= kPackActMinTokens && has_room_to_pack<F, kWideSizes<F>>(a);
}
/// Gathers all tokens in tiles of these sizes into the scratch, each tile's where its first token has its
/// place.
template <class F, uint32_t kSizes>
const uint8_t* pack_tiles(const PackedMatmulArgs& a) {
    auto* out = static_cast<uint8_t*>(a.scratch);
    each_padded_tile<kSizes>(a.n_tok, [&]<int T>(int64_t token, int64_t place, int64_t n) {
        pack_activations<Unpack<F>>(tile_act(a.x, token, 0), n, T, a.n_k / kActBlock,
                                    out + place * packed_act_bytes<F>(a));
    });
    return out;
}

/// R groups, two of them a vector of a V that has two, times the T tokens of x, straight from packed units.
template <class F, class V, int R, int T, class Acts>
TSR_INLINE void stream_tile(const PackedMatmulArgs& a, StreamRows rows, int64_t row, const Acts& x, float* y,
                            int64_t y_stride) {
    constexpr int kAhead = V::kGroups > 1 ? kStreamPlan<F>.wide_ahead : kFarStreamsBytes;
    const auto run = [&]<class Source>() {
        tile<F, R / V::kGroups, T, Source>(stream_units<F>(a, rows, row, R, kAhead), a.n_k / F::kUnitK, x, y,
                                           y_stride, false, rows.y_apart);
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

/// fn(rows, row) for the rows from `row` on, R groups at a time while that many are complete: `row` and those
/// as far from it as the streams are. Returns the first row that is left.
template <class F, int R, class Fn>
TSR_INLINE int64_t each_streams(const PackedMatmulArgs& a, int64_t row, const Fn& fn) {
    while (a.n_rows - row >= R * kGroupRows) {
        const bool far = R == 1 || a.fetch == Fetch::FarStreams;
        const int64_t n = far ? rows_of_stream<F>(a, row, R) : kGroupRows;
        const StreamRows rows = a.apart > 0 ? StreamRows{row, n, a.apart, a.y_apart} : StreamRows{row, n};
        for (int64_t at = row; at < row + n; at += kGroupRows) fn(rows, at);
        row += R * n;
    }
    return row;
}

/// The rows from `row` on, R groups at a time while that many are complete, times all tokens: the weights
/// come from memory once, however many tiles they take. Returns the first row that is left.
template <class F, int R, uint32_t kSizes, class V = NativeVec>
int64_t stream_groups(const PackedMatmulArgs& a, int64_t row) {
    return each_streams<F, R>(a, row, [&](const StreamRows& rows, int64_t at) {
        each_tile<kSizes>(a.n_tok, [&]<int T>(int64_t token) {
            stream_tile<F, V, R, T>(a, rows, at, tile_act(a.x, token, 0), a.y + token * a.y_stride + at,
                                    a.y_stride);
        });
    });
}

/// The same of two groups, the tokens gathered once for all rows.
template <class F>
int64_t packed_act_pairs(const PackedMatmulArgs& a, int64_t row) {
    constexpr uint32_t kSizes = kPackedPairSizes<F>;
    const uint8_t* gathered = pack_tiles<F, kSizes>(a);
    return each_streams<F, 2>(a, row, [&](const StreamRows& rows, int64_t at) {
        each_padded_tile<kSizes>(a.n_tok, [&]<int T>(int64_t token, int64_t place, int64_t n) {
            stream_tile<F, NativeVec, 2, T>(
                a, rows, at, PackedAct<Unpack<F>, T>{gathered + place * packed_act_bytes<F>(a), n},
                a.y + token * a.y_stride + at, a.y_stride);
        });
    });
}

/// The same of one of V's vectors.
template <class F, class V>
int64_t wide_rows(const PackedMatmulArgs& a, int64_t row) {
    using U = Unpack<F>;
    static_assert(U::kZero == 0 || kStartsOfBlock<U> != 0, "wider sums take a zero point at their start");
    constexpr int kRows = kGroupRows * V::kGroups;
    const int64_t token_bytes = packed_act_bytes<F>(a);
    if (row + kRows > a.n_rows) return row;
    const uint8_t* gathered = pack_tiles<F, kWideSizes<F>>(a);
    while (row + kRows <= a.n_rows) {
        const bool far = a.fetch == Fetch::FarStreams;
        const int64_t n = far ? rows_of_stream<F>(a, row, V::kGroups) : kGroupRows;  // of each group's stream
        for (int64_t at = row; at < row + n; at += kGroupRows) {
            PackedUnits units = stream_units<F>(a, {row, n}, at, V::kGroups, kWideRowsBytes);
            if (far) units.first_line = kFirstLineBytes;
            each_padded_tile<kWideSizes<F>>(a.n_tok, [&]<int T>(int64_t token, int64_t place, int64_t n_tok) {
                tile<F, 1, T, WideStream<U, V>>(units, a.n_k / F::kUnitK,
                                                PackedAct<U, T>{gathered + place * token_bytes, n_tok},
                                                a.y + token * a.y_stride + at, a.y_stride, false, n);
            });
        }
        row += V::kGroups * n;
    }
    return row;
}

/// Stores the rows from `row` on that the matrix has, of the sums of n_rows rows for n_tok tokens from
/// `token` on.
TSR_INLINE void copy_last(const PackedMatmulArgs& a, int64_t row, int64_t token, int64_t n_tok,
                          const float* last, int64_t n_rows) {
    const int64_t end = row + n_rows < a.n_rows ? row + n_rows : a.n_rows;
    for (int64_t t = 0; t < n_tok; t++) {
        float* y = a.y + (token + t) * a.y_stride;
        for (int64_t r = row; r < end; r++) y[r] = last[t * n_rows + r - row];
    }
}

/// The rows from `row` on times all tokens, the matrix's last and incomplete group included.
template <class F, class V = NativeVec>
void stream_rows(const PackedMatmulArgs& a, int64_t row) {
    // Groups side by side share what is made of activations, and a sum waits for none before it. Which order
    // of groups memory gives most in depends on the processor.
    constexpr int kGroups = kStreamPlan<F>.groups;
    const bool four = kGroups == 4 || a.fetch == Fetch::FarStreams;
    // Side by side they come as wider vectors do, but where operands are made by the block.
    using Four = std::conditional_t<Unpack<F>::kOpensBlocks, NativeVec, V>;
    if (four && a.n_tok <= kTileSums / 4) {
        row = stream_groups<F, 4, kTileRange<1, kTileSums / 4>, Four>(a, row);
    } else if (a.n_tok >= kPackActMinTokens) {
        if constexpr (V::kGroups > 1) {
            if (packs_act<F, V>(a)) row = wide_rows<F, V>(a, row);
        } else if constexpr (kPairSums < 2 * kPackActMinTokens) {
            // Two groups times as many tokens do not fit.
        } else if constexpr (kPacksPairAct<F>) {
            // Six tokens gathered are better off in two tiles of two groups than in one of one.
            if (a.n_rows - row >= kPackActMinRows && has_room_to_pack<F, kPackedPairSizes<F>>(a))
                row = packed_act_pairs<F>(a, row);
        } else {
            if (2 * a.n_tok <= kPairSums) row = stream_groups<F, 2, kPairSizes<F>>(a, row);
        }
    }
    row = stream_groups<F, 1, kOneGroupSizes<F, V>>(a, row);
    if (row == a.n_rows) return;
    each_tile<kOneGroupSizes<F, V>>(a.n_tok, [&]<int T>(int64_t token) {
        float last[T * kGroupRows];
        stream_tile<F, NativeVec, 1, T>(a, {row, kGroupRows}, row, tile_act(a.x, token, 0), last, kGroupRows);
        copy_last(a, row, token, T, last, kGroupRows);
    });
}

/// Tile sizes of a panel: the full tile, and what remains of the tokens.
template <class V>
constexpr uint32_t kPanelSizes =
    V::kTile == 3 || V::kTile == 2 ? kTileRange<1, V::kTile> : kTileSizes<1, 2, 4, V::kTile>;

/// run<T>(token, x) for the tiles that a panel takes its tokens in from k on, the first a full one but of
/// fewer tokens. kPadded: tokens lie in full tiles, of which the last need not exist.
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

/// The rows of P's groups times all tokens, their weights unpacked once, to y: rows y_stride apart.
template <class F, class V, bool kPadded>
void panel_rows(const PackedMatmulArgs& a, int64_t row, PackedUnits units, float* y_row, int64_t y_stride) {
    const int64_t n_units = a.n_k / F::kUnitK;
    uint8_t* panel = static_cast<uint8_t*>(a.scratch);
    using P = PanelOf<F, V>;
    if constexpr (kActTile > 1 && kUnpacksInFirstTile<P>) {
        // Padded, more than one tile's tokens go through both at once.
        constexpr int kFull = V::kTile;
        if (kPadded ? a.n_tok > kFull && a.n_tok <= 2 * kFull : a.n_tok == 2 * kFull) {
            return tile_pair<F, P, kFull>({units, panel}, n_units, tiled_act<kFull>(a.x, 0, 0, kFull),
                                          tiled_act<kFull>(a.x, kFull, 0, a.n_tok - kFull), y_row, y_stride);
        }
    }
    constexpr int64_t kChunk = kPanelUnits<F>;
    static_assert(!kUnpacksInFirstTile<P> || kActTile > 1 || kStreamPlan<F>.tokens >= V::kTile);
    static_assert(kPanelBytes<P> <= static_cast<int64_t>(kPackedScratchBytes));
    for (int64_t first = 0; first < n_units; first += kChunk) {
        const int64_t count = n_units - first < kChunk ? n_units - first : kChunk;
        if constexpr (!kUnpacksInFirstTile<P>) write_panel<P>(units, count, panel);
        each_panel_tile<V, kPadded>(a.x, a.n_tok, first * F::kUnitK,
                                    [&]<int T>(int64_t token, const auto& x) {
                                        float* y = y_row + token * y_stride;
                                        if constexpr (kUnpacksInFirstTile<P>) {
                                            // The first tile is full, but of fewer tokens that lie in a tile
                                            // of their own.
                                            constexpr bool kAnySize = requires { P::kUnpacksInAnyTile; };
                                            if (token == 0) {
                                                if constexpr (T == V::kTile || kAnySize)
                                                    return tile<F, 2, T, typename P::Unpacking>(
                                                        {units, panel}, count, x, y, y_stride, first != 0);
                                                else if constexpr (kActTile > 1)
                                                    write_panel<P>(units, count, panel);
                                            }
                                        }
                                        tile<F, 2, T, P>(panel, count, x, y, y_stride, first != 0);
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
    panel_rows<F, V, kPadded>(a, row, panel_units<F>(a, row, PanelOf<F, V>::kGroups, 0), a.y + row,
                              a.y_stride);
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

/// The rows of two full tiles of tokens from `row` on, two groups at a time while that many are complete.
/// Returns the first row that is left.
template <class F>
int64_t tiled_pairs(const PackedMatmulArgs& a, int64_t row) {
    for (; row + 2 * kGroupRows <= a.n_rows; row += 2 * kGroupRows) {
        const PackedUnits units = stream_units<F>(a, {row, kGroupRows}, row, 2);
        for (int64_t t = 0; t < a.n_tok; t += kActTile) {
            tile<F, 2, kActTile, Stream<Unpack<F>, 2>>(units, a.n_k / F::kUnitK,
                                                       tiled_act<kActTile>(a.x, t, 0, kActTile),
                                                       a.y + t * a.y_stride + row, a.y_stride, false);
        }
    }
    return row;
}

/// The matrix's last rows, fewer than two groups, times tokens in tiles: a panel whose second group may be
/// the first one again.
template <class F, class V>
void last_tiled_rows(const PackedMatmulArgs& a, int64_t row) {
    constexpr int64_t kTokens = 8 * kActTile, kRows = 2 * kGroupRows;
    if (row == a.n_rows) return;
    PackedUnits units = panel_units<F>(a, row, 2, 0);
    if (a.n_rows - row <= kGroupRows) units.group_bytes = 0;
    for (int64_t token = 0; token < a.n_tok; token += kTokens) {
        float last[kTokens * kRows];
        const int64_t n = a.n_tok - token < kTokens ? a.n_tok - token : kTokens;
        panel_rows<F, V, false>(of_tokens(a, token, n), row, units, last, kRows);
        copy_last(a, row, token, n, last, kRows);
    }
}

template <class F, class V = NativeVec>
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
                if (a.n_tok == 2 * kActTile) return last_tiled_rows<F, V>(a, tiled_pairs<F>(a, 0));
            }
            return last_tiled_rows<F, V>(a, panels<F, V>(a));
        }
    }
    if (a.n_tok <= kStreamPlan<F>.tokens && (a.n_tok <= kTileSums || packs_act<F, V>(a))) {
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
