// How a type's packed unit becomes operands of dot products: one struct a type, over the operations of the
// unit that includes this.
//  kBySigns  weights fill a byte, and products of bytes take signs apart there (kBytesBySigns)
//  kZero     the operand of a zero weight; 0 instead of the format's where weights are their own operands
//  kScales   integer scale vectors a block: one, or one for each half; 0 = the scale is 1
//  kZeroScaled  the zero point is multiplied by the integer scale, so it differs between rows
//  kOpensBlocks  operands come from the head, which open_block prepares for one block
// An At is an address of one group, or in a unit with wider vectors of two groups (TwoGroups): a load from
// there is an Int or a vector of both. A Head holds values decoded once a unit, a HeadAt those of an At,
// where two groups can be decoded at once; b is a block of 32 weights, g a group of 4 of them.
namespace tessera::kernels {
namespace {

template <int Bits, class At>
TSR_INLINE auto code_vector(At block, int g) {
    if constexpr (Bits == 8) return load(block + 32 * g);
    constexpr int kParts = code_parts(Bits);
    const CodePart first = code_part<Bits>(g, 0);
    auto code = field_at(load(block + 32 * first.vector), first.bits, first.from, first.to);
    TSR_UNROLL
    for (int i = 1; i < kParts; i++) {
        const CodePart part = code_part<Bits>(g, i);
        if (part.bits == 0) break;
        code = with_field(code, load(block + 32 * part.vector), part.bits, part.from, part.to);
    }
    return code;
}

TSR_INLINE Int bytes_like(Int, int v) { return broadcast_byte(v); }
/// Looks the bytes of `code` up in a table of 16 entries.
TSR_INLINE Int look_up_code(const uint8_t* table, Int code) { return look_up(twice(table), code); }

struct NoHead {};

/// Types with a float scale only: a unit is a block.
template <class F>
struct UnpackPlain {
    using Format = F;
    using Head = NoHead;
    template <class At>
    using HeadAt = NoHead;
    static constexpr int kScales = 0, kZero = F::kZero;
    static constexpr bool kBySigns = false, kZeroScaled = false, kOpensBlocks = false;
    TSR_INLINE void open(const uint8_t*, Head&) {}
    template <class At>
    TSR_INLINE auto operand(At block, int g) {
        return code_vector<F::kBits>(block, g);
    }
    TSR_INLINE Int scale(const uint8_t*, const Head&, int, int) { return none(); }
    TSR_INLINE Int zero(const uint8_t*, const Head&, int) { return none(); }
    TSR_INLINE Int min_halves(const uint8_t*, const Head&, int) { return none(); }
    TSR_INLINE Flt min(const uint8_t* unit, const Head&, int) { return load_f16(unit + F::kMinAt); }
    TSR_INLINE Flt d(const uint8_t* unit) { return load_f16(unit); }
};

template <class F>
struct Unpack;

template <>
struct Unpack<Q4_0> : UnpackPlain<Q4_0> {};
template <>
struct Unpack<Q4_1> : UnpackPlain<Q4_1> {};
template <>
struct Unpack<Q5_0> : UnpackPlain<Q5_0> {};
template <>
struct Unpack<Q5_1> : UnpackPlain<Q5_1> {};

/// The operand of a zero weight of a type with a table, or whose weights fill a byte.
template <class F, bool Direct = kSignedOperands>
constexpr int kZeroOf = Direct ? 0 : F::kZero;
template <class F>
constexpr int kByteZero = kZeroOf<F, kSignedOperands || kBytesBySigns>;

template <>
struct Unpack<Q8_0> : UnpackPlain<Q8_0> {
    static constexpr bool kBySigns = kBytesBySigns;
    static constexpr int kZero = kByteZero<Q8_0>;
    template <class At>
    TSR_INLINE auto operand(At block, int g) {
        const auto code = load(block + 32 * g);
        if constexpr (kZero == 0) {
            return sub8(code, broadcast_byte(Q8_0::kZero));
        } else {
            return code;
        }
    }
};

/// The operands of 16 codes, `zero` being that of a zero weight.
template <class F>
struct OperandTable {
    alignas(16) uint8_t entry[16];
    constexpr explicit OperandTable(int zero) : entry{} {
        for (int code = 0; code < 16; code++)
            entry[code] = static_cast<uint8_t>(F::operand(code) - F::kZero + zero);
    }
};

template <class At>
TSR_INLINE auto iq4_operand(At block, int g) {
    static constexpr OperandTable<IQ4_NL> kOperand(kByteZero<IQ4_NL>);
    return look_up_code(kOperand.entry, code_vector<4>(block, g));
}

template <>
struct Unpack<IQ4_NL> : UnpackPlain<IQ4_NL> {
    static constexpr bool kBySigns = kBytesBySigns;
    static constexpr int kZero = kByteZero<IQ4_NL>;
    template <class At>
    TSR_INLINE auto operand(At block, int g) {
        return iq4_operand(block, g);
    }
};

template <>
struct Unpack<MXFP4> : UnpackPlain<MXFP4> {
    static constexpr int kZero = kZeroOf<MXFP4>;
    template <class At>
    TSR_INLINE auto operand(At block, int g) {
        static constexpr OperandTable<MXFP4> kOperand(kZero);
        return look_up_code(kOperand.entry, code_vector<4>(block, g));
    }
    TSR_INLINE Flt d(const uint8_t* unit) { return load_e8m0_half(unit); }
};

/// Rows at an At: a vector has 4 bytes of each.
template <class At>
constexpr int kRowsAt = sizeof(load(At{})) / 4;

/// Scales and offsets (dmin corrections) as bytes, decoded once a unit: of each of 8 blocks, one for each row
/// of an At.
template <class At>
struct ByteHead {
    alignas(4 * kRowsAt<At>) uint8_t scale[8 * kRowsAt<At>];
    alignas(4 * kRowsAt<At>) uint8_t min[8 * kRowsAt<At>];
    decltype(load_f16(At{})) dmin;
};
/// The address p in the head of an At, with a byte for each row, in the type that scales and words are loaded
/// from.
TSR_INLINE const uint8_t* rows_of(const uint8_t*, const uint8_t* p) { return p; }
/// 8 bytes of each of four blocks.
TSR_INLINE void store_blocks(uint8_t* p, Int v) { store(p, v); }

/// A vector of 6-bit fields of width 32: field f of the low nibbles and high pairs of a head.
template <class At>
TSR_INLINE auto six_bit_vector(At low, At high, int f) {
    const auto nibble = field_at(load(low + 32 * (f / 2)), 4, 4 * (f % 2), 0);
    return with_field(nibble, load(high), 2, 2 * f, 4);
}

template <class F>
struct UnpackKScaled : UnpackPlain<F> {
    template <class At>
    using HeadAt = ByteHead<At>;
    using Head = HeadAt<const uint8_t*>;
    static constexpr int kScales = 1;
    template <class At>
    TSR_INLINE void open(At unit, HeadAt<At>& head) {
        const At low = unit + F::kLowAt, high = unit + F::kHighAt;
        TSR_UNROLL
        for (int i = 0; i < 2; i++) {
            store_blocks(head.scale + 4 * kRowsAt<At> * i, six_bit_vector(low, high, 2 * i));
            store_blocks(head.min + 4 * kRowsAt<At> * i, six_bit_vector(low, high, 2 * i + 1));
        }
        head.dmin = load_f16(unit + F::kMinAt);
    }
    template <class At>
    TSR_INLINE auto scale(At unit, const HeadAt<At>& head, int b, int) {
        return load_u8_scale(rows_of(unit, head.scale + kRowsAt<At> * b));
    }
    template <class At>
    TSR_INLINE auto min(At unit, const HeadAt<At>& head, int b) {
        return mul(head.dmin, to_float(load_u8_words(rows_of(unit, head.min + kRowsAt<At> * b))));
    }
};

template <>
struct Unpack<Q4_K> : UnpackKScaled<Q4_K> {};
template <>
struct Unpack<Q5_K> : UnpackKScaled<Q5_K> {};

/// A scale for each half of a block; `halves` gives the two of each row.
template <>
struct Unpack<Q6_K> : UnpackPlain<Q6_K> {
    static constexpr int kScales = 2;
    static constexpr bool kZeroScaled = true;
    template <class At>
    TSR_INLINE auto halves(At unit, int b) {
        return load_i8_halves(unit + Q6_K::kScalesAt + 16 * b);
    }
    template <class At>
    TSR_INLINE auto scale(At unit, const Head&, int b, int i) {
        return half_scale(halves(unit, b), i);
    }
    template <class At>
    TSR_INLINE auto zero(At unit, const Head&, int b) {
        return left16(halves(unit, b), 5);
    }
};

/// Signed scales of each half of a block, decoded once a unit.
template <class At>
struct HalvesHead {
    alignas(4 * kRowsAt<At>) uint8_t scale[16 * kRowsAt<At>];
};
/// 16 bytes of each of two blocks.
TSR_INLINE void store_block_halves(uint8_t* p, Int v) { store(p, v); }

template <>
struct Unpack<Q3_K> : UnpackPlain<Q3_K> {
    template <class At>
    using HeadAt = HalvesHead<At>;
    using Head = HeadAt<const uint8_t*>;
    static constexpr int kScales = 2;
    static constexpr bool kZeroScaled = true;
    template <class At>
    TSR_INLINE void open(At unit, HeadAt<At>& head) {
        TSR_UNROLL
        for (int f = 0; f < 4; f++) {
            const auto code = six_bit_vector(unit + Q3_K::kLowAt, unit + Q3_K::kHighAt, f);
            store_block_halves(head.scale + 4 * kRowsAt<At> * f, sub8(code, bytes_like(code, 32)));
        }
    }
    template <class At>
    TSR_INLINE auto halves(At unit, const HeadAt<At>& head, int b) {
        return load_i8_halves(rows_of(unit, head.scale + 2 * kRowsAt<At> * b));
    }
    template <class At>
    TSR_INLINE auto scale(At unit, const HeadAt<At>& head, int b, int i) {
        return half_scale(halves(unit, head, b), i);
    }
    template <class At>
    TSR_INLINE auto zero(At unit, const HeadAt<At>& head, int b) {
        return left16(halves(unit, head, b), 2);
    }
};

template <>
struct Unpack<Q2_K> : UnpackPlain<Q2_K> {
    static constexpr int kScales = 2;
    template <class At>
    TSR_INLINE auto halves(At unit, int b) {
        return load_u8_halves(unit + Q2_K::kScalesAt + 16 * b);
    }
    template <class At>
    TSR_INLINE auto scale(At unit, const Head&, int b, int i) {
        const auto bytes = halves(unit, b);
        return half_scale(both(bytes, bytes_like(bytes, 15)), i);
    }
    template <class At>
    TSR_INLINE auto min_halves(At unit, const Head&, int b) {
        return right16(halves(unit, b), 4);
    }
};

template <>
struct Unpack<IQ4_XS> : UnpackPlain<IQ4_XS> {
    struct Head {
        alignas(32) uint8_t scale[64];
    };
    static constexpr int kScales = 1, kZero = kByteZero<IQ4_XS>;
    static constexpr bool kBySigns = kBytesBySigns, kZeroScaled = kZero != 0;
    TSR_INLINE void open(const uint8_t* unit, Head& head) {
        join_six_bits_16(unit + IQ4_XS::kLowAt, unit + IQ4_XS::kHighAt, head.scale, 32);
    }
    template <class At>
    TSR_INLINE auto operand(At block, int g) {
        return iq4_operand(block, g);
    }
    TSR_INLINE Int scale(const uint8_t*, const Head& head, int b, int) {
        return load_i8_scale(head.scale + 8 * b);
    }
    TSR_INLINE Int zero(const uint8_t*, const Head& head, int b) {
        return left16(load_i8_twice(head.scale + 8 * b), 7);
    }
};

template <>
struct Unpack<TQ2_0> : UnpackPlain<TQ2_0> {};

/// The bytes are fractions whose next ternary digit is the carry of a multiplication by 3: digits are
/// extracted one after the other, in the order of the blocks.
template <>
struct Unpack<TQ1_0> : UnpackPlain<TQ1_0> {
    struct Head {
        alignas(32) uint8_t rest[32 * TQ1_0::kVectors];
        alignas(32) uint8_t digit[32 * 8];
    };
    static constexpr bool kOpensBlocks = true;
    TSR_INLINE Int scale(const uint8_t*, const Head&, int, int) { return none(); }
    TSR_INLINE Int zero(const uint8_t*, const Head&, int) { return none(); }
    TSR_INLINE void open(const uint8_t* unit, Head& head) {
        TSR_UNROLL
        for (int v = 0; v < TQ1_0::kVectors; v++)
            store(head.rest + 32 * v, load(unit + TQ1_0::kBytesAt + 32 * v));
    }
    TSR_INLINE void open_block(const uint8_t*, int b, Head& head) {
        static constexpr uint8_t kVector[3][8] = {
            {0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 8, 9, 10, 11}, {8, 9, 10, 11, 12, 12, 12, 12}};
        const uint8_t* vector = kVector[b < 5 ? 0 : b < 7 ? 1 : 2];
        TSR_UNROLL
        for (int g = 0; g < 8; g++) {
            uint8_t* rest = head.rest + 32 * vector[g];
            const Int v = load(rest);
            store(head.digit + 32 * g, top_ternary_digit(v));
            store(rest, add8(add8(v, v), v));
        }
    }
    TSR_INLINE Int operand(const Head& head, int g) { return load(head.digit + 32 * g); }
};

}  // namespace
}  // namespace tessera::kernels

#include "quants/kernels/packed_codebooks.inl"
