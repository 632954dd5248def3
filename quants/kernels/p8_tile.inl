// The product of packed weights and quantized activations: one body for every type, for decode and for
// prefill. R vectors of 8 rows times T tokens, k rising in blocks of 32, in the order of docs/numerics.md. A
// Source hands out operands and scales: Stream straight from packed units (few tokens), Panel from units
// unpacked once (many tokens). Over the verbs and Unpack of the unit that includes this.
namespace tessera::kernels {
namespace {

/// Tokens of one panel tile: 2 x kTile sums of halfwords, two operands, one activation and one product fill
/// 16 registers.
constexpr int kTile = 4;
/// Tokens up to which unpacking in registers beats unpacking into a panel.
constexpr int kStreamTokens = 4;
/// k per panel: the panel stays below 160 KiB, in half of a small L2 cache.
constexpr int kPanelUnitsK = 4096;
/// The same where few tokens share it: then it had better stay in the first cache.
constexpr int kFewTokens = 32, kFewPanelK = 512;
/// How far a stream is fetched ahead of its use.
constexpr int kAheadBytes = 1536;

/// What a tile reads of its tokens: the first one's arrays from the first unit's k on; the rest by stride.
struct TileAct {
    const int8_t* q;
    const float* d;
    const float* s;
    const int16_t* sum16;
    int64_t q_stride, d_stride;
};

TSR_INLINE TileAct tile_act(const ActView& x, int64_t token, int64_t k) {
    const int64_t at = token * x.d_stride + k / kActBlock;
    return {x.q + token * x.q_stride + k, x.d + at, x.s + at, x.sum16 + 2 * at, x.q_stride, x.d_stride};
}

/// R groups' packed units, side by side in memory.
template <class F, int R>
struct Stream {
    using U = Unpack<F>;
    const uint8_t* unit;  // of the first group
    int64_t group_bytes;
    const uint8_t* end;   // of the first group
    int64_t next_groups;  // from there to the group that this stream reads next
    typename U::Head head[R];
    const uint8_t* block;

    /// Fetches what lies kAheadBytes behind the n bytes at p of each group; past a group's end that is the
    /// start of the group that its stream reads next.
    TSR_INLINE void fetch(const Stream& s, const uint8_t* p, int n) {
        const uint8_t* ahead = p + kAheadBytes;
        if (ahead >= s.end) ahead += s.next_groups;
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            TSR_UNROLL
            for (int at = 0; at < n; at += 64) prefetch(ahead + r * s.group_bytes + at);
        }
    }
    TSR_INLINE void open_unit(Stream& s) {
        fetch(s, s.unit, F::kSuper ? F::kHeadBytes : F::kUnitBytes);
        TSR_UNROLL
        for (int r = 0; r < R; r++) U::open(s.unit + r * s.group_bytes, s.head[r]);
    }
    TSR_INLINE void open_block(Stream& s, int b) {
        s.block = s.unit + codes_at<F>(b);
        if constexpr (F::kSuper) fetch(s, s.block, 32 * F::kBits);
    }
    TSR_INLINE void close_block(Stream&) {}
    TSR_INLINE void close_unit(Stream& s) { s.unit += F::kUnitBytes; }

    TSR_INLINE Int operand(const Stream& s, int r, int g, int plane) {
        return U::operand(s.block + r * s.group_bytes, g, plane);
    }
    TSR_INLINE Int scale(const Stream& s, int r, int b, int i) {
        return U::scale(s.unit + r * s.group_bytes, s.head[r], b, i);
    }
    TSR_INLINE Int zero(const Stream& s, int r, int b) {
        return U::zero(s.unit + r * s.group_bytes, s.head[r], b);
    }
    TSR_INLINE Flt min(const Stream& s, int r, int b) {
        return U::min(s.unit + r * s.group_bytes, s.head[r], b);
    }
    TSR_INLINE Int min_halves(const Stream& s, int r, int b) {
        return U::min_halves(s.unit + r * s.group_bytes, s.head[r], b);
    }
    TSR_INLINE Flt d(const Stream& s, int r) { return U::d(s.unit + r * s.group_bytes); }
    TSR_INLINE Flt dmin(const Stream& s, int r) { return load_f16(s.unit + r * s.group_bytes + F::kMinAt); }
};

/// Units of 2 groups laid out by write_panel: vectors of 32 bytes in the order of their use.
///     block: operand [kPlanes][8][2], scale [kScales][2], zero [2], min [2]; behind a unit: d [2], dmin [2]
template <class F>
struct Panel {
    using U = Unpack<F>;
    static constexpr int kScaleAt = 512 * U::kPlanes;
    static constexpr int kZeroAt = kScaleAt + 64 * U::kScales;
    static constexpr int kMinAt = kZeroAt + (U::kZeroScaled ? 64 : 0);
    static constexpr int kBlockBytes = kMinAt + (F::kMin != MinKind::None ? 64 : 0);
    static constexpr int kUnitBytes = F::kBlocks * kBlockBytes + 64 + (F::kMin == MinKind::PerHalf ? 64 : 0);
    const uint8_t* at;

    TSR_INLINE const uint8_t* unit_part(const Panel& p) { return F::kSuper ? p.at : p.at + kBlockBytes; }

    TSR_INLINE void open_unit(Panel&) {}
    TSR_INLINE void open_block(Panel&, int) {}
    TSR_INLINE void close_block(Panel& p) {
        if constexpr (F::kSuper) p.at += kBlockBytes;
    }
    TSR_INLINE void close_unit(Panel& p) {
        p.at += F::kSuper ? kUnitBytes - F::kBlocks * kBlockBytes : kUnitBytes;
    }

    TSR_INLINE Int operand(const Panel& p, int r, int g, int plane) {
        return load(p.at + 512 * plane + 64 * g + 32 * r);
    }
    TSR_INLINE Int scale(const Panel& p, int r, int, int i) {
        return load(p.at + kScaleAt + 64 * i + 32 * r);
    }
    TSR_INLINE Int zero(const Panel& p, int r, int) { return load(p.at + kZeroAt + 32 * r); }
    TSR_INLINE Int min_halves(const Panel& p, int r, int) { return load(p.at + kMinAt + 32 * r); }
    TSR_INLINE Flt min(const Panel& p, int r, int) { return floats(p.at + kMinAt + 32 * r); }
    TSR_INLINE Flt d(const Panel& p, int r) { return floats(unit_part(p) + 32 * r); }
    TSR_INLINE Flt dmin(const Panel& p, int r) { return floats(unit_part(p) + 64 + 32 * r); }
    TSR_INLINE Flt floats(const uint8_t* p) { return load_float(reinterpret_cast<const float*>(p)); }
};

/// R neighbouring groups from unit `first` on.
template <class F, int R>
TSR_INLINE Stream<F, R> open_stream(const uint8_t* group, int64_t group_bytes, int64_t first) {
    return {group + first * F::kUnitBytes, group_bytes, group + group_bytes,
            (R - 1) * group_bytes,         {},          nullptr};
}

/// Unpacks n_units of two groups.
template <class F>
[[gnu::noinline]] void write_panel(Stream<F, 2> s, int64_t n_units, uint8_t* out) {
    using U = Unpack<F>;
    using P = Panel<F>;
    using S = Stream<F, 2>;
    for (int64_t i = 0; i < n_units; i++) {
        S::open_unit(s);
        for (int b = 0; b < F::kBlocks; b++, out += P::kBlockBytes) {
            S::open_block(s, b);
            TSR_UNROLL
            for (int r = 0; r < 2; r++) {
                uint8_t* to = out + 32 * r;
                TSR_UNROLL
                for (int i8 = 0; i8 < 8 * U::kPlanes; i8++)
                    store(to + 64 * i8, S::operand(s, r, i8 % 8, i8 / 8));
                TSR_UNROLL
                for (int j = 0; j < U::kScales; j++) store(to + P::kScaleAt + 64 * j, S::scale(s, r, b, j));
                if constexpr (U::kZeroScaled) store(to + P::kZeroAt, S::zero(s, r, b));
                if constexpr (F::kMin == MinKind::PerBlock) {
                    store_float(reinterpret_cast<float*>(to + P::kMinAt), S::min(s, r, b));
                }
                if constexpr (F::kMin == MinKind::PerHalf) store(to + P::kMinAt, S::min_halves(s, r, b));
            }
        }
        TSR_UNROLL
        for (int r = 0; r < 2; r++) {
            store_float(reinterpret_cast<float*>(out + 32 * r), S::d(s, r));
            if constexpr (F::kMin == MinKind::PerHalf) {
                store_float(reinterpret_cast<float*>(out + 64 + 32 * r), S::dmin(s, r));
            }
        }
        out += P::kUnitBytes - F::kBlocks * P::kBlockBytes;
        S::close_unit(s);
    }
}

/// sum[t][r] = the exact integer sums of one block.
template <class F, int R, int T, class Source>
TSR_INLINE void block_sums(const Source& s, int b, const int8_t* q, const int16_t* sum16, const TileAct& x,
                           Int (&sum)[T][R]) {
    using U = Unpack<F>;
    constexpr int kLargest = U::kPlanes == 2 ? 15 : largest_operand<F>();
    static_assert(2 * U::kDepth * kLargest * 127 <= 32767, "the sum of kDepth groups must fit a halfword");
    // Both planes in one pass where their sums fit the registers: the codes are then unpacked once.
    constexpr int kTogether = U::kPlanes == 2 && R * T <= 4 ? 2 : 1;
    constexpr int kPasses = 8 / U::kDepth * U::kPlanes / kTogether;
    TSR_UNROLL
    for (int pass = 0; pass < kPasses; pass++) {
        const int first = U::kPlanes == 2 ? 0 : pass * U::kDepth, plane = U::kPlanes == 2 ? pass : 0;
        Int part[kTogether][T][R];
        TSR_UNROLL
        for (int i = 0; i < U::kDepth; i++) {
            const int g = U::group(first + i);
            Int w[kTogether][R];
            TSR_UNROLL
            for (int p = 0; p < kTogether; p++) {
                TSR_UNROLL
                for (int r = 0; r < R; r++) w[p][r] = Source::operand(s, r, g, plane + p);
            }
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const Int a = splat4(q + t * x.q_stride + 4 * g);
                TSR_UNROLL
                for (int p = 0; p < kTogether; p++) {
                    TSR_UNROLL
                    for (int r = 0; r < R; r++) {
                        const Int product = dot_bytes(w[p][r], a);
                        part[p][t][r] = i == 0 ? product : add16(part[p][t][r], product);
                        pin(part[p][t][r]);
                    }
                }
            }
        }
        TSR_UNROLL
        for (int p = 0; p < kTogether; p++) {
            TSR_UNROLL
            for (int r = 0; r < R; r++) {
                const int i = U::kPlanes == 2 ? plane + p : U::kScales == 2 ? first / 4 : 0;
                const Int scale = U::kScales != 0 ? Source::scale(s, r, b, i) : splat_half(i == 0 ? 1 : 16);
                TSR_UNROLL
                for (int t = 0; t < T; t++) {
                    const Int scaled = dot_halves(part[p][t][r], scale);
                    sum[t][r] = pass + p == 0 ? scaled : add32(sum[t][r], scaled);
                }
            }
        }
    }
    if constexpr (F::kZero != 0) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            const Int zero = U::kZeroScaled ? Source::zero(s, r, b) : splat_half(F::kZero);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                sum[t][r] = sub32(sum[t][r], dot_halves(zero, splat4(sum16 + 2 * t * x.d_stride)));
            }
        }
    }
}

/// A unit of float scales: one block.
template <class F, int R, int T, class Source>
TSR_INLINE void add_plain(const Source& s, const TileAct& x, Flt (&total)[T][R]) {
    Int sum[T][R];
    block_sums<F, R, T>(s, 0, x.q, x.sum16, x, sum);
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        const Flt d = Source::d(s, r);
        TSR_UNROLL
        for (int t = 0; t < T; t++) {
            const Flt scale = mul(d, splat_float(x.d + t * x.d_stride));
            total[t][r] = add_product(total[t][r], to_float(sum[t][r]), scale);
        }
        if constexpr (F::kMin == MinKind::PerBlock) {
            const Flt min = Source::min(s, r, 0);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                total[t][r] = add_product(total[t][r], min, splat_float(x.s + t * x.d_stride));
            }
        }
    }
}

/// A unit of 8 blocks with integer scales.
template <class F, int R, int T, class Source>
TSR_INLINE void add_super(Source& s, const TileAct& x, Flt (&total)[T][R]) {
    Flt product[T][R], low[T][R];
    TSR_UNROLL
    for (int t = 0; t < T; t++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) product[t][r] = low[t][r] = no_float();
    }
    for (int b = 0; b < F::kBlocks; b++) {
        Source::open_block(s, b);
        Int sum[T][R];
        block_sums<F, R, T>(s, b, x.q + 32 * b, x.sum16 + 2 * b, x, sum);
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const Flt scale = splat_float(x.d + t * x.d_stride + b);
                product[t][r] = add_product(product[t][r], to_float(sum[t][r]), scale);
            }
            if constexpr (F::kMin == MinKind::PerBlock) {
                const Flt min = Source::min(s, r, b);
                TSR_UNROLL
                for (int t = 0; t < T; t++) {
                    total[t][r] = sub_product(total[t][r], min, splat_float(x.s + t * x.d_stride + b));
                }
            }
            if constexpr (F::kMin == MinKind::PerHalf) {
                const Int min = Source::min_halves(s, r, b);
                TSR_UNROLL
                for (int t = 0; t < T; t++) {
                    const Int lows = dot_halves(min, splat4(x.sum16 + 2 * (t * x.d_stride + b)));
                    low[t][r] = add_product(low[t][r], to_float(lows), splat_float(x.d + t * x.d_stride + b));
                }
            }
        }
        Source::close_block(s);
    }
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        const Flt d = Source::d(s, r);
        TSR_UNROLL
        for (int t = 0; t < T; t++) total[t][r] = add_product(total[t][r], product[t][r], d);
        if constexpr (F::kMin == MinKind::PerHalf) {
            const Flt dmin = Source::dmin(s, r);
            TSR_UNROLL
            for (int t = 0; t < T; t++) total[t][r] = sub_product(total[t][r], low[t][r], dmin);
        }
    }
}

/// y[t][8r..] (+)= the product over n_units. resume: y holds the sum of the units before.
template <class F, int R, int T, class Source>
[[gnu::noinline]] void tile(Source s, int64_t n_units, TileAct x, float* y, int64_t y_stride, bool resume) {
    Flt total[T][R];
    TSR_UNROLL
    for (int t = 0; t < T; t++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) total[t][r] = resume ? load_float(y + t * y_stride + 8 * r) : no_float();
    }
    for (int64_t i = 0; i < n_units; i++) {
        Source::open_unit(s);
        if constexpr (F::kSuper) {
            add_super<F, R, T>(s, x, total);
        } else {
            Source::open_block(s, 0);
            add_plain<F, R, T>(s, x, total);
        }
        Source::close_unit(s);
        x.q += F::kUnitK;
        x.d += F::kBlocks;
        x.s += F::kBlocks;
        x.sum16 += 2 * F::kBlocks;
    }
    TSR_UNROLL
    for (int t = 0; t < T; t++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) store_float(y + t * y_stride + 8 * r, total[t][r]);
    }
}

/// The groups from `row` on, R at a time while that many are complete, for the T tokens from `token` on; y is
/// where row 0 of the first of them goes. Returns the first row that is left.
template <class F, int R, int T>
int64_t stream_groups(const PackedMatmulArgs& a, int64_t row, int64_t token, float* y, int64_t y_stride) {
    const int64_t n_units = a.n_k / F::kUnitK, group_bytes = n_units * F::kUnitBytes;
    for (; row + kGroupRows * R <= a.n_rows; row += kGroupRows * R) {
        const uint8_t* group = static_cast<const uint8_t*>(a.w) + row / kGroupRows * group_bytes;
        tile<F, R, T>(open_stream<F, R>(group, group_bytes, 0), n_units, tile_act(a.x, token, 0), y + row,
                      y_stride, false);
    }
    return row;
}

/// The rows from `row` on for T tokens, the matrix's last and incomplete group included.
template <class F, int T>
void stream_rows(const PackedMatmulArgs& a, int64_t row, int64_t token) {
    // Four streams keep the memory busy; more sums than 8 would leave the registers.
    constexpr int kGroups = T <= 2 ? 4 : 2;
    float* y = a.y + token * a.y_stride;
    row = stream_groups<F, kGroups, T>(a, row, token, y, a.y_stride);
    row = stream_groups<F, 1, T>(a, row, token, y, a.y_stride);
    if (row == a.n_rows) return;
    float last[T * kGroupRows];
    PackedMatmulArgs rest = a;
    rest.w = static_cast<const uint8_t*>(a.w) + row / kGroupRows * (a.n_k / F::kUnitK * F::kUnitBytes);
    rest.n_rows = kGroupRows;
    stream_groups<F, 1, T>(rest, 0, token, last, kGroupRows);
    for (int t = 0; t < T; t++) {
        for (int64_t r = row; r < a.n_rows; r++) y[t * a.y_stride + r] = last[t * kGroupRows + r - row];
    }
}

/// The rows from `row` on for the tokens from `token` on, kStreamTokens at a time.
template <class F>
void stream_tokens(const PackedMatmulArgs& a, int64_t row) {
    int64_t token = 0;
    for (; token + 4 <= a.n_tok; token += 4) stream_rows<F, 4>(a, row, token);
    switch (a.n_tok - token) {
        case 3:
            stream_rows<F, 3>(a, row, token);
            break;
        case 2:
            stream_rows<F, 2>(a, row, token);
            break;
        case 1:
            stream_rows<F, 1>(a, row, token);
            break;
        default:
            break;
    }
}

/// 16 rows times all tokens, their weights unpacked once.
template <class F>
void panel_rows(const PackedMatmulArgs& a, int64_t row) {
    const int64_t n_units = a.n_k / F::kUnitK, group_bytes = n_units * F::kUnitBytes;
    const uint8_t* group = static_cast<const uint8_t*>(a.w) + row / kGroupRows * group_bytes;
    uint8_t* panel = static_cast<uint8_t*>(a.scratch);
    constexpr int64_t kChunk = kPanelUnitsK / F::kUnitK;
    const int64_t chunk = a.n_tok <= kFewTokens ? kFewPanelK / F::kUnitK : kChunk;
    static_assert(kChunk * Panel<F>::kUnitBytes <= static_cast<int64_t>(kPackedScratchBytes));
    for (int64_t first = 0; first < n_units; first += chunk) {
        const int64_t count = n_units - first < chunk ? n_units - first : chunk;
        write_panel<F>(open_stream<F, 2>(group, group_bytes, first), count, panel);
        const auto run = [&]<int T>(int64_t token) {
            const TileAct x = tile_act(a.x, token, first * F::kUnitK);
            tile<F, 2, T>(Panel<F>{panel}, count, x, a.y + token * a.y_stride + row, a.y_stride, first != 0);
        };
        int64_t token = 0;
        for (; token + kTile <= a.n_tok; token += kTile) run.template operator()<kTile>(token);
        const int64_t rest = a.n_tok - token;
        if (rest == 3) run.template operator()<3>(token);
        if (rest == 2) run.template operator()<2>(token);
        if (rest == 1) run.template operator()<1>(token);
    }
}

template <class F>
void packed_matmul(const PackedMatmulArgs& a) {
    int64_t row = 0;
    if (a.n_tok > kStreamTokens) {
        for (; row + 2 * kGroupRows <= a.n_rows; row += 2 * kGroupRows) panel_rows<F>(a, row);
    }
    if (row < a.n_rows) stream_tokens<F>(a, row);
}

}  // namespace
}  // namespace tessera::kernels
