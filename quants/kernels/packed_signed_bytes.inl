// Products of weights that fill a byte, on AVX2, where the sum of two products of bytes would overflow a
// halfword: one product at a time of the weights' magnitudes and of activations with the weights' signs, at
// most 2 x 128 x 128, is widened to words at once. Included after packed_gemm.inl, over the operations of the
// unit that includes both.
namespace tessera::kernels {
namespace {

template <class P>
struct UnpackAndStoreSigned;

/// Units of two groups. Activations are negated by inverting their bits, which is one too little for each;
/// the missing part is the same for all tokens, and every sum starts with it. Zen 3 inverts on four ports,
/// and multiplies by a sign (with_signs) on two.
///    block: 8 of size [2], mask [2]; rest [2], scale [2] if the type has one; after a unit: d [2]
template <class Unpacker>
struct SignPanel {
    using Unpacking = UnpackAndStoreSigned<SignPanel>;
    using U = Unpacker;
    using F = typename U::Format;
    using V = NativeVec;
    static_assert(F::kMin == MinKind::None && U::kScales <= 1 && !U::kZeroScaled);
    static constexpr int kGroups = 2, kPair = 64;  // bytes of two vectors
    static constexpr int kRestAt = 16 * kPair, kScaleAt = kRestAt + kPair;
    static constexpr int kBlockBytes = kScaleAt + U::kScales * kPair;
    static constexpr int kFloatAt = F::kBlocks * kBlockBytes, kUnitBytes = kFloatAt + kPair;
    static constexpr bool kOffsetsFirst = true, kGroupsApart = false;
    /// The first tile unpacks the panel whatever its size: write_panel does not write this layout.
    static constexpr bool kUnpacksInAnyTile = true;
    using Start = const uint8_t*;
    const uint8_t *unit, *block;

    TSR_INLINE void start(SignPanel& p, const uint8_t* panel) { p.unit = panel; }
    TSR_INLINE void open_unit(SignPanel& p) { p.block = p.unit; }
    TSR_INLINE void open_block(SignPanel&, int) {}
    TSR_INLINE void close_block(SignPanel& p) { p.block += kBlockBytes; }
    TSR_INLINE void close_unit(SignPanel& p) { p.unit += kUnitBytes; }

    static constexpr int size_at(int r, int g) { return 2 * kPair * g + 32 * r; }
    TSR_INLINE Int size(const SignPanel& p, int r, int g) { return load(p.block + size_at(r, g)); }
    TSR_INLINE Int mask(const SignPanel& p, int r, int g) { return load(p.block + size_at(r, g) + kPair); }
    TSR_INLINE Int rest(const SignPanel& p, int r) { return load(p.block + kRestAt + 32 * r); }
    TSR_INLINE Int scale(const SignPanel& p, int r) { return load(p.block + kScaleAt + 32 * r); }
    TSR_INLINE Flt d(const SignPanel& p, int r) {
        return load_float(reinterpret_cast<const float*>(p.unit + kFloatAt + 32 * r));
    }
};

/// A SignPanel and its packed units: each block is unpacked to the panel before the first tile reads it
/// there.
template <class P>
struct UnpackAndStoreSigned : P {
    using U = typename P::U;
    using Units = Stream<U, 2>;
    struct Start {
        PackedUnits units;
        uint8_t* panel;
    };
    Units units;
    uint8_t* to;

    TSR_INLINE void start(UnpackAndStoreSigned& s, const Start& start) {
        Units::start(s.units, start.units);
        P::start(s, start.panel);
        s.to = start.panel;
    }
    TSR_INLINE void open_unit(UnpackAndStoreSigned& s) {
        Units::open_unit(s.units);
        P::open_unit(s);
        TSR_UNROLL
        for (int r = 0; r < 2; r++)
            store_float(reinterpret_cast<float*>(s.to + P::kFloatAt + 32 * r), Units::d(s.units, r));
    }
    TSR_INLINE void open_block(UnpackAndStoreSigned& s, int b) {
        Units::open_block(s.units, b);
        TSR_UNROLL
        for (int r = 0; r < 2; r++) unpack_block(s, r, b, s.to + P::kBlockBytes * b);
    }
    TSR_INLINE void unpack_block(const UnpackAndStoreSigned& s, int r, int b, uint8_t* to) {
        Int sum = none();
        TSR_UNROLL
        for (int g = 0; g < 8; g++) {
            const Int w = Units::operand(s.units, r, g), size = sizes(w), mask = where_negative(w);
            store(to + P::size_at(r, g), size);
            store(to + P::size_at(r, g) + P::kPair, mask);
            sum = add16(sum, dot_bytes(both(size, mask), broadcast_byte(1)));
        }
        Int scale = broadcast_scale(1);
        if constexpr (U::kScales != 0) {
            scale = Units::scale(s.units, r, b, 0);
            store(to + P::kScaleAt + 32 * r, scale);
        }
        store(to + P::kRestAt + 32 * r, scaled(sum, scale));
    }
    TSR_INLINE void close_unit(UnpackAndStoreSigned& s) {
        Units::close_unit(s.units);
        P::close_unit(s);
        s.to += P::kUnitBytes;
    }
};

template <class F>
requires(Unpack<F>::kBySigns) struct PanelChoice<F, NativeVec> {
    using Choice = SignPanel<Unpack<F>>;
};

template <class Source>
TSR_INLINE void add_or_start(const Source& s, int r, bool starts, Int product, Sum& sum) {
    sum = add32(starts ? Source::rest(s, r) : sum, product);
    pin(sum);
}

/// A panel's sums of block b. Each addition comes a few products after its own: additions whose operands are
/// ready take a multiplication's port less often.
template <int R, int T, class Source, class Acts>
TSR_INLINE void panel_sums(const Source& s, int b, const Acts& x, Sum (&sum)[T][R]) {
    using U = typename Source::U;
    constexpr int kTile = R * T, kBehind = U::kScales != 0 ? 2 : 3, kLag = kBehind < kTile ? kBehind : kTile;
    Int scale[R], size[R], product[2][kTile];
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        scale[r] = broadcast_scale(1);
        if constexpr (U::kScales != 0) scale[r] = Source::scale(s, r);
    }
    TSR_UNROLL
    for (int g = 0; g < 8; g++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) size[r] = Source::size(s, r, g);
        TSR_UNROLL
        for (int t = 0; t < T; t++) {
            forget_loads();  // there are no registers for masks
            Act a = act_group(Acts::q_at(x, t, b), g);
            pin(a);
            TSR_UNROLL
            for (int r = 0; r < R; r++) {
                Int p = differ(a, Source::mask(s, r, g));
                pin(p);
                p = dot_bytes(size[r], p);
                pin(p);
                p = scaled(p, scale[r]);
                pin(p);
                const int i = R * t + r, from = (kTile + i - kLag) % kTile, of = i < kLag ? g - 1 : g;
                product[g % 2][i] = p;
                if (of >= 0)
                    add_or_start(s, from % R, of == 0, product[of % 2][from], sum[from / R][from % R]);
            }
        }
    }
    TSR_UNROLL
    for (int i = kTile - kLag; i < kTile; i++)
        add_or_start(s, i % R, false, product[1][i], sum[i / R][i % R]);
}

/// The same for a stream, whose few tokens do not pay for masks.
template <int R, int T, class Source, class Acts>
TSR_INLINE void stream_sums(const Source& s, int at, int b, const Acts& x, Sum (&sum)[T][R]) {
    using U = typename Source::U;
    Int scale[R];
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        scale[r] = broadcast_scale(1);
        if constexpr (U::kScales != 0) scale[r] = Source::scale(s, at + r, b, 0);
    }
    TSR_UNROLL
    for (int g = 0; g < 8; g++) {
        Int w[R], size[R];
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            w[r] = Source::operand(s, at + r, g);
            size[r] = sizes(w[r]);
        }
        TSR_UNROLL
        for (int t = 0; t < T; t++) {
            const Act a = act_group(Acts::q_at(x, t, b), g);
            TSR_UNROLL
            for (int r = 0; r < R; r++) {
                Int p = scaled(dot_bytes(size[r], with_signs(a, w[r])), scale[r]);
                pin(p);
                sum[t][r] = g == 0 ? p : add32(sum[t][r], p);
                pin(sum[t][r]);
            }
        }
    }
}

/// block_sums of these types.
template <class F, int R, int T, class Source, class Acts>
requires(Source::U::kBySigns) TSR_INLINE
    void block_sums(const Source& s, int at, int b, const Acts& x, typename Source::V::Sum (&sum)[T][R]) {
    if constexpr (requires { Source::mask(s, 0, 0); }) {
        panel_sums(s, b, x, sum);
    } else {
        stream_sums(s, at, b, x, sum);
    }
}

}  // namespace
}  // namespace tessera::kernels
