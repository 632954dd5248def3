// How the codebook types' packed units become operands (packed_unpack.inl has the other types): words of 8
// rows are looked up one by one, which takes most of the time, and joined; signs come from a plane of bits,
// as vectors. Layouts: quants/pack/grids.h.
namespace tessera::kernels {
namespace {

/// Values decoded once a unit (scales, high bits that are extra bits) and once a block (the rest).
struct GridHead {
    alignas(32) uint8_t scale[128];
    alignas(32) uint8_t high[32];    // byte 8 * (block % 4) + row: 4 bits of blocks 0-3, and of blocks 4-7
    alignas(32) uint16_t index[64];  // byte 8 * word + row
    const uint8_t* low;              // the same of an index without other bits
    Int signs;                       // as the plane of single bits has them
};

/// The extra fields of a unit, byte 8 * p + row = [ field of block p + 4 : 4 | of block p : 4 ].
template <class F>
TSR_INLINE Int extra_fields(const uint8_t* unit) {
    static constexpr uint8_t kExtra[4] = {0, 0, 0, 0xaa};
    const Int mask = broadcast4(kExtra);
    Int fields = none();
    TSR_UNROLL
    for (int p = 0; p < 4; p++) {
        const Int even = both(load(unit + codes_at<F>(2 * p)), mask);
        const Int odd = both(load(unit + codes_at<F>(2 * p + 1)), mask);
        fields = either(fields, right32(either(right16(even, 1), odd), 8 * (3 - p)));
    }
    return bytes_of_rows(fields);
}

/// A plane of 7 signs for each 8 weights, with the eighth sign put in its extra bit: neighbouring bits of a
/// byte belong to the same 8 weights, and so do the bits of the 4 bytes of a row.
TSR_INLINE Int with_even_signs(Int plane) {
    static constexpr uint8_t kSigns[4] = {0xff, 0xff, 0xff, 0x55}, kExtra[4] = {0, 0, 0, 0xaa};
    const Int signs = both(plane, broadcast4(kSigns));
    const Int halves = differ(signs, left32(signs, 16));
    const Int bytes =
        differ(halves, left32(halves, 8));  // the parity of each bit of the 4 bytes, in the last
    return either(signs, both(differ(bytes, left32(bytes, 1)), broadcast4(kExtra)));
}

template <class F>
struct UnpackGrid : UnpackPlain<F> {
    using Head = GridHead;
    static constexpr int kScales = F::kHalves, kZero = kZeroOf<F>;
    static constexpr bool kZeroScaled = kZero != 0, kOpensBlocks = true;
    static constexpr int kZeroShift = F::kZero == 64 ? 6 : 4;
    static_assert(F::kZero == 1 << kZeroShift);

    /// 2 x + 1 of the low or high nibbles x.
    TSR_INLINE Int odd_scales(Int nibbles, int at) {
        return either(field_at(nibbles, 4, at, 1), broadcast_byte(1));
    }
    TSR_INLINE void open(const uint8_t* unit, Head& head) {
        [[maybe_unused]] Int extra = none();
        if constexpr (F::kEven) extra = extra_fields<F>(unit);
        if constexpr (F::kEven && F::kHighBits != 0) store(head.high, extra);
        TSR_UNROLL
        for (int i = 0; i < F::kHalves; i++) {
            Int nibbles;
            if constexpr (F::kScaleInHead) {
                nibbles = load(unit + F::kScalesAt + 32 * i);
            } else {
                nibbles = extra;
            }
            store(head.scale + 32 * i, odd_scales(nibbles, 0));
            store(head.scale + 32 * (i + F::kHalves), odd_scales(nibbles, 4));
        }
    }
    TSR_INLINE void open_block(const uint8_t* unit, int b, Head& head) {
        const Int plane = load(unit + codes_at<F>(b));
        head.signs = F::kEven ? with_even_signs(plane) : plane;
        head.low = unit + F::kIndexAt + 8 * F::kWords * b;
        if constexpr (F::kHighBits != 0) {
            uint64_t rows = load_eight(F::kEven ? head.high + 8 * (b % 4) : unit + F::kHighAt + 8 * b);
            if constexpr (F::kEven) rows >>= b & 4;
            TSR_UNROLL
            for (int i = 0; i < F::kWords / 4; i++) {
                const Int high = both(spread_rows<F::kHighBits>(rows >> (4 * F::kHighBits * i)),
                                      broadcast_byte((1 << F::kHighBits) - 1));
                store_halves(head.index + 32 * i, load(head.low + 32 * i), high);
            }
        }
    }

    template <class Index>
    TSR_INLINE Int word(const Index* index, int g) {
        if constexpr (F::kWordK == 4) {
            return look_up_words(F::words(), index + 8 * g);
        } else {
            Int even, odd;
            look_up_pairs(F::words(), index + 8 * (g / 2), even, odd);
            return g % 2 == 0 ? even : odd;
        }
    }
    TSR_INLINE Int operand(const Head& head, int g) {
        Int size;
        if constexpr (F::kHighBits != 0) {
            size = word(head.index, g);
        } else {
            size = word(head.low, g);
        }
        const Int weight = negative_where(size, head.signs, bit_of_group(g));
        return kZero == 0 ? weight : sub8(weight, broadcast_byte(-kZero));
    }
    TSR_INLINE Int scale(const uint8_t*, const Head& head, int b, int i) {
        if constexpr (kScales == 2) {
            return half_scale(load_u8_halves(head.scale + 16 * b), i);
        } else {
            return load_u8_scale(head.scale + 8 * b);
        }
    }
    TSR_INLINE Int zero(const uint8_t*, const Head& head, int b) {
        if constexpr (kScales == 2) {
            return left16(load_u8_halves(head.scale + 16 * b), kZeroShift);
        } else {
            return left16(load_i8_twice(head.scale + 8 * b), kZeroShift);
        }
    }
    TSR_INLINE Flt d(const uint8_t* unit) {
        static constexpr float kFactor = F::kFactor;
        return mul(load_f16(unit), broadcast_float(&kFactor));
    }
};

template <>
struct Unpack<IQ2_XXS> : UnpackGrid<IQ2_XXS> {};
template <>
struct Unpack<IQ2_XS> : UnpackGrid<IQ2_XS> {};
template <>
struct Unpack<IQ2_S> : UnpackGrid<IQ2_S> {};
template <>
struct Unpack<IQ3_XXS> : UnpackGrid<IQ3_XXS> {};
template <>
struct Unpack<IQ3_S> : UnpackGrid<IQ3_S> {};

/// Values decoded once a block of IQ1: scales as bytes, one a row (IQ1_S), or as halfwords, two a row; and
/// the offset of the operands of each word.
struct TernaryHead {
    alignas(32) uint16_t index[32];
    uint8_t scale[8];
    Int halves;
    Int shift[4];
};

template <class F>
struct UnpackTernary : UnpackPlain<F> {
    using Head = TernaryHead;
    static constexpr int kZero = kZeroOf<F>;
    static constexpr bool kZeroScaled = kZero != 0, kOpensBlocks = true;
    TSR_INLINE void open(const uint8_t*, Head&) {}
    /// 1, or -1 where bit `at` of the row's byte at p is set, and the zero point.
    TSR_INLINE Int shift(const uint8_t* p, int at) {
        return add8(negative_where(broadcast_byte(1), row_bytes(p), at), broadcast_byte(kZero));
    }
    TSR_INLINE void read_indices(const uint8_t* unit, int b, Head& head) {
        const Int high = both(spread_nibbles(unit + F::kNibblesAt + 16 * b), broadcast_byte(7));
        store_halves(head.index, load(unit + F::kIndexAt + 32 * b), high);
    }
    TSR_INLINE Int operand(const Head& head, int g) {
        Int even, odd;
        look_up_pairs(kWordsIq1, head.index + 8 * (g / 2), even, odd);
        const Int eight = both(left16(g % 2 == 0 ? even : odd, 3), broadcast_byte(0xf8));
        return add8(eight, head.shift[g / 2]);
    }
    TSR_INLINE Flt d(const uint8_t* unit) {
        static constexpr float kFactor = F::kFactor;
        return mul(load_f16(unit), broadcast_float(&kFactor));
    }
};

template <>
struct Unpack<IQ1_S> : UnpackTernary<IQ1_S> {
    static constexpr int kScales = 1;
    TSR_INLINE void open_block(const uint8_t* unit, int b, Head& head) {
        read_indices(unit, b, head);
        const uint8_t* nibbles = unit + IQ1_S::kNibblesAt + 16 * b;
        const uint64_t even = load_eight(nibbles) >> 1 & 0x44 * kEachByte, odd = load_eight(nibbles + 8);
        const uint64_t bits = even | (odd & 0x88 * kEachByte);
        store_eight((bits & 12 * kEachByte) | (bits >> 5 & 2 * kEachByte) | kEachByte, head.scale);
        head.shift[0] = head.shift[1] = head.shift[2] = head.shift[3] = shift(nibbles + 8, 7);
    }
    TSR_INLINE Int scale(const uint8_t*, const Head& head, int, int) { return load_u8_scale(head.scale); }
    TSR_INLINE Int zero(const uint8_t*, const Head& head, int) {
        return left16(load_i8_twice(head.scale), 4);
    }
};

template <>
struct Unpack<IQ1_M> : UnpackTernary<IQ1_M> {
    static constexpr int kScales = 2;
    /// The two scales of each row of a block, 6 bits of a byte.
    TSR_INLINE uint64_t scales(const uint8_t* unit, int b) {
        const uint8_t* three = unit + IQ1_M::kScalesAt + 24 * (b / 4);
        if (b % 4 != 3) return load_eight(three + 8 * (b % 4)) & 63 * kEachByte;
        return (load_eight(three) >> 6 & 3 * kEachByte) | (load_eight(three + 8) >> 4 & 12 * kEachByte) |
               (load_eight(three + 16) >> 2 & 48 * kEachByte);
    }
    TSR_INLINE void open_block(const uint8_t* unit, int b, Head& head) {
        read_indices(unit, b, head);
        const uint8_t* nibbles = unit + IQ1_M::kNibblesAt + 16 * b;
        TSR_UNROLL
        for (int j = 0; j < 4; j++) head.shift[j] = shift(nibbles + 8 * (j % 2), 3 + 4 * (j / 2));
        const uint64_t both_scales = scales(unit, b);
        uint8_t first[8], second[8];
        store_eight((both_scales << 1 & 14 * kEachByte) | kEachByte, first);
        store_eight((both_scales >> 2 & 14 * kEachByte) | kEachByte, second);
        head.halves = either(load_u8_words(first), left32(load_u8_words(second), 16));
    }
    TSR_INLINE Int scale(const uint8_t*, const Head& head, int, int i) { return half_scale(head.halves, i); }
    TSR_INLINE Int zero(const uint8_t*, const Head& head, int) { return left16(head.halves, 4); }
};

}  // namespace
}  // namespace tessera::kernels
