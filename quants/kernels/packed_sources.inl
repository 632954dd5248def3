// Where a tile's weights come from. A source hands out operands and scales of R vectors of 8 or 16 rows:
//     Stream, WideStream  straight from packed units, for few tokens
//     Panel               units unpacked before into a buffer in L2, for many tokens
//     UnpackAndStore      packed units that the first tile of a panel's tokens unpacks and stores as it goes
// Over the operations and Unpack (packed_unpack.inl) of the unit that includes this.
#include "quants/kernels/packed_activations.inl"
#include "quants/kernels/prefetch.h"

namespace tessera::kernels {
namespace {

/// A source's V: the unit's own vectors of one group of rows and their operations. A unit with wider vectors
/// brings another struct like this one for panels and wide streams.
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

/// The addresses of packed units, in groups next to each other or far apart, and of their prefetch.
struct PackedUnits {
    const uint8_t* unit;  // of the first group
    int64_t group_bytes;  // from one group to the next
    PrefetchPlan plan;
};

/// The packed units of R groups, unpacked by Unpacker. Prefetcher: see prefetch.h.
template <class Unpacker, int R, class Prefetcher = BlockPrefetch<typename Unpacker::Format, R>>
struct Stream {
    using U = Unpacker;
    using F = typename U::Format;
    using V = NativeVec;
    /// A tile starts a stream from this: a whole stream with its heads would be copied for each tile.
    using Start = PackedUnits;
    const uint8_t *unit, *block;  // of the first group
    int64_t group_bytes;
    Prefetcher prefetcher;
    typename U::Head head[R];

    TSR_INLINE void start(Stream& s, const PackedUnits& units) {
        s.unit = units.unit;
        s.group_bytes = units.group_bytes;
        Prefetcher::start(s.prefetcher, units.plan);
    }
    /// Whether a unit's offsets are subtracted before its products (add_offsets), and whether they are
    /// computed then rather than loaded.
    static constexpr bool kOffsetsFirst = false, kMakesOffsets = true;
    /// Whether a vector's groups may lie anywhere in y.
    static constexpr bool kGroupsApart = false;

    TSR_INLINE void open_unit(Stream& s) {
        Prefetcher::open_unit(s.prefetcher, s.unit, s.group_bytes);
        TSR_UNROLL
        for (int r = 0; r < R; r++) U::open(s.unit + r * s.group_bytes, s.head[r]);
    }
    TSR_INLINE void open_block(Stream& s, int b) {
        s.block = s.unit + codes_at<F>(b);
        Prefetcher::open_block(s.prefetcher, s.unit, s.group_bytes, b);
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

/// The packed units of R pairs of groups, each pair one vector of V. Operands that U cannot make of two
/// groups at once are made of each and joined.
template <class Unpacker, class Vec, int R = 1>
struct WideStream {
    using U = Unpacker;
    using F = typename U::Format;
    using V = Vec;
    using Prefetcher = LinePrefetch<F, 2 * R>;
    using Narrow = Stream<U, 2 * R, Prefetcher>;
    using Int = typename V::Int;
    using Flt = typename V::Flt;
    using At = typename V::At;
    using Start = PackedUnits;
    using Head = typename U::template HeadAt<At>;
    Narrow groups;
    Head head[R];

    static constexpr bool kOffsetsFirst = false, kGroupsApart = true;
    static constexpr bool kOpensPairs = requires(Head head) { U::open(At{}, head); };
    TSR_INLINE void start(WideStream& s, const PackedUnits& units) { Narrow::start(s.groups, units); }
    TSR_INLINE void open_unit(WideStream& s) {
        if constexpr (kOpensPairs) {
            Prefetcher::open_unit(s.groups.prefetcher, s.groups.unit, s.groups.group_bytes);
            TSR_UNROLL
            for (int r = 0; r < R; r++) U::open(unit(s, r), s.head[r]);
        } else {
            Narrow::open_unit(s.groups);
        }
    }
    TSR_INLINE void open_block(WideStream& s, int b) { Narrow::open_block(s.groups, b); }
    /// Before n_operands of block b from group g on are loaded of n vectors from r on.
    TSR_INLINE void before_products(const WideStream& s, int b, int g, int n_operands, int r, int n) {
        Prefetcher::between(s.groups.prefetcher, s.groups.group_bytes, b, g, n_operands, 2 * r, 2 * n);
    }
    TSR_INLINE void close_block(WideStream& s) { Narrow::close_block(s.groups); }
    TSR_INLINE void close_unit(WideStream& s) { Narrow::close_unit(s.groups); }

    /// Pair r of groups at p, which is a place of the first group.
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
///     block: operand [8][2], scale [kScales][2], zero [2], min [2]; after a unit: d [2], dmin [2]
template <class Unpacker, class Vec>
struct Panel {
    using Unpacking = UnpackAndStore<Panel>;
    using U = Unpacker;
    using F = typename U::Format;
    using V = Vec;
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

/// The packed units of a panel's groups, each of which it stores to the panel as it hands it out: the first
/// token tile unpacks the panel for the later ones. The tile must request every operand and scale of a block.
template <class P>
struct UnpackAndStore : Stream<typename P::U, 2, BlockPrefetch<typename P::F, 2, true>> {
    using U = typename P::U;
    using F = typename U::Format;
    using V = typename P::V;
    using Units = Stream<U, 2, BlockPrefetch<F, 2, true>>;
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
        // Both operands of one lookup or load together: after a store the compiler would repeat it.
        const Int even = Units::operand(s, r, g), odd = Units::operand(s, r, g + 1);
        store(at, even);
        store(at + P::kPair, odd);
        return even;
    }
    TSR_INLINE Int scale(const UnpackAndStore& s, int r, int b, int i) {
        return stored(Units::scale(s, r, b, i), s.block_to + P::kScaleAt + i * P::kPair + 32 * r);
    }
    TSR_INLINE Int zero(const UnpackAndStore& s, int r, int b) {
        const Int zero = Units::zero(s, r, b);
        return kZeroStored<U> ? stored(zero, s.block_to + P::kZeroAt + 32 * r) : zero;
    }
    TSR_INLINE Int min_halves(const UnpackAndStore& s, int r, int b) {
        return stored(Units::min_halves(s, r, b), s.to + P::min_at(r, b));
    }
    TSR_INLINE Flt min(const UnpackAndStore& s, int r, int b) {
        return stored(Units::min(s, r, b), s.to + P::min_at(r, b));
    }
    TSR_INLINE Flt d(const UnpackAndStore& s, int r) {
        return stored(Units::d(s, r), s.to + P::kFloatAt + 32 * r);
    }
    TSR_INLINE Flt dmin(const UnpackAndStore& s, int r) {
        return stored(Units::dmin(s, r), s.to + P::kFloatAt + P::kPair + 32 * r);
    }
    TSR_INLINE Int stored(Int v, uint8_t* at) {
        store(at, v);
        return v;
    }
    TSR_INLINE Flt stored(Flt v, uint8_t* at) {
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
/// Whether the first token tile unpacks P's panels.
template <class P>
constexpr bool kUnpacksInFirstTile = P::kGroups == 2 && P::V::kJoined == 1;

/// Unpacks n_units of P::kGroups groups.
template <class P>
[[gnu::noinline, TSR_NO_CLONES]] void write_panel(PackedUnits units, int64_t n_units, uint8_t* out) {
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

}  // namespace
}  // namespace tessera::kernels
