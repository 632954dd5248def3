// How a type's packed unit becomes operands: one struct a type, over the verbs of the unit that includes
// this.
//   kPlanes   operand vectors a group: 2 where a weight has more than 6 bits, operand = plane 0 + 16 * plane
//   1 kDepth    groups whose dot_bytes may be added as halfwords: depth * 2 * largest operand * 127 <= 32767
//   group(i)  the order in which groups are best unpacked; within a half block if kScales = 2
//   kScales   integer scale vectors a block; 0 = the scale is 1
//   kZeroScaled  the zero point is multiplied by the integer scale, so it differs between rows
// A Head is what is decoded once a unit; b is a block of 32 weights, g a group of 4 within it.
namespace tessera::kernels {
namespace {

/// Moves the field at bit `from` of every byte to bit `to` and clears the rest.
template <int Bits>
TSR_INLINE Int field_at(Int v, int from, int to) {
    const Int mask = splat_byte(((1 << Bits) - 1) << to);
    return both(from > to ? right16(v, from - to) : from < to ? left16(v, to - from) : v, mask);
}

template <int Bits>
TSR_INLINE Int code_vector(const uint8_t* block, int g) {
    if constexpr (Bits == 8) return load(block + 32 * g);
    constexpr int kPairAt = Bits & 4, kBitAt = Bits & 6;
    Int code = none();
    if constexpr ((Bits & 4) != 0) {
        code = field_at<4>(load(block + 32 * (g / 2)), 4 * (g % 2), 0);
        block += 128;
    }
    if constexpr ((Bits & 2) != 0) {
        const Int pair = field_at<2>(load(block + 32 * (g / 4)), 2 * (g % 4), kPairAt);
        code = kPairAt != 0 ? either(code, pair) : pair;
        block += 64;
    }
    if constexpr ((Bits & 1) != 0) code = either(code, field_at<1>(load(block), bit_of_group(g), kBitAt));
    return code;
}

struct NoHead {};

/// Float scales only, one unit a block.
template <class F, int Depth>
struct UnpackPlain {
    using Format = F;
    using Head = NoHead;
    static constexpr int kPlanes = 1, kDepth = Depth, kScales = 0;
    static constexpr bool kZeroScaled = false;
    TSR_INLINE int group(int i) { return i; }
    TSR_INLINE void open(const uint8_t*, Head&) {}
    TSR_INLINE Int operand(const uint8_t* block, int g, int) { return code_vector<F::kBits>(block, g); }
    TSR_INLINE Int scale(const uint8_t*, const Head&, int, int) { return none(); }
    TSR_INLINE Int zero(const uint8_t*, const Head&, int) { return none(); }
    TSR_INLINE Int min_halves(const uint8_t*, const Head&, int) { return none(); }
    TSR_INLINE Flt min(const uint8_t* unit, const Head&, int) { return load_f16(unit + F::kMinAt); }
    TSR_INLINE Flt d(const uint8_t* unit) { return load_f16(unit); }
};

template <class F>
struct Unpack;

template <>
struct Unpack<Q4_0> : UnpackPlain<Q4_0, 8> {};
template <>
struct Unpack<Q4_1> : UnpackPlain<Q4_1, 8> {};
template <>
struct Unpack<Q5_0> : UnpackPlain<Q5_0, 4> {};
template <>
struct Unpack<Q5_1> : UnpackPlain<Q5_1, 4> {};

template <>
struct Unpack<Q8_0> : UnpackPlain<Q8_0, 8> {
    static constexpr int kPlanes = 2;
    TSR_INLINE Int operand(const uint8_t* block, int g, int plane) {
        return field_at<4>(load(block + 32 * g), 4 * plane, 0);
    }
};

/// The two halves of IQ4_NL::operand.
TSR_INLINE Int iq4_operand(const uint8_t* block, int g, int plane) {
    alignas(16) static constexpr uint8_t kHalves[2][16] = {
        {1, 8, 13, 15, 15, 13, 10, 6, 1, 13, 9, 6, 5, 5, 9, 1},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12, 13, 15}};
    return look_up(twice(kHalves[plane]), code_vector<4>(block, g));
}

template <>
struct Unpack<IQ4_NL> : UnpackPlain<IQ4_NL, 8> {
    static constexpr int kPlanes = 2;
    TSR_INLINE Int operand(const uint8_t* block, int g, int plane) { return iq4_operand(block, g, plane); }
};

template <>
struct Unpack<MXFP4> : UnpackPlain<MXFP4, 4> {
    TSR_INLINE Int operand(const uint8_t* block, int g, int) {
        alignas(16) static constexpr uint8_t kOperand[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                             12, 11, 10, 9,  8,  6,  4,  0};
        return look_up(twice(kOperand), code_vector<4>(block, g));
    }
    TSR_INLINE Flt d(const uint8_t* unit) { return load_e8m0_half(unit); }
};

/// Integer scales as bytes, decoded once a unit.
template <int NScale, int NMin>
struct ByteHead {
    alignas(32) uint8_t scale[NScale];
    alignas(32) uint8_t min[NMin];
    Flt dmin;
};

/// A vector of 6-bit fields of width 32: field f of the low nibbles and high pairs of a head.
TSR_INLINE Int six_bit_vector(const uint8_t* low, const uint8_t* high, int f) {
    const Int nibble = field_at<4>(load(low + 32 * (f / 2)), 4 * (f % 2), 0);
    return either(nibble, field_at<2>(load(high), 2 * f, 4));
}

template <class F, int Depth>
struct UnpackKScaled : UnpackPlain<F, Depth> {
    using Head = ByteHead<64, 64>;
    static constexpr int kScales = 1;
    TSR_INLINE void open(const uint8_t* unit, Head& head) {
        const uint8_t *low = unit + F::kLowAt, *high = unit + F::kHighAt;
        TSR_UNROLL
        for (int i = 0; i < 2; i++) {
            store(head.scale + 32 * i, six_bit_vector(low, high, 2 * i));
            store(head.min + 32 * i, six_bit_vector(low, high, 2 * i + 1));
        }
        head.dmin = load_f16(unit + F::kMinAt);
    }
    TSR_INLINE Int scale(const uint8_t*, const Head& head, int b, int) {
        return load_u8_twice(head.scale + 8 * b);
    }
    TSR_INLINE Flt min(const uint8_t*, const Head& head, int b) {
        return mul(head.dmin, to_float(load_u8_words(head.min + 8 * b)));
    }
};

template <>
struct Unpack<Q4_K> : UnpackKScaled<Q4_K, 8> {};
template <>
struct Unpack<Q5_K> : UnpackKScaled<Q5_K, 4> {};

/// A scale for each half of a block; `halves` gives the two of each row.
template <>
struct Unpack<Q6_K> : UnpackPlain<Q6_K, 2> {
    static constexpr int kScales = 2;
    static constexpr bool kZeroScaled = true;
    TSR_INLINE Int halves(const uint8_t* unit, int b) {
        return load_i8_halves(unit + Q6_K::kScalesAt + 16 * b);
    }
    TSR_INLINE Int scale(const uint8_t* unit, const Head&, int b, int i) {
        return repeat_half(halves(unit, b), i);
    }
    TSR_INLINE Int zero(const uint8_t* unit, const Head&, int b) { return left16(halves(unit, b), 5); }
};

template <>
struct Unpack<Q3_K> : UnpackPlain<Q3_K, 4> {
    struct Head {
        alignas(32) uint8_t scale[128];
    };
    static constexpr int kScales = 2;
    static constexpr bool kZeroScaled = true;
    /// Groups g and g + 2 are joined side by side in the halves of a byte.
    TSR_INLINE int group(int i) { return (i & 4) | (i & 1) << 1 | (i & 2) >> 1; }
    TSR_INLINE Int operand(const uint8_t* block, int g, int) {
        const Int pairs = load(block + 32 * (g / 4)), bits = load(block + 64);
        const int at = bit_of_group(g & 5);
        const Int two = both(g % 2 != 0 ? right16(pairs, 2) : pairs, splat_byte(0x33));
        const Int third = both(at < 2 ? left16(bits, 2 - at) : right16(bits, at - 2), splat_byte(0x44));
        return field_at<4>(either(two, third), 4 * (g / 2 % 2), 0);
    }
    TSR_INLINE void open(const uint8_t* unit, Head& head) {
        TSR_UNROLL
        for (int f = 0; f < 4; f++) {
            const Int code = six_bit_vector(unit + Q3_K::kLowAt, unit + Q3_K::kHighAt, f);
            store(head.scale + 32 * f, sub8(code, splat_byte(32)));
        }
    }
    TSR_INLINE Int scale(const uint8_t*, const Head& head, int b, int i) {
        return repeat_half(load_i8_halves(head.scale + 16 * b), i);
    }
    TSR_INLINE Int zero(const uint8_t*, const Head& head, int b) {
        return left16(load_i8_halves(head.scale + 16 * b), 2);
    }
};

template <>
struct Unpack<Q2_K> : UnpackPlain<Q2_K, 4> {
    static constexpr int kScales = 2;
    TSR_INLINE Int halves(const uint8_t* unit, int b) {
        return load_u8_halves(unit + Q2_K::kScalesAt + 16 * b);
    }
    TSR_INLINE Int scale(const uint8_t* unit, const Head&, int b, int i) {
        return repeat_half(both(halves(unit, b), splat_half(15)), i);
    }
    TSR_INLINE Int min_halves(const uint8_t* unit, const Head&, int b) { return right16(halves(unit, b), 4); }
};

template <>
struct Unpack<IQ4_XS> : UnpackPlain<IQ4_XS, 8> {
    struct Head {
        alignas(32) uint8_t scale[64];
    };
    static constexpr int kPlanes = 2, kScales = 2;
    static constexpr bool kZeroScaled = true;
    TSR_INLINE void open(const uint8_t* unit, Head& head) {
        join_six_bits_16(unit + IQ4_XS::kLowAt, unit + IQ4_XS::kHighAt, head.scale, 32);
    }
    TSR_INLINE Int operand(const uint8_t* block, int g, int plane) { return iq4_operand(block, g, plane); }
    TSR_INLINE Int scale(const uint8_t*, const Head& head, int b, int i) {
        return left16(load_i8_twice(head.scale + 8 * b), 4 * i);
    }
    TSR_INLINE Int zero(const uint8_t*, const Head& head, int b) {
        return left16(load_i8_twice(head.scale + 8 * b), 7);
    }
};

}  // namespace
}  // namespace tessera::kernels
