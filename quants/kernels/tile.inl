// A tile of the product of packed weights and quantized activations: one body for every type, for decode and
// for prefill. R vectors of 8 or 16 rows times T tokens, k rising in blocks of 32, in the order of
// docs/design/numerics.md. A Source hands out operands and scales: Stream straight from packed units (few
// tokens), Panel from units unpacked once (many tokens). packed_matmul.inl makes products of tiles. Over the
// verbs and Unpack of the unit that includes this.
#include <type_traits>

#include "quants/kernels/packed_activations.inl"

namespace tessera::kernels {
namespace {

/// The unit's own vectors of one group, and the verbs that make them, as a Source's V. A unit that has wider
/// ones brings another struct like this for its panels, and the verbs on vectors for them too.
struct NativeVec {
    using Int = kernels::Int;
    using Flt = kernels::Flt;
    using Act = kernels::Act;
    using Part = kernels::Part;
    using Sum = kernels::Sum;
    static constexpr int kGroups = 1;
    /// Tokens of one sum; groups of 4 k of one operand.
    static constexpr int kTokens = 1, kJoined = 1;
    /// Tokens of one panel tile, which has 2 x kTile sums (but see StreamPlan).
    static constexpr int kTile = kTileSums / 2;

    TSR_INLINE Int load(const void* p) { return kernels::load(p); }
    TSR_INLINE Flt load_float(const float* p) { return kernels::load_float(p); }
    // The tokens of one sum are `stride` apart.
    TSR_INLINE Int broadcast4(const void* p, int64_t) { return kernels::broadcast4(p); }
    TSR_INLINE Flt broadcast_float(const float* p, int64_t) { return kernels::broadcast_float(p); }
    TSR_INLINE Flt no_float() { return kernels::no_float(); }
    TSR_INLINE Act act_group(const int8_t* q, int64_t, int g) { return kernels::act_group(q, g); }
    TSR_INLINE Int broadcast_scale(int v) { return kernels::broadcast_scale(v); }
    /// A scale as `scaled` takes it.
    TSR_INLINE Int scale(Int scale) { return scale; }
};

constexpr int kNotFetched = -1;

/// Where packed units lie, in groups side by side or far apart, and what is fetched while each is read.
struct PackedUnits {
    const uint8_t* unit;  // of the first group
    int64_t group_bytes;  // from one group to the next
    const uint8_t* end;   // of the first group, or of all that its stream reads in a row
    int64_t next_groups;  // from there to the group that its stream reads next
    int far = kNotFetched, near = kNotFetched;  // bytes ahead, to the outer and to the inner cache
    int first_line = kNotFetched;               // the same of each unit's first line alone, of single pairs
};

/// How a stream asks for what its units say.
enum class Asks : uint8_t {
    AsTold,
    NearAnyway,  // to the inner cache without a look whether that is wanted: what is read, where it is not
    ByOwner,     // found here, but asked for by what the stream is a part of
    Never,
};

/// Whether the n < 64 bytes a number of whole lines behind p end in the line that they begin in.
TSR_INLINE bool ends_within_line(const uint8_t* p, int n) {
    return reinterpret_cast<uintptr_t>(p) % 64 + static_cast<size_t>(n) < 64;
}

/// R groups' packed units, unpacked by U (packed_unpack.inl).
template <class Unpacker, int R, Asks kAsks = Asks::AsTold>
struct Stream : PackedUnits {
    using U = Unpacker;
    using F = typename U::Format;
    using V = NativeVec;
    /// What a stream starts from; all of a stream would be copied for each tile, heads included.
    using Start = PackedUnits;
    typename U::Head head[R];
    const uint8_t* block;
    const uint8_t *far_at, *near_at;  // of the first group, while the unit is read; or null

    TSR_INLINE void start(Stream& s, const PackedUnits& units) { static_cast<PackedUnits&>(s) = units; }
    /// Whether a unit's minima go before its products (add_offsets); whether they are made there or were
    /// before.
    static constexpr bool kOffsetsFirst = false, kMakesOffsets = true;
    /// Whether a vector's groups may lie anywhere.
    static constexpr bool kGroupsApart = false;
    /// What lies n_ahead bytes behind the unit, or past a group's end behind the start of the group that its
    /// stream reads next; or null. Found once a unit, not once a block.
    TSR_INLINE const uint8_t* ahead(const Stream& s, int n_ahead) {
        if (n_ahead == kNotFetched) return nullptr;
        const uint8_t* p = s.unit + n_ahead;
        return p >= s.end ? p + s.next_groups : p;
    }
    /// Fetches as many bytes of each group as the n at `at` of the unit.
    TSR_INLINE void fetch(const Stream& s, int at, int n) {
        if constexpr (kAsks == Asks::Never || kAsks == Asks::ByOwner) return;
        if constexpr (kAsks == Asks::NearAnyway) {
            // Told from the place that is read, which takes fewer registers than a place of its own; in this
            // spelling, as kernels_bench has it (packed_gemm, tok:8).
            const int64_t on = s.near_at - s.unit;
            fetch_lines<prefetch>(s.unit + at + on, s.group_bytes, n);
            if (s.far_at) fetch_lines<prefetch_far>(s.unit + at + (s.far_at - s.unit), s.group_bytes, n);
        } else {
            if (s.near_at) fetch_lines<prefetch>(s.near_at + at, s.group_bytes, n);
            if (s.far_at) fetch_lines<prefetch_far>(s.far_at + at, s.group_bytes, n);
        }
    }
    /// The lines of the n bytes that each group has at p, but for one that the bytes behind them begin in: it
    /// is fetched with those, since to ask again is not free. All groups lie in lines as the first one does,
    /// wherever a group is a number of whole lines; else some lines are not asked for.
    template <auto prefetch_line>
    TSR_INLINE void fetch_lines(const uint8_t* p, int64_t group_bytes, int n) {
        const int whole = n / 64 * 64;
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            TSR_UNROLL
            for (int line = 0; line < whole; line += 64) prefetch_line(p + r * group_bytes + line);
        }
        if (ends_within_line(p, n - whole)) return;
        TSR_UNROLL
        for (int r = 0; r < R; r++) prefetch_line(p + r * group_bytes + whole);
    }
    TSR_INLINE void open_unit(Stream& s) {
        ask_unit(s);
        TSR_UNROLL
        for (int r = 0; r < R; r++) U::open(s.unit + r * s.group_bytes, s.head[r]);
    }
    /// Finds what is to be asked for while the unit is read, and asks for as much as its head has.
    TSR_INLINE void ask_unit(Stream& s) {
        if constexpr (kAsks != Asks::Never) {
            s.far_at = ahead(s, s.far);
            s.near_at = ahead(s, s.near);
            if (kAsks == Asks::NearAnyway && !s.near_at) s.near_at = s.unit;
        }
        fetch(s, 0, F::kSuper ? F::kHeadBytes : F::kUnitBytes);
    }
    TSR_INLINE void open_block(Stream& s, int b) {
        s.block = s.unit + codes_at<F>(b);
        if constexpr (F::kSuper) fetch(s, codes_at<F>(b), 32 * F::kBits);
        if constexpr (U::kOpensBlocks) {
            TSR_UNROLL
            for (int r = 0; r < R; r++) U::open_block(s.unit + r * s.group_bytes, b, s.head[r]);
        }
    }
    TSR_INLINE void close_block(Stream&) {}
    TSR_INLINE void close_unit(Stream& s) { s.unit += F::kUnitBytes; }

    TSR_INLINE Int operand(const Stream& s, int r, int g) {
        if constexpr (U::kOpensBlocks) {
            return U::operand(s.head[r], g);
        } else {
            return U::operand(s.block + r * s.group_bytes, g);
        }
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

/// The packed units of R pairs of groups, each pair one vector of V's. What U cannot make of two groups at
/// once is joined of what it makes of each.
template <class Unpacker, class Vectors, int R = 1>
struct WideStream {
    using U = Unpacker;
    using F = typename U::Format;
    using V = Vectors;
    using Narrow = Stream<U, 2 * R, Asks::ByOwner>;
    using Int = typename V::Int;
    using Flt = typename V::Flt;
    using At = typename V::At;
    using Start = PackedUnits;
    using Head = typename U::template HeadAt<At>;
    Narrow groups;
    Head head[R];

    static constexpr bool kOffsetsFirst = false, kGroupsApart = true;
    static constexpr bool kOpensPairs = requires(Head head) { U::open(At{}, head); };
    /// What of a unit falls to a block; lines of that.
    static constexpr int kBlockBytes = F::kUnitBytes / F::kBlocks, kLines = (kBlockBytes + 63) / 64;
    static_assert(F::kUnitBytes % F::kBlocks == 0);
    TSR_INLINE void start(WideStream& s, const PackedUnits& units) { Narrow::start(s.groups, units); }
    TSR_INLINE void open_unit(WideStream& s) {
        if constexpr (R == 1) {
            if (const uint8_t* line = Narrow::ahead(s.groups, s.groups.first_line)) {
                prefetch(line);
                prefetch(line + s.groups.group_bytes);
            }
        }
        if constexpr (kOpensPairs) {
            Narrow::ask_unit(s.groups);
            TSR_UNROLL
            for (int r = 0; r < R; r++) U::open(unit(s, r), s.head[r]);
        } else {
            Narrow::open_unit(s.groups);
        }
    }
    TSR_INLINE void open_block(WideStream& s, int b) { Narrow::open_block(s.groups, b); }
    /// Asks, before n_operands of block b from g on are read of n pairs from r on, for these pairs' part of
    /// what is fetched meanwhile: of each group a block's share of its unit. Line by line among the products,
    /// since memory gives less to who asks for a block's lines at once.
    TSR_INLINE void fetch_between(const WideStream& s, int b, int g, int n_operands, int r, int n) {
        TSR_UNROLL
        for (int i = 0; i < kLines; i++) {
            const int before = 8 * i / kLines;
            if (before < g || before >= g + n_operands) continue;
            if (s.groups.near_at) fetch_line<prefetch>(s, s.groups.near_at + b * kBlockBytes, i, r, n);
            if (s.groups.far_at) fetch_line<prefetch_far>(s, s.groups.far_at + b * kBlockBytes, i, r, n);
        }
    }
    /// Line i of a block's part at p, but for one that the bytes behind that part begin in (as in a Stream).
    template <auto prefetch_line>
    TSR_INLINE void fetch_line(const WideStream& s, const uint8_t* p, int i, int r, int n) {
        const int left = kBlockBytes - 64 * i;
        if (left < 64 && ends_within_line(p, left)) return;
        TSR_UNROLL
        for (int at = 2 * r; at < 2 * (r + n); at++) prefetch_line(p + at * s.groups.group_bytes + 64 * i);
    }
    TSR_INLINE void close_block(WideStream& s) { Narrow::close_block(s.groups); }
    TSR_INLINE void close_unit(WideStream& s) { Narrow::close_unit(s.groups); }

    /// The pair r of what the first group has at p.
    TSR_INLINE At pair(const WideStream& s, const uint8_t* p, int r) {
        return {p + 2 * r * s.groups.group_bytes, s.groups.group_bytes};
    }
    TSR_INLINE At unit(const WideStream& s, int r) { return pair(s, s.groups.unit, r); }
    TSR_INLINE Int operand(const WideStream& s, int r, int g) {
        if constexpr (U::kOpensBlocks) {
            return V::join(Narrow::operand(s.groups, 2 * r, g), Narrow::operand(s.groups, 2 * r + 1, g));
        } else {
            return U::operand(pair(s, s.groups.block, r), g);
        }
    }
    TSR_INLINE Int scale(const WideStream& s, int r, int b, int i) {
        if constexpr (requires(Head head) { U::scale(At{}, head, b, i); }) {
            return U::scale(unit(s, r), s.head[r], b, i);
        } else {
            return V::join(Narrow::scale(s.groups, 2 * r, b, i), Narrow::scale(s.groups, 2 * r + 1, b, i));
        }
    }
    TSR_INLINE Int zero(const WideStream& s, int r, int b) {
        if constexpr (requires(Head head) { U::zero(At{}, head, b); }) {
            return U::zero(unit(s, r), s.head[r], b);
        } else {
            return V::join(Narrow::zero(s.groups, 2 * r, b), Narrow::zero(s.groups, 2 * r + 1, b));
        }
    }
    TSR_INLINE Int min_halves(const WideStream& s, int r, int b) {
        if constexpr (requires(Head head) { U::min_halves(At{}, head, b); }) {
            return U::min_halves(unit(s, r), s.head[r], b);
        } else {
            return V::join(Narrow::min_halves(s.groups, 2 * r, b),
                           Narrow::min_halves(s.groups, 2 * r + 1, b));
        }
    }
    TSR_INLINE Flt min(const WideStream& s, int r, int b) {
        if constexpr (requires(Head head) { U::min(At{}, head, b); }) {
            return U::min(unit(s, r), s.head[r], b);
        } else {
            return V::join(Narrow::min(s.groups, 2 * r, b), Narrow::min(s.groups, 2 * r + 1, b));
        }
    }
    TSR_INLINE Flt d(const WideStream& s, int r) {
        return V::join(Narrow::d(s.groups, 2 * r), Narrow::d(s.groups, 2 * r + 1));
    }
    TSR_INLINE Flt dmin(const WideStream& s, int r) {
        return V::join(Narrow::dmin(s.groups, 2 * r), Narrow::dmin(s.groups, 2 * r + 1));
    }
};

template <class P>
struct UnpackAndStore;

/// Units of the groups of two vectors laid out by write_panel: vectors in the order of their use.
///     block: operand [8][2], scale [kScales][2], zero [2], min [2]; behind a unit: d [2], dmin [2]
template <class Unpacker, class Vectors>
struct Panel {
    using Unpacking = UnpackAndStore<Panel>;
    using U = Unpacker;
    using F = typename U::Format;
    using V = Vectors;
    using Int = typename V::Int;
    using Flt = typename V::Flt;
    static constexpr int kGroups = 2 * V::kGroups;
    static constexpr int kVector = 32 * V::kGroups, kPair = 2 * kVector;  // bytes
    static constexpr int kScaleAt = 8 * kPair;
    static constexpr int kZeroAt = kScaleAt + U::kScales * kPair;
    static constexpr int kMinAt = kZeroAt + (kZeroStored<U> ? kPair : 0);
    static constexpr int kBlockBytes = kMinAt + (F::kMin != MinKind::None ? kPair : 0);
    static constexpr int kFloatBytes = F::kMin == MinKind::PerHalf ? 2 * kPair : kPair;
    static constexpr int kFloatAt = F::kBlocks * kBlockBytes;
    static constexpr int kUnitBytes = kFloatAt + kFloatBytes;
    using Start = const uint8_t*;
    const uint8_t *unit, *block;

    TSR_INLINE void start(Panel& p, const uint8_t* panel) { p.unit = panel; }
    static constexpr bool kOffsetsFirst = F::kMin == MinKind::PerBlock, kMakesOffsets = false;
    static constexpr bool kGroupsApart = false;

    TSR_INLINE void open_unit(Panel& p) { p.block = p.unit; }
    TSR_INLINE void open_block(Panel&, int) {}
    TSR_INLINE void close_block(Panel& p) { p.block += kBlockBytes; }
    TSR_INLINE void close_unit(Panel& p) { p.unit += kUnitBytes; }

    TSR_INLINE Int operand(const Panel& p, int r, int g) {
        const uint8_t* at = p.block + g * kPair + kVector * r;
        if constexpr (V::kJoined == 2) {
            return V::load_joined(at, at + kPair);
        } else {
            return V::load(at);
        }
    }
    TSR_INLINE Int scale(const Panel& p, int r, int, int i) {
        return V::load(p.block + kScaleAt + i * kPair + kVector * r);
    }
    TSR_INLINE Int zero(const Panel& p, int r, int) { return V::load(p.block + kZeroAt + kVector * r); }
    TSR_INLINE Int min_halves(const Panel& p, int r, int b) { return V::load(p.unit + min_at(r, b)); }
    TSR_INLINE Flt min(const Panel& p, int r, int b) { return floats(p.unit + min_at(r, b)); }
    /// Of a unit.
    static constexpr int min_at(int r, int b) { return b * kBlockBytes + kMinAt + kVector * r; }
    TSR_INLINE Flt d(const Panel& p, int r) { return floats(p.unit + kFloatAt + kVector * r); }
    TSR_INLINE Flt dmin(const Panel& p, int r) { return floats(p.unit + kFloatAt + kPair + kVector * r); }
    TSR_INLINE Flt floats(const uint8_t* p) { return V::load_float(reinterpret_cast<const float*>(p)); }
};

/// The packed units of a panel's groups, which it writes to the panel as it hands them out: the first tokens
/// of a panel unpack it on their way. Every operand and scale of a block is asked for.
template <class P>
struct UnpackAndStore : Stream<typename P::U, 2, Asks::NearAnyway> {
    using U = typename P::U;
    using F = typename U::Format;
    using V = typename P::V;
    using Units = Stream<U, 2, Asks::NearAnyway>;
    static_assert(P::kGroups == 2 && V::kJoined == 1);
    struct Start {
        PackedUnits units;
        uint8_t* panel;
    };
    static constexpr bool kOffsetsFirst = true;
    uint8_t *to, *block_to;

    TSR_INLINE void start(UnpackAndStore& s, const Start& start) {
        Units::start(s, start.units);
        s.to = start.panel;
    }
    TSR_INLINE void open_unit(UnpackAndStore& s) {
        Units::open_unit(s);
        s.block_to = s.to;
    }
    TSR_INLINE void close_block(UnpackAndStore& s) { s.block_to += P::kBlockBytes; }
    TSR_INLINE void close_unit(UnpackAndStore& s) {
        Units::close_unit(s);
        s.to += P::kUnitBytes;
    }

    TSR_INLINE Int operand(const UnpackAndStore& s, int r, int g) {
        uint8_t* at = s.block_to + 32 * r + g * P::kPair;
        if (g % 2 != 0) return load(at);
        // All that a lookup or a load gives at once: behind a store it would be made again.
        const Int even = Units::operand(s, r, g), odd = Units::operand(s, r, g + 1);
        store(at, even);
        store(at + P::kPair, odd);
        return even;
    }
    TSR_INLINE Int scale(const UnpackAndStore& s, int r, int b, int i) {
        return kept(Units::scale(s, r, b, i), s.block_to + P::kScaleAt + i * P::kPair + 32 * r);
    }
    TSR_INLINE Int zero(const UnpackAndStore& s, int r, int b) {
        const Int zero = Units::zero(s, r, b);
        return kZeroStored<U> ? kept(zero, s.block_to + P::kZeroAt + 32 * r) : zero;
    }
    TSR_INLINE Int min_halves(const UnpackAndStore& s, int r, int b) {
        return kept(Units::min_halves(s, r, b), s.to + P::min_at(r, b));
    }
    TSR_INLINE Flt min(const UnpackAndStore& s, int r, int b) {
        return kept(Units::min(s, r, b), s.to + P::min_at(r, b));
    }
    TSR_INLINE Flt d(const UnpackAndStore& s, int r) {
        return kept(Units::d(s, r), s.to + P::kFloatAt + 32 * r);
    }
    TSR_INLINE Flt dmin(const UnpackAndStore& s, int r) {
        return kept(Units::dmin(s, r), s.to + P::kFloatAt + P::kPair + 32 * r);
    }
    TSR_INLINE Int kept(Int v, uint8_t* at) {
        store(at, v);
        return v;
    }
    TSR_INLINE Flt kept(Flt v, uint8_t* at) {
        store_float(reinterpret_cast<float*>(at), v);
        return v;
    }
};

/// A type's panel, unless the unit has others for it (packed_signed_bytes.inl).
template <class F, class V>
struct PanelChoice {
    using Choice = Panel<Unpack<F>, V>;
};
template <class F, class V>
using PanelOf = typename PanelChoice<F, V>::Choice;
/// Whether panels of P's are filled by their first tokens.
template <class P>
constexpr bool kUnpacksInFirstTile = P::kGroups == 2 && P::V::kJoined == 1;

/// Unpacks n_units of P::kGroups groups.
template <class P>
[[gnu::noinline]] void write_panel(PackedUnits units, int64_t n_units, uint8_t* out) {
    using U = typename P::U;
    using F = typename U::Format;
    using S = Stream<U, P::kGroups>;
    S s;
    S::start(s, units);
    for (int64_t i = 0; i < n_units; i++) {
        S::open_unit(s);
        for (int b = 0; b < F::kBlocks; b++, out += P::kBlockBytes) {
            S::open_block(s, b);
            TSR_UNROLL
            for (int r = 0; r < P::kGroups; r++) {
                uint8_t* to = out + 32 * r;
                TSR_UNROLL
                for (int g = 0; g < 8; g += 2) {
                    const auto even = S::operand(s, r, g), odd = S::operand(s, r, g + 1);
                    uint8_t *at = to + g * P::kPair, *next = at + P::kPair;
                    if constexpr (P::V::kJoined == 2) {
                        P::V::store_joined(even, odd, at, next);
                    } else {
                        store(at, even);
                        store(next, odd);
                    }
                }
                TSR_UNROLL
                for (int j = 0; j < U::kScales; j++)
                    store(to + P::kScaleAt + j * P::kPair, S::scale(s, r, b, j));
                if constexpr (kZeroStored<U>) store(to + P::kZeroAt, S::zero(s, r, b));
                if constexpr (F::kMin == MinKind::PerBlock) {
                    store_float(reinterpret_cast<float*>(to + P::kMinAt), S::min(s, r, b));
                }
                if constexpr (F::kMin == MinKind::PerHalf) store(to + P::kMinAt, S::min_halves(s, r, b));
            }
        }
        TSR_UNROLL
        for (int r = 0; r < P::kGroups; r++) {
            store_float(reinterpret_cast<float*>(out + 32 * r), S::d(s, r));
            if constexpr (F::kMin == MinKind::PerHalf) {
                store_float(reinterpret_cast<float*>(out + P::kPair + 32 * r), S::dmin(s, r));
            }
        }
        out += P::kUnitBytes - F::kBlocks * P::kBlockBytes;
        S::close_unit(s);
    }
}

/// Whether a product reads its activation from memory by itself, which saves an instruction where no other
/// product needs it in a register.
template <class Act>
constexpr bool kActInMemory = requires(const Act& a) {
    in_register(a);
};

/// Adds the products of R operands and one activation to their sums, or starts these. Where instructions of
/// their own add, those of two sums come behind both products: in turn with products they more often take the
/// place of one (3 % of Q4_K on Zen 4). The products of more operands take registers that decoding has not.
template <int R, class Part, class Operand, class Act>
TSR_INLINE void add_dots(bool starts, const Operand (&w)[R], const Act& a, Part (&sum)[R]) {
    if constexpr (R > 1 && kActInMemory<Act>) {
        add_dots<R>(starts, w, in_register(a), sum);
    } else if constexpr (kLaneSums && R <= 2) {
        Part product[R];
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            product[r] = first_dot(w[r], a);
            pin(product[r]);
        }
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            sum[r] = starts ? product[r] : add16(sum[r], product[r]);
            pin(sum[r]);
        }
    } else {
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            sum[r] = starts ? first_dot(w[r], a) : next_dot(sum[r], w[r], a);
            pin(sum[r]);
        }
    }
}

/// What comes later is asked for where that gains, before n_operands from g on are read of R vectors.
template <int R, class Source>
TSR_INLINE void fetch_between(const Source& s, int at, int b, int g, int n_operands) {
    if constexpr (requires { Source::fetch_between(s, b, g, n_operands, at, R); }) {
        Source::fetch_between(s, b, g, n_operands, at, R);
    }
}

/// sum[t][r] = the exact integer sums of block b, of the vectors from `at` on.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void block_sums(const Source& s, int at, int b, const Acts& x,
                           typename Source::V::Sum (&sum)[T][R]) {
    using U = typename Source::U;
    using V = typename Source::V;
    constexpr int kGroups = kScaleGroups<U>, kFit = zero_in_lanes<U>() ? kDepthCentred<U> : kDepthAsIs<U>;
    constexpr int kDepth = kFit < kGroups ? kFit : kGroups;
    TSR_UNROLL
    for (int first = 0; first < 8; first += kDepth) {
        typename V::Part part[T][R];
        if constexpr (kZeroStarts<U>) {
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const int half = kGroups == 8 ? 2 : first / 4;
                const auto start = Acts::template start_at<U, V, V::kTokens * T>(x, V::kTokens * t, b, half);
                TSR_UNROLL
                for (int r = 0; r < R; r++) part[t][r] = start;
            }
        }
        TSR_UNROLL
        for (int i = 0; i < kDepth; i += V::kJoined) {
            const int g = first + i;
            fetch_between<R>(s, at, b, g, V::kJoined);
            typename V::Int w[R];
            TSR_UNROLL
            for (int r = 0; r < R; r++) w[r] = Source::operand(s, at + r, g);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const auto a = V::act_group(Acts::q_at(x, V::kTokens * t, b), x.q_stride, g);
                add_dots(i == 0 && !kZeroStarts<U>, w, a, part[t]);
            }
        }
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            const auto scale =
                V::scale(U::kScales != 0 ? Source::scale(s, at + r, b, U::kScales == 2 ? first / 4 : 0)
                                         : V::broadcast_scale(1));
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                sum[t][r] = first == 0 ? scaled(part[t][r], scale) : add_scaled(sum[t][r], part[t][r], scale);
            }
        }
    }
    if constexpr (U::kZero != 0 && !kZeroStarts<U>) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            const Int zero = U::kZeroScaled ? Source::zero(s, at + r, b) : broadcast_half(U::kZero);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                sum[t][r] = sub32(sum[t][r], dot_halves(zero, broadcast4(Acts::sum16_at(x, t, b))));
            }
        }
    }
}

/// Vectors of rows whose sums are made at once: two of four where registers are too few for what lies between
/// codes and sums, parts of codes or weights without their signs.
template <class U, int R, int T>
constexpr int kAtOnce = [] {
    constexpr bool kParts = code_parts(U::Format::kBits) > 1 && T == 1;
    constexpr bool kSizes = U::kBySigns && T == 2;
    return R == 4 && kSplitsFour && (kParts || kSizes) ? 2 : R;
}();

/// What was loaded is loaded again: kept for the next vectors, activations would take the registers that a
/// few of them at once are to save.
TSR_INLINE void forget_loads() { asm volatile("" ::: "memory"); }

/// Activations that follow those of block b are asked for where that gains.
template <class Acts>
TSR_INLINE void fetch_ahead(const Acts& x, int b) {
    if constexpr (requires { Acts::fetch(x, b); }) Acts::fetch(x, b);
}

/// A unit of float scales: one block.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void accumulate_block(const Source& s, const Acts& x, typename Source::V::Flt (&total)[T][R]) {
    using V = typename Source::V;
    constexpr int kEach = kAtOnce<typename Source::U, R, T>;
    fetch_ahead(x, 0);
    TSR_UNROLL
    for (int at = 0; at < R; at += kEach) {
        if (at != 0) forget_loads();
        typename V::Sum sum[T][kEach];
        block_sums<F, kEach, T>(s, at, 0, x, sum);
        TSR_UNROLL
        for (int r = at; r < at + kEach; r++) {
            const auto d = Source::d(s, r);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const auto scale = mul(d, V::broadcast_float(Acts::d_at(x, V::kTokens * t, 0), x.d_stride));
                total[t][r] = add_product(total[t][r], to_float(sum[t][r - at]), scale);
            }
            if constexpr (F::kMin == MinKind::PerBlock) {
                const auto min = Source::min(s, r, 0);
                TSR_UNROLL
                for (int t = 0; t < T; t++) {
                    total[t][r] = add_product(
                        total[t][r], min, V::broadcast_float(Acts::s_at(x, V::kTokens * t, 0), x.d_stride));
                }
            }
        }
    }
}

/// What the minima of one of the blocks of a unit with integer scales add.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void add_offsets(const Source& s, int b, const Acts& x, typename Source::V::Flt (&total)[T][R],
                            typename Source::V::Flt (&low)[T][R]) {
    using V = typename Source::V;
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        if constexpr (F::kMin == MinKind::PerBlock) {
            const auto min = Source::min(s, r, b);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                total[t][r] = sub_product(total[t][r], min,
                                          V::broadcast_float(Acts::s_at(x, V::kTokens * t, b), x.d_stride));
            }
        }
        if constexpr (F::kMin == MinKind::PerHalf) {
            const auto min = Source::min_halves(s, r, b);
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const auto lows =
                    dot_halves(min, V::broadcast4(Acts::sum16_at(x, V::kTokens * t, b), 2 * x.d_stride));
                low[t][r] = add_product(low[t][r], to_float(lows),
                                        V::broadcast_float(Acts::d_at(x, V::kTokens * t, b), x.d_stride));
            }
        }
    }
}

/// The products of one of them.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void accumulate_subblock(const Source& s, int b, const Acts& x,
                                    typename Source::V::Flt (&product)[T][R]) {
    using V = typename Source::V;
    constexpr int kEach = kAtOnce<typename Source::U, R, T>;
    fetch_ahead(x, b);
    TSR_UNROLL
    for (int at = 0; at < R; at += kEach) {
        if (at != 0) forget_loads();
        typename V::Sum sum[T][kEach];
        block_sums<F, kEach, T>(s, at, b, x, sum);
        TSR_UNROLL
        for (int r = at; r < at + kEach; r++) {
            TSR_UNROLL
            for (int t = 0; t < T; t++) {
                const auto scale = V::broadcast_float(Acts::d_at(x, V::kTokens * t, b), x.d_stride);
                product[t][r] = add_product(product[t][r], to_float(sum[t][r - at]), scale);
            }
        }
    }
}

/// A unit of 8 blocks with integer scales.
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void accumulate_superblock(Source& s, const Acts& x, typename Source::V::Flt (&total)[T][R]) {
    using V = typename Source::V;
    typename V::Flt product[T][R], low[T][R];
    TSR_UNROLL
    for (int t = 0; t < T; t++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) product[t][r] = low[t][r] = V::no_float();
    }
    // Where a tile's sums fill the registers, those of the minima stay in them only by themselves.
    if constexpr (Source::kOffsetsFirst && F::kMin != MinKind::None) {
        if constexpr (Source::kMakesOffsets) {
            TSR_ROLLED
            for (int b = 0; b < F::kBlocks; b++) add_offsets<F, R, T>(s, b, x, total, low);
        } else {
            for (int b = 0; b < F::kBlocks; b++) add_offsets<F, R, T>(s, b, x, total, low);
        }
    }
    for (int b = 0; b < F::kBlocks; b++) {
        Source::open_block(s, b);
        accumulate_subblock<F, R, T>(s, b, x, product);
        if constexpr (!Source::kOffsetsFirst) add_offsets<F, R, T>(s, b, x, total, low);
        Source::close_block(s);
    }
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        const auto d = Source::d(s, r);
        TSR_UNROLL
        for (int t = 0; t < T; t++) total[t][r] = add_product(total[t][r], product[t][r], d);
        if constexpr (F::kMin == MinKind::PerHalf) {
            const auto dmin = Source::dmin(s, r);
            TSR_UNROLL
            for (int t = 0; t < T; t++) total[t][r] = sub_product(total[t][r], low[t][r], dmin);
        }
    }
}

/// The sums of V::kTokens tokens and one vector's rows, from and to rows y_stride apart.
template <class V>
TSR_INLINE typename V::Flt load_sums(const float* y, [[maybe_unused]] int64_t y_stride) {
    if constexpr (V::kTokens == 2) {
        return V::load_two(y, y + y_stride);
    } else {
        return V::load_float(y);
    }
}
template <class Source>
TSR_INLINE void store_sums(float* y, [[maybe_unused]] int64_t y_stride, [[maybe_unused]] int64_t apart,
                           typename Source::V::Flt sums) {
    if constexpr (Source::kGroupsApart) {
        Source::V::store_groups(y, y + apart, sums);
    } else if constexpr (Source::V::kTokens == 2) {
        Source::V::store_two(y, y + y_stride, sums);
    } else {
        store_float(y, sums);
    }
}

/// Adds the products of units i to end, of n_units, to the totals. words: what the activations' starts are
/// written down in (open_unit).
template <class F, int R, int T, class Source, class Acts>
TSR_INLINE void add_units(Source& s, Acts& x, int64_t i, int64_t end, int64_t n_units,
                          int16_t (&words)[Source::V::kTokens * T][kTokenStarts],
                          typename Source::V::Flt (&total)[T][R]) {
    for (; i < end; i++) {
        Source::open_unit(s);
        Acts::template open_unit<typename Source::U>(x, i, n_units, words);
        if constexpr (F::kSuper) {
            accumulate_superblock<F, R, T>(s, x, total);
        } else {
            Source::open_block(s, 0);
            accumulate_block<F, R, T>(s, x, total);
        }
        Source::close_unit(s);
        Acts::template close_unit<F>(x);
    }
}

/// Tokens of a tile of T that exist; the others' sums are made of whatever their places hold, and not stored.
template <int T, class Acts>
TSR_INLINE int64_t tokens_of(const Acts& x) {
    if constexpr (requires { x.n_tok; }) {
        return x.n_tok;
    } else {
        return T;
    }
}

/// y[t][r * apart ...] = the totals of a tile (see below) for the first n_tok tokens.
template <class Source, int R, int T>
TSR_INLINE void store_totals(const typename Source::V::Flt (&total)[T][R], float* y, int64_t y_stride,
                             int64_t apart, int64_t n_tok) {
    using V = typename Source::V;
    TSR_UNROLL
    for (int t = 0; t < T; t++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            const int64_t first = Source::kGroupsApart ? V::kGroups * r : r;
            float* to = y + V::kTokens * t * y_stride + apart * first;
            if (t < n_tok) store_sums<Source>(to, y_stride, apart, total[t][r]);
        }
    }
}

/// y[t][r * apart ...] (+)= the product over n_units, apart being the rows from one vector's to the next's,
/// or from one group's to the next's where they lie anywhere. resume: y holds the sum of the units before.
template <class F, int R, int T, class Source, class Acts>
[[gnu::noinline, TSR_NO_CLONES]] void tile(typename Source::Start start, int64_t n_units, Acts x, float* y,
                                           int64_t y_stride, bool resume,
                                           int64_t apart = kGroupRows * Source::V::kGroups) {
    using V = typename Source::V;
    static_assert(!Source::kGroupsApart || V::kGroups == 2);
    Source s;
    Source::start(s, start);
    typename V::Flt total[T][R];
    const int64_t n_tok = tokens_of<T>(x);
    // Stores reach the cache in order: one that waits for its line holds up those of spilled sums behind it.
    TSR_UNROLL
    for (int t = 0; t < V::kTokens * T; t++) prefetch(y + t * y_stride);
    TSR_UNROLL
    for (int t = 0; t < T; t++) {
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            total[t][r] = resume && t < n_tok
                              ? load_sums<V>(y + V::kTokens * t * y_stride + apart * r, y_stride)
                              : V::no_float();
        }
    }
    [[maybe_unused]] alignas(32) int16_t words[V::kTokens * T][kTokenStarts];
    add_units<F, R, T>(s, x, 0, n_units, n_units, words, total);
    store_totals<Source>(total, y, y_stride, apart, n_tok);
}

/// y[t][...] = the product over n_units of a panel's rows and two tiles of T tokens, the second of which may
/// be padded. Some units at a time go through both, so that the panel has room for those alone: it stays in
/// L1 for the second tile, and memory is waited for throughout, not only by the tile that unpacks.
template <class F, class P, int T>
[[gnu::noinline, TSR_NO_CLONES]] void tile_pair(typename P::Unpacking::Start start, int64_t n_units,
                                                TiledAct<T> x, TiledAct<T> next_x, float* y,
                                                int64_t y_stride) {
    constexpr int64_t kUnits = kStartBlocks / F::kBlocks;
    typename P::Unpacking filling;
    P panel;
    P::Unpacking::start(filling, start);
    Flt total[T][2] = {}, next_total[T][2] = {};
    const int64_t n_next = next_x.n_tok;
    TSR_UNROLL
    for (int t = 0; t < 2 * T; t++) prefetch(y + t * y_stride);
    [[maybe_unused]] alignas(32) int16_t words[T][kTokenStarts], next_words[T][kTokenStarts];
    for (int64_t i = 0; i < n_units; i += kUnits) {
        // Known to be one unit, a tile's turn is no loop: for a round that never comes gcc 12 keeps both
        // tiles' totals moving between registers and stack.
        const int64_t end = kUnits == 1 || i + kUnits < n_units ? i + kUnits : n_units;
        filling.to = start.panel;
        add_units<F, 2, T>(filling, x, i, end, n_units, words, total);
        P::start(panel, start.panel);
        add_units<F, 2, T>(panel, next_x, i, end, n_units, next_words, next_total);
    }
    store_totals<P>(total, y, y_stride, kGroupRows, T);
    store_totals<P>(next_total, y + T * y_stride, y_stride, kGroupRows, n_next);
}

}  // namespace
}  // namespace tessera::kernels
