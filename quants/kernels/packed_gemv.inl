// Products of few tokens, and of the rows that panels leave over: tiles read packed weights directly, in
// streams of one, two or four groups of rows. Which rows are read at the same time, how far ahead they are
// prefetched and which tile sizes exist is decided here. Over the operations and Unpack of the unit that
// includes this.
#include "quants/kernels/streams.h"
#include "quants/kernels/tile.inl"

namespace tessera::kernels {
namespace {

/// How packed units of a type are multiplied; a unit of an instruction set may know better.
struct StreamPlan {
    /// Batch up to which unpacking in registers beats unpacking into a panel.
    int tokens = kStreamTokens;
    /// Groups that one and two tokens read side by side, unless the processor wants streams far apart: 1
    /// or 4.
    int groups = kGroupsOfFew;
    /// A single token leaves prefetching to the processor whatever its rows' length, where WeightTuning's
    /// hardware_bytes allows any.
    bool hardware_prefetch = false;
    /// Instead of WeightTuning::wide_few.l1 where that is the only step; 0: not.
    int wide_l1 = 0;
};
/// Types whose GEMV is bound by instructions rather than by memory.
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

// ---- tile sizes

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

/// Minimum batch for packing activations into one array (PackedAct), which the scratch must have room for.
/// Fewer tokens wait for memory, which gives more bandwidth to one stream of one group, or to four far apart.
constexpr int kPackActMinTokens = 3;
/// Minimum rows for which packing the activations of a pair of groups pays off.
constexpr int64_t kPackActMinRows = 64;
/// Whether few tokens that two groups share are packed: where the instruction set gains by it, and for types
/// that pad tiles.
template <class F>
constexpr bool kPacksPairAct = kPacksFewAct || kFewTileSizes<F>;
/// Tile sizes of one group's stream: one and two tokens, tokens left by other tiles, and tokens that no pair
/// of groups takes.
template <class F, class V>
constexpr uint32_t kOneGroupSizes =
    V::kGroups == 1 && !kPacksPairAct<F> ? kTileSizes<1, 2, 4> | kTileRange<kPairSums / 2 + 1, kTileSums>
                                         : kTileSizes<1, 2, 4>;
/// Of two groups' streams, with activations in rows and with packed ones.
template <class F>
constexpr uint32_t kPairSizes = kTileRange<kPackActMinTokens, kPairSums / 2>;
template <class F>
constexpr uint32_t kPackedPairSizes =
    kFewTileSizes<F> ? kTileSizes<kTileSums / 2> : kTileRange<kPackActMinTokens, kPairSums / 2>;
/// Of two groups as one vector.
template <class F>
constexpr uint32_t kWideSizes =
    kFewTileSizes<F> ? kTileSizes<kTileSums / 2, kTileSums> : kTileRange<kPackActMinTokens, kTileSums>;

// ---- where weights lie, and their prefetch

template <class F>
TSR_INLINE int64_t group_bytes_of(const PackedMatmulArgs& a) {
    return a.n_k / F::kUnitK * F::kUnitBytes;
}

/// n neighbouring groups of F from that of a row on. Memory `beside` the weights is prefetched byte for byte:
/// distances are 0, and the stream ends where it begins.
template <class F>
TSR_INLINE PackedUnits packed_units(const PackedMatmulArgs& a, int64_t row, int n) {
    const int64_t group_bytes = group_bytes_of<F>(a);
    const uint8_t *w = static_cast<const uint8_t*>(a.w), *group = w + row / kGroupRows * group_bytes;
    if (a.beside) {
        PackedUnits units{group, group_bytes, {group, static_cast<const uint8_t*>(a.beside) - w}};
        (a.beside_to_l1 ? units.plan.l1 : units.plan.l2) = 0;
        return units;
    }
    return {group, group_bytes, {group + group_bytes, (n - 1) * group_bytes}};
}

/// At least n bytes of whole units: where streams are short and wrap often, no line is missed then.
template <class F>
constexpr int whole_units(int n) {
    return (n + F::kUnitBytes - 1) / F::kUnitBytes * F::kUnitBytes;
}
TSR_INLINE void set_distance(PrefetchPlan& plan, PrefetchDistance ahead) {
    plan.l1 = ahead.l1 > 0 ? ahead.l1 : kNoPrefetch;
    plan.l2 = ahead.l2 > 0 ? ahead.l2 : kNoPrefetch;
}

/// n streams' rows: `n` rows each from `first` on, one stream after the other.
struct StreamRows {
    int64_t first, n;
};

/// The units of n_streams streams, at the row that lies in each as `row` lies in the first one.
template <class F>
TSR_INLINE PackedUnits stream_units(const PackedMatmulArgs& a, StreamRows rows, int64_t row, int n_streams,
                                    PrefetchDistance ahead) {
    PackedUnits units = packed_units<F>(a, row, n_streams);
    const int64_t group_bytes = units.group_bytes;
    units.group_bytes *= rows.n / kGroupRows;
    if (a.beside) return units;
    if (ahead.l2 > 0) ahead = {whole_units<F>(ahead.l1), whole_units<F>(ahead.l2)};
    set_distance(units.plan, ahead);
    units.plan.end += (rows.first + rows.n - kGroupRows - row) / kGroupRows * group_bytes;
    // Behind the last stream come the next rows or, if nothing is known of these, the following memory, which
    // a thread often continues with.
    units.plan.wrap = (n_streams - 1) * units.group_bytes;
    if (a.next && rows.first + n_streams * rows.n >= a.n_rows)
        units.plan.wrap = static_cast<const uint8_t*>(a.next) - units.plan.end;
    return units;
}

/// Rows of each of n_streams streams from `row` on, which leave a group for each.
template <class F>
TSR_INLINE int64_t rows_of_stream(const PackedMatmulArgs& a, int64_t row, int n_streams) {
    const int64_t n_groups = (a.n_rows - row) / (n_streams * kGroupRows);
    return groups_of_stream(n_groups, group_bytes_of<F>(a), n_streams) * kGroupRows;
}

/// fn(rows, row) for the rows from `row` on, R groups at a time while that many are complete: `row`, and the
/// rows that lie as far from it as the streams do. Streams are as long as possible where the processor wants
/// them far apart, else a group. Returns the first row that is left.
template <class F, int R, class Fn>
TSR_INLINE int64_t each_stream_row(const PackedMatmulArgs& a, int64_t row, const Fn& fn) {
    while (a.n_rows - row >= R * kGroupRows) {
        const bool far = R == 1 || a.tuning.streams > 1;
        const StreamRows rows{row, far ? rows_of_stream<F>(a, row, R) : kGroupRows};
        for (int64_t at = row; at < row + rows.n; at += kGroupRows) fn(rows, at);
        row += R * rows.n;
    }
    return row;
}

// ---- tiles of streams

/// Bytes of a token in packed activations.
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
/// Packs all tokens' activations into the scratch in tiles of these sizes.
template <class F, uint32_t kSizes>
const uint8_t* pack_tiles(const PackedMatmulArgs& a) {
    auto* out = static_cast<uint8_t*>(a.scratch);
    each_padded_tile<kSizes>(a.n_tok, [&]<int T>(int64_t token, int64_t place, int64_t n) {
        pack_activations<Unpack<F>>(tile_act(a.x, token, 0), n, T, a.n_k / kActBlock,
                                    out + place * packed_act_bytes<F>(a));
    });
    return out;
}

/// Whether a single token leaves prefetching to the processor.
template <class F>
TSR_INLINE bool uses_hardware_prefetch(const PackedMatmulArgs& a) {
    if (a.n_tok != 1 || a.beside || a.tuning.hardware_bytes == 0) return false;
    const int64_t act_bytes = a.n_k + a.n_k / kActBlock * 8;
    return kStreamPlan<F>.hardware_prefetch || group_bytes_of<F>(a) + act_bytes <= a.tuning.hardware_bytes;
}

/// R groups, two of them a vector of a V that has two, times the T tokens of x, straight from packed units.
template <class F, class V, int R, int T, class Acts>
TSR_INLINE void stream_tile(const PackedMatmulArgs& a, StreamRows rows, int64_t row, const Acts& x, float* y,
                            int64_t y_stride) {
    PrefetchDistance ahead = R == 1 ? a.tuning.one : V::kGroups == 1 ? a.tuning.several : a.tuning.wide_few;
    if (kStreamPlan<F>.wide_l1 > 0 && V::kGroups > 1 && ahead.l2 == 0) ahead.l1 = kStreamPlan<F>.wide_l1;
    const auto run = [&]<class Source>() {
        tile<F, R / V::kGroups, T, Source>(stream_units<F>(a, rows, row, R, ahead), a.n_k / F::kUnitK, x, y,
                                           y_stride, false, rows.n);
    };
    if constexpr (V::kGroups > 1) {
        run.template operator()<WideStream<Unpack<F>, V, R / V::kGroups>>();
    } else {
        if constexpr (R == 1 && T == 1 && kHardwarePrefetch) {
            if (uses_hardware_prefetch<F>(a))
                return run.template operator()<Stream<Unpack<F>, R, HardwarePrefetch>>();
        }
        run.template operator()<Stream<Unpack<F>, R>>();
    }
}

/// The rows from `row` on, R groups at a time while that many are complete, times all tokens: the weights
/// come from memory once, however many tiles they take. Returns the first row that is left.
template <class F, int R, uint32_t kSizes, class V = NativeVec>
int64_t stream_groups(const PackedMatmulArgs& a, int64_t row) {
    return each_stream_row<F, R>(a, row, [&](const StreamRows& rows, int64_t at) {
        each_tile<kSizes>(a.n_tok, [&]<int T>(int64_t token) {
            stream_tile<F, V, R, T>(a, rows, at, tile_act(a.x, token, 0), a.y + token * a.y_stride + at,
                                    a.y_stride);
        });
    });
}

/// The same of two groups, the activations packed once for all rows.
template <class F>
int64_t packed_act_pairs(const PackedMatmulArgs& a, int64_t row) {
    constexpr uint32_t kSizes = kPackedPairSizes<F>;
    const uint8_t* acts = pack_tiles<F, kSizes>(a);
    return each_stream_row<F, 2>(a, row, [&](const StreamRows& rows, int64_t at) {
        each_padded_tile<kSizes>(a.n_tok, [&]<int T>(int64_t token, int64_t place, int64_t n) {
            stream_tile<F, NativeVec, 2, T>(a, rows, at,
                                            PackedAct<Unpack<F>, T>{acts + place * packed_act_bytes<F>(a), n},
                                            a.y + token * a.y_stride + at, a.y_stride);
        });
    });
}

/// The same of one of V's vectors.
template <class F, class V>
int64_t wide_rows(const PackedMatmulArgs& a, int64_t row) {
    using U = Unpack<F>;
    static_assert(U::kZero == 0 || kStartsOfBlock<U> != 0, "wider sums take a zero point at their start");
    static_assert(V::kGroups == 2);
    if (row + 2 * kGroupRows > a.n_rows) return row;
    const uint8_t* acts = pack_tiles<F, kWideSizes<F>>(a);
    return each_stream_row<F, 2>(a, row, [&](const StreamRows& rows, int64_t at) {
        PackedUnits units = stream_units<F>(a, rows, at, 2, a.tuning.wide_many);
        if (a.tuning.wide_first_line > 0 && !a.beside) units.plan.first_line = a.tuning.wide_first_line;
        each_padded_tile<kWideSizes<F>>(a.n_tok, [&]<int T>(int64_t token, int64_t place, int64_t n) {
            tile<F, 1, T, WideStream<U, V>>(units, a.n_k / F::kUnitK,
                                            PackedAct<U, T>{acts + place * packed_act_bytes<F>(a), n},
                                            a.y + token * a.y_stride + at, a.y_stride, false, rows.n);
        });
    });
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
void packed_gemv(const PackedMatmulArgs& a, int64_t row) {
    // Groups side by side share the loads of activations, and more sums hide the latency of additions. Which
    // order of groups gives most bandwidth depends on the processor.
    constexpr int kGroups = kStreamPlan<F>.groups;
    const bool four = kGroups == 4 || a.tuning.streams > 1;
    // As wider vectors, but where operands are made block by block.
    using Four = std::conditional_t<Unpack<F>::kOpensBlocks, NativeVec, V>;
    if (four && a.n_tok <= kTileSums / 4) {
        row = stream_groups<F, 4, kTileRange<1, kTileSums / 4>, Four>(a, row);
    } else if (a.n_tok >= kPackActMinTokens) {
        if constexpr (V::kGroups > 1) {
            if (packs_act<F, V>(a)) row = wide_rows<F, V>(a, row);
        } else if constexpr (kPairSums < 2 * kPackActMinTokens) {
            // Two groups times as many tokens do not fit.
        } else if constexpr (kPacksPairAct<F>) {
            // Six packed tokens are better off in two tiles of two groups than in one of one.
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

}  // namespace
}  // namespace tessera::kernels
