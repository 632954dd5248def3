// The product of weights that fill a byte, where products of bytes would overflow a halfword (AVX2): panels
// of halfwords times activations widened to halfwords take a multiplication less a weight than two planes of
// bytes. For many tokens only; few go through the byte planes of p8_matmul.inl, which this follows. Over the
// verbs of the unit that includes this and those of its halves.h.
namespace tessera::kernels {
namespace {

/// A type's units as planes of halfwords: plane p of a group has its k = 2 p and 2 p + 1. Weights come times
/// their integer scales, which no product needs then.
template <class F>
struct UnpackHalves : Unpack<F> {
    static constexpr int kPlanes = 2, kZero = 0, kScales = 0;
    static constexpr bool kZeroScaled = false, kOpensBlocks = F::kSuper;
    struct Head : Unpack<F>::Head {
        const uint8_t* block;
        Int factor;
    };
    TSR_INLINE Int operand(const uint8_t* block, int g, int plane) {
        return widened(Unpack<F>::weight(block, g), plane);
    }
    TSR_INLINE void open_block(const uint8_t* unit, int b, Head& head) {
        head.block = unit + codes_at<F>(b);
        head.factor = load_i8_factors(head.scale + 8 * b);
    }
    TSR_INLINE Int operand(const Head& head, int g, int plane) {
        return widened(Unpack<F>::weight(head.block, g), plane, head.factor);
    }
};

template <class F>
using HalfPanel = Panel<UnpackHalves<F>, OwnVectors>;

/// T tokens whose k are widened, as block [T][32] int16: every place is a constant, and a few k lie close
/// together. The rest lies as it does.
template <int T>
struct HalfAct : TileAct {
    static constexpr int64_t kTokenBytes = kActBlock * 2, kBlockBytes = T * kTokenBytes;
    int8_t* wide;

    TSR_INLINE const int8_t* wide_at(const HalfAct& x, int t, int b) {
        return x.wide + kBlockBytes * b + kTokenBytes * t;
    }
    template <class F>
    TSR_INLINE void close_unit(HalfAct& x) {
        TileAct::close_unit<F>(x);
        x.wide += kBlockBytes * F::kBlocks;
    }

    /// Widens n_blocks. Those of n_next tokens behind these are fetched: they lie a row of activations apart,
    /// which no processor sees coming.
    TSR_INLINE void widen(const HalfAct& x, int64_t n_blocks, int64_t n_next) {
        for (int t = 0; t < T; t++) {
            for (int64_t b = 0; b < n_blocks; b++) {
                const int8_t* q = x.q + t * x.q_stride + kActBlock * b;
                int8_t* to = x.wide + kBlockBytes * b + kTokenBytes * t;
                store(to, load_i8_halves(q));
                store(to + kTokenBytes / 2, load_i8_halves(q + kActBlock / 2));
            }
        }
        for (int64_t t = T; t < T + n_next; t++) {
            for (int64_t i = 0; i < n_blocks * kActBlock; i += 64) prefetch(x.q + t * x.q_stride + i);
        }
    }
};

/// sum[t][r] = the exact sums of block b; of activations of 2 bytes.
template <int R, int T, class Source>
TSR_INLINE void half_sums(const Source& s, int b, const HalfAct<T>& x, Sum (&sum)[T][R]) {
    TSR_UNROLL
    for (int i = 0; i < 16; i++) {
        Int w[R];
        TSR_UNROLL
        for (int r = 0; r < R; r++) w[r] = Source::operand(s, r, i / 2, i % 2);
        TSR_UNROLL
        for (int t = 0; t < T; t++) {
            const Int a = splat4(HalfAct<T>::wide_at(x, t, b) + 4 * i);
            Int product[R];  // all of them before the sums, as add_dots has them
            TSR_UNROLL
            for (int r = 0; r < R; r++) {
                product[r] = dot_halves(w[r], a);
                pin(product[r]);
            }
            TSR_UNROLL
            for (int r = 0; r < R; r++) {
                sum[t][r] = i == 0 ? product[r] : add32(sum[t][r], product[r]);
                pin(sum[t][r]);
            }
        }
    }
}

template <class F, int R, int T>
TSR_INLINE void block_sums(const HalfPanel<F>& s, int, int b, const HalfAct<T>& x, Sum (&sum)[T][R]) {
    half_sums(s, b, x, sum);
}
template <class F, int R, int T>
TSR_INLINE void block_sums(const Filling<HalfPanel<F>>& s, int, int b, const HalfAct<T>& x,
                           Sum (&sum)[T][R]) {
    half_sums(s, b, x, sum);
}

/// Tokens and k that are widened at a time: 256 KiB, read by all rows while they are in L2, where a stretch
/// of four tokens and the panel stay in L1.
constexpr int64_t kHalfTokens = 256, kHalfK = 512;

/// What of the scratch activations take; the panel is behind.
constexpr int64_t kHalfActBytes = kHalfTokens * kHalfK * 2;

/// Panels of the rows 0 .. n_rows times the activations from `token` on, of `count` units from `first` on.
/// The first rows' tiles widen the tokens that they come to.
template <class F>
void half_panels(const PackedMatmulArgs& a, int64_t n_rows, int64_t first, int64_t count, int64_t token,
                 int64_t n_tok) {
    using P = HalfPanel<F>;
    static_assert(kHalfActBytes + kHalfK / F::kUnitK * P::kUnitBytes <=
                  static_cast<int64_t>(kPackedScratchBytes));
    auto* wide = static_cast<int8_t*>(a.scratch);
    uint8_t* panel = static_cast<uint8_t*>(a.scratch) + kHalfActBytes;
    for (int64_t row = 0; row < n_rows; row += 2 * kGroupRows) {
        const PackedUnits units = panel_units<F>(a, row, 2, first);
        each_tile<OwnVectors::kTile>(n_tok, [&]<int T>(int64_t t) {
            const int64_t n_blocks = count * F::kBlocks, rest = n_tok - t - T;
            const HalfAct<T> x{tile_act(a.x, token + t, first * F::kUnitK),
                               wide + t * n_blocks * HalfAct<T>::kTokenBytes};
            if (row == 0) HalfAct<T>::widen(x, n_blocks, rest < T ? rest : T);
            float* y = a.y + (token + t) * a.y_stride + row;
            if (t == 0) {
                tile<F, 2, T, Filling<P>>({units, panel}, count, x, y, a.y_stride, first != 0);
            } else {
                tile<F, 2, T, P>(panel, count, x, y, a.y_stride, first != 0);
            }
        });
    }
}

/// Up to this many tokens go through the planes of bytes.
constexpr int kHalfFewTokens = 3;

/// packed_matmul of p8_matmul.inl for these types.
template <class F>
void packed_matmul_halves(const PackedMatmulArgs& a) {
    if (a.n_tok <= kHalfFewTokens) return stream_rows<F>(a, 0);
    const int64_t n_rows = a.n_rows / (2 * kGroupRows) * (2 * kGroupRows);
    for (int64_t token = 0; token < a.n_tok && n_rows != 0; token += kHalfTokens) {
        const int64_t n_tok = a.n_tok - token < kHalfTokens ? a.n_tok - token : kHalfTokens;
        for (int64_t k = 0; k < a.n_k; k += kHalfK) {
            const int64_t n_k = a.n_k - k < kHalfK ? a.n_k - k : kHalfK;
            half_panels<F>(a, n_rows, k / F::kUnitK, n_k / F::kUnitK, token, n_tok);
        }
    }
    if (n_rows < a.n_rows) stream_rows<F>(a, n_rows);
}

}  // namespace
}  // namespace tessera::kernels
