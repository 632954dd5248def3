// Activations as tiles read them: TileAct as the tokens' arrays lie, TiledAct in the tiled layout, PackedAct
// copied into one array per tile. Also the zero-point correction that sums start from. Over the operations
// and Unpack of the unit that includes this.
namespace tessera::kernels {
namespace {

/// Groups of a type that have one scale.
template <class U>
constexpr int kScaleGroups = U::kScales == 2 ? 4 : 8;
/// Groups whose products fit one sum: of operands as they are, and of operands less the zero point, whose
/// correction sums of halfwords may start from (they wrap; only the whole sum has to fit).
template <class U>
constexpr int kDepthAsIs = part_groups(largest_operand<typename U::Format>(U::Format::kZero - U::kZero));
template <class U>
constexpr int kDepthCentred = part_groups(largest_operand<typename U::Format>(U::Format::kZero));
/// Whether sums of halfwords start from the zero-point correction: where the products of all groups of a
/// scale then fit, and otherwise do not.
template <class U>
constexpr bool zero_in_lanes() {
    constexpr int kWanted = kScaleGroups<U>, kAsIs = kDepthAsIs<U>, kCentred = kDepthCentred<U>;
    return kLaneSums && U::kZero != 0 && kAsIs < kWanted && kCentred >= kWanted;
}
template <class U>
constexpr bool kZeroStarts = U::kZero != 0 && (kZeroFirst || zero_in_lanes<U>());
/// Whether the zero-point correction differs between rows and is applied once a block's sum is known.
template <class U>
constexpr bool kZeroStored = U::kZeroScaled && !kZeroStarts<U>;

/// The correction that sums start from depends on the token alone, so a tile of some tokens computes it once
/// for 8 blocks, and packed activations hold it. For one or two tokens that costs more than it saves, and so
/// it does for a block's only start where that is a multiple of sum8 (kLaneSums).
template <class U>
constexpr int kStartsOfBlock = !kZeroStarts<U>        ? 0
                               : kScaleGroups<U> == 8 ? 1
                                                      : 2;
template <class U, int Tokens>
constexpr bool kStartsMade = Tokens > 2 && kStartsOfBlock<U> > (kLaneSums ? 1 : 0);
/// Halfwords, of which tiles broadcast four bytes: of a token the words of 8 blocks, then those of the second
/// halves; with kLaneSums, where starts are multiples of sum8, in the order of sum8.
constexpr int kStartBlocks = 8, kTokenStarts = 2 * 2 * kStartBlocks;
constexpr int kStartStep = kLaneSums ? 4 : 2, kSecondStart = kLaneSums ? 2 : 2 * kStartBlocks;

/// -Zero as the factor of the sum of a block's first half, of its second half, or of both.
template <class U>
alignas(4) constexpr int16_t kLessZero[3][2] = {{-U::kZero, 0}, {0, -U::kZero}, {-U::kZero, -U::kZero}};

/// Sums of a block's activations that its starts are computed from.
constexpr int kStartSums = kLaneSums ? 4 : 2;

/// The starts of a vector of sum8. (Pairs, here and below, makes these dependent names: a table has the
/// operations of one way only.)
template <class U, class Pairs>
TSR_INLINE Pairs starts_of_lanes(Pairs sums) {
    const Pairs lanes = mul16(sums, Pairs{broadcast_half(-U::kZero)});
    if constexpr (kStartsOfBlock<U> == 1) return add16(lanes, swap_words(lanes));
    return lanes;
}

/// The starts of n_blocks <= 8 blocks, from kStartSums sums each.
template <class U, class Pairs = Int>
TSR_INLINE void write_starts(const int16_t* sums, int64_t n_blocks, int16_t* start) {
    if constexpr (kLaneSums) {
        TSR_UNROLL
        for (int i = 0; i < 2; i++) {
            const int16_t* from = sums + 2 * kStartBlocks * i;
            const Pairs loaded =
                n_blocks < kStartBlocks ? load_words(from, 2 * n_blocks - kStartBlocks * i) : load(from);
            store(start + 2 * kStartBlocks * i, starts_of_lanes<U>(loaded));
        }
    } else {
        const Pairs pairs = n_blocks < kStartBlocks ? load_words(sums, n_blocks) : load(sums);
        TSR_UNROLL
        for (int i = 0; i < kStartsOfBlock<U>; i++) {
            const int half = kStartsOfBlock<U> == 1 ? 2 : i;
            store(start + kSecondStart * i, first_halves(pairs, Pairs{broadcast4(kLessZero<U>[half])}));
        }
    }
}

/// The start of a block's sums from its sum8.
template <class U, class V>
TSR_INLINE auto lane_start(const int16_t* sums, int half) {
    const auto lanes = half == 2 ? add16(V::broadcast4(sums, 0), V::broadcast4(sums + 2, 0))
                                 : V::broadcast4(sums + 2 * half, 0);
    return mul16(lanes, broadcast_half(-U::kZero));
}

/// A tile's tokens in rows: the first token's arrays from a unit's k on, the others at a stride.
struct TileAct {
    const int8_t* q;
    const float *d, *s;
    const int16_t *sum16, *sum8;
    int64_t q_stride, d_stride;
    const int16_t* start;  // kStartsMade: of the unit's blocks, kTokenStarts a token

    /// Of token t and block b of the unit.
    TSR_INLINE const int8_t* q_at(const TileAct& x, int64_t t, int b) {
        return x.q + t * x.q_stride + kActBlock * b;
    }
    TSR_INLINE const float* d_at(const TileAct& x, int64_t t, int b) { return x.d + t * x.d_stride + b; }
    TSR_INLINE const float* s_at(const TileAct& x, int64_t t, int b) { return x.s + t * x.d_stride + b; }
    TSR_INLINE const int16_t* sum16_at(const TileAct& x, int64_t t, int b) {
        return x.sum16 + 2 * (t * x.d_stride + b);
    }
    TSR_INLINE const int16_t* sum8_at(const TileAct& x, int64_t t, int b) {
        return x.sum8 + 4 * (t * x.d_stride + b);
    }

    /// Computes the starts of unit i of n_units into `words`.
    template <class U, int Tokens>
    TSR_INLINE void open_unit(TileAct& x, int64_t i, int64_t n_units,
                              int16_t (&words)[Tokens][kTokenStarts]) {
        if constexpr (kStartsMade<U, Tokens>) {
            constexpr int kBlocks = U::Format::kBlocks, kUnits = kStartBlocks / kBlocks;
            const int64_t left = n_units - i;
            if (kUnits == 1 || i % kUnits == 0) {
                TSR_UNROLL
                for (int t = 0; t < Tokens; t++)
                    write_starts<U>(kLaneSums ? sum8_at(x, t, 0) : sum16_at(x, t, 0),
                                    (left < kUnits ? left : kUnits) * kBlocks, words[t]);
            }
            x.start = words[0] + kStartStep * (i % kUnits);
        }
    }
    template <class F>
    TSR_INLINE void close_unit(TileAct& x) {
        x.q += F::kUnitK;
        x.d += F::kBlocks;
        x.s += F::kBlocks;
        x.sum16 += 2 * F::kBlocks;
        x.sum8 += 4 * F::kBlocks;
    }
    /// The start of block b's sums where the zero-point correction comes first: -Zero times the activations'
    /// sums of both halves of the block (half = 2) or of one of them (0, 1).
    template <class U, class V, int Tokens>
    TSR_INLINE auto start_at(const TileAct& x, int64_t t, int b, int half) {
        if constexpr (kStartsMade<U, Tokens>) {
            const int at = (half == 1 ? kSecondStart : 0) + kStartStep * b;
            return V::broadcast4(x.start + kTokenStarts * t + at, kTokenStarts);
        } else if constexpr (kLaneSums) {
            return lane_start<U, V>(sum8_at(x, t, b), half);
        } else {
            return first_halves(V::broadcast4(kLessZero<U>[half], 0),
                                V::broadcast4(sum16_at(x, t, b), 2 * x.d_stride));
        }
    }
};

TSR_INLINE TileAct tile_act(const ActView& x, int64_t token, int64_t k) {
    const int64_t at = token * x.d_stride + k / kActBlock;
    return {x.q + token * x.q_stride + k,
            x.d + at,
            x.s + at,
            x.sum16 + 2 * at,
            x.sum8 + 4 * at,
            x.q_stride,
            x.d_stride,
            nullptr};
}

/// Bytes that a block of a token has in all of its arrays.
constexpr int64_t kTiledBytes = kActBlock + 4 + 4 + 4 + 8;

/// T tokens of a tile in the tiled layout (ActView), from a unit's k on: every address is a constant offset
/// from five pointers.
template <int T>
struct TiledAct {
    static constexpr int64_t q_stride = kActBlock, d_stride = 1;
    /// Prefetch distance in blocks: a tile's arrays are few enough streams for prefetch to pay off, and the
    /// next tile's arrays follow them.
    static constexpr int kAheadBlocks = 8;
    const int8_t* q;
    const float *d, *s;
    const int16_t *sum16, *sum8;
    int64_t n_tok;         // tokens that exist; the others' sums are not stored
    const int16_t* start;  // kMakes: of the unit's blocks, 4 a token and block

    TSR_INLINE const int8_t* q_at(const TiledAct& x, int64_t t, int b) {
        return x.q + kActBlock * (T * b + t);
    }
    TSR_INLINE const float* d_at(const TiledAct& x, int64_t t, int b) { return x.d + T * b + t; }
    TSR_INLINE const float* s_at(const TiledAct& x, int64_t t, int b) { return x.s + T * b + t; }
    TSR_INLINE const int16_t* sum16_at(const TiledAct& x, int64_t t, int b) {
        return x.sum16 + 2 * (T * b + t);
    }
    TSR_INLINE const int16_t* sum8_at(const TiledAct& x, int64_t t, int b) {
        return x.sum8 + 4 * (T * b + t);
    }

    /// Whether starts are computed once for all rows: a full tile's starts of one block fill a vector.
    template <class U>
    static constexpr bool kMakes = kLaneSums&& kStartsOfBlock<U> != 0 && T == kActTile;
    template <class U, int Tokens>
    TSR_INLINE void open_unit(TiledAct& x, int64_t i, int64_t n_units,
                              int16_t (&words)[Tokens][kTokenStarts]) {
        constexpr int kBlocks = U::Format::kBlocks, kUnits = kStartBlocks / kBlocks;
        if (kUnits > 1 && i % kUnits != 0) {
            if constexpr (kMakes<U>) x.start += 4 * T * kBlocks;
            return;
        }
        fetch_lines(x.d + T * kAheadBlocks);
        if constexpr (U::Format::kMin == MinKind::PerBlock) fetch_lines(x.s + T * kAheadBlocks);
        if constexpr (U::Format::kMin == MinKind::PerHalf) fetch_lines(x.sum16 + 2 * T * kAheadBlocks);
        if constexpr (kMakes<U>) {
            static_assert(4 * T * sizeof *x.sum8 == sizeof(Int));
            fetch_lines(x.sum8 + 4 * T * kAheadBlocks);
            const int64_t left = n_units - i;
            x.start = words[0];
            for (int b = 0; b < (left < kUnits ? left : kUnits) * kBlocks; b++)
                store(words[0] + 4 * T * b, starts_of_lanes<U>(load(sum8_at(x, 0, b))));
        }
    }
    /// Prefetches the array at p for 8 blocks of the tile.
    template <class At>
    TSR_INLINE void fetch_lines(const At* p) {
        constexpr int kBytes = kAheadBlocks * T * (sizeof(At) == 4 ? 4 : 8);
        const auto* bytes = reinterpret_cast<const uint8_t*>(p);
        TSR_UNROLL
        for (int line = 0; line < kBytes; line += 64) prefetch_l1(bytes + line);
    }
    /// Prefetches the block kAheadBlocks after block b.
    TSR_INLINE void prefetch_ahead(const TiledAct& x, int b) {
        TSR_UNROLL
        for (int line = 0; line < kActBlock * T; line += 64) prefetch_l1(q_at(x, 0, b + kAheadBlocks) + line);
    }
    template <class F>
    TSR_INLINE void close_unit(TiledAct& x) {
        x.q += T * F::kUnitK;
        x.d += T * F::kBlocks;
        x.s += T * F::kBlocks;
        x.sum16 += 2 * T * F::kBlocks;
        x.sum8 += 4 * T * F::kBlocks;
    }
    template <class U, class V, int>
    TSR_INLINE auto start_at(const TiledAct& x, int64_t t, int b, int half) {
        if constexpr (kMakes<U>) {
            return V::broadcast4(x.start + 4 * (T * b + t) + (half == 1 ? kSecondStart : 0), 0);
        } else {
            return lane_start<U, V>(sum8_at(x, t, b), half);
        }
    }
};

/// The tile of T tokens from `token` on, which lie side by side; n_tok of them exist.
template <int T>
TSR_INLINE TiledAct<T> tiled_act(const ActView& x, int64_t token, int64_t k, int64_t n_tok) {
    const int64_t at = token * x.d_stride + k / kActBlock * T;
    return {x.q + kActBlock * at, x.d + at, x.s + at, x.sum16 + 2 * at, x.sum8 + 4 * at, n_tok, nullptr};
}

/// Tokens of n_k k, in whole tiles, that `bytes` have room for.
TSR_INLINE int64_t tokens_in_tiles(int64_t n_k, int64_t bytes) {
    return bytes / (n_k / kActBlock * kTiledBytes) / kActTile * kActTile;
}
/// Copies tokens from rows to full tiles in `out` (64-byte aligned). The padding of the last tile is not
/// written.
template <int Tile>
[[gnu::noinline]] ActView lay_tiles(const ActView& x, int64_t n_tok, int64_t n_k, uint8_t* out) {
    const int64_t row_blocks = n_k / kActBlock, n = (n_tok + Tile - 1) / Tile * Tile * row_blocks;
    auto* q = reinterpret_cast<int8_t*>(out);
    auto *d = reinterpret_cast<float*>(q + kActBlock * n), *s = d + n;
    auto *sum16 = reinterpret_cast<int16_t*>(s + n), *sum8 = sum16 + 2 * n;
    for (int64_t t = 0; t < n_tok; t++) {
        const int64_t first = t / Tile * Tile;
        const TileAct from = tile_act(x, t, 0);
        for (int64_t b = 0, at = first * row_blocks + t - first; b < row_blocks; b++, at += Tile) {
            store(q + kActBlock * at, load(from.q + kActBlock * b));
            d[at] = from.d[b];
            s[at] = from.s[b];
            __builtin_memcpy(sum16 + 2 * at, from.sum16 + 2 * b, 4);
            __builtin_memcpy(sum8 + 4 * at, from.sum8 + 4 * b, 8);
        }
    }
    return {q, d, s, sum16, sum8, n_k, row_blocks, Tile};
}

/// The activations of a tile copied into one array, block by block: every address is a constant offset, where
/// eight tokens in rows take more pointers than there are registers.
///    block: q [T][32] int8, d [T] float, s [T] float or sum16 [T][2] if offsets or a zero-point correction
///    at the end need them, starts [kStarts][T]
template <class Unpacker, int T>
struct PackedAct {
    using U = Unpacker;
    using F = typename U::Format;
    static constexpr int kStarts = kStartsOfBlock<U>;
    static constexpr int kDAt = kActBlock * T, kMinAt = kDAt + 4 * T;
    static constexpr bool kS = F::kMin == MinKind::PerBlock;
    static constexpr bool kSum16 = F::kMin == MinKind::PerHalf || (U::kZero != 0 && !kZeroStarts<U>);
    static_assert(!kS || !kSum16, "they share a place");
    static constexpr int kStartAt = kMinAt + (kS || kSum16 ? 4 * T : 0);
    static constexpr int kBlockBytes = kStartAt + kStarts * 4 * T;
    static constexpr int64_t q_stride = kActBlock, d_stride = 1;
    const uint8_t* unit;
    int64_t n_tok;  // tokens that exist; the others' sums are not stored

    template <class At>
    TSR_INLINE const At* at(const PackedAct& x, int b, int place) {
        return reinterpret_cast<const At*>(x.unit + kBlockBytes * b + place);
    }
    TSR_INLINE const int8_t* q_at(const PackedAct& x, int64_t t, int b) {
        return at<int8_t>(x, b, kActBlock * static_cast<int>(t));
    }
    TSR_INLINE const float* d_at(const PackedAct& x, int64_t t, int b) {
        return at<float>(x, b, kDAt + 4 * static_cast<int>(t));
    }
    TSR_INLINE const float* s_at(const PackedAct& x, int64_t t, int b) {
        return at<float>(x, b, kMinAt + 4 * static_cast<int>(t));
    }
    TSR_INLINE const int16_t* sum16_at(const PackedAct& x, int64_t t, int b) {
        return at<int16_t>(x, b, kMinAt + 4 * static_cast<int>(t));
    }
    template <class, int Tokens>
    TSR_INLINE void open_unit(PackedAct&, int64_t, int64_t, int16_t (&)[Tokens][kTokenStarts]) {}
    template <class>
    TSR_INLINE void close_unit(PackedAct& x) {
        x.unit += kBlockBytes * F::kBlocks;
    }
    template <class, class V, int>
    TSR_INLINE auto start_at(const PackedAct& x, int64_t t, int b, int half) {
        return V::broadcast4(at<int16_t>(x, b, kStartAt + 4 * T * (half == 1) + 4 * static_cast<int>(t)), 0);
    }
};

/// Bytes of a token in it for one block.
template <class U>
constexpr int kPackedActBytes = PackedAct<U, 1>::kBlockBytes;

/// Writes n_tok tokens' n_blocks to out as PackedAct<U, tile> has them.
template <class U>
[[gnu::noinline, TSR_NO_CLONES]] void pack_activations(TileAct x, int64_t n_tok, int64_t tile,
                                                       int64_t n_blocks, uint8_t* out) {
    using One = PackedAct<U, 1>;
    alignas(32) int16_t start[kTokenStarts];
    for (int64_t t = 0; t < n_tok; t++) {
        const int8_t* q = x.q + t * x.q_stride;
        const float *d = TileAct::d_at(x, t, 0), *s = TileAct::s_at(x, t, 0);
        const int16_t* sum16 = TileAct::sum16_at(x, t, 0);
        [[maybe_unused]] const int16_t* sums = kLaneSums ? TileAct::sum8_at(x, t, 0) : sum16;
        for (int64_t b = 0; b < n_blocks; b++) {
            uint8_t* block = out + kPackedActBytes<U> * tile * b;
            store(block + kActBlock * t, load(q + kActBlock * b));
            uint8_t* to = block + One::kDAt * tile + 4 * t;
            __builtin_memcpy(to, d + b, 4);
            to += 4 * tile;
            if constexpr (One::kS) __builtin_memcpy(to, s + b, 4);
            if constexpr (One::kSum16) __builtin_memcpy(to, sum16 + 2 * b, 4);
            to += (One::kStartAt - One::kMinAt) * tile;
            if constexpr (One::kStarts != 0) {
                const int64_t i = b % kStartBlocks, left = n_blocks - b;
                if (i == 0)
                    write_starts<U>(sums + kStartSums * b, left < kStartBlocks ? left : kStartBlocks, start);
                for (int h = 0; h < One::kStarts; h++, to += 4 * tile)
                    __builtin_memcpy(to, start + kSecondStart * h + kStartStep * i, 4);
            }
        }
    }
}

}  // namespace
}  // namespace tessera::kernels
