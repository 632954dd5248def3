// Encoders of blocks with scales of their own: eight blocks at once, one a lane.
#include "quants/encode/input.inl"

namespace tessera::quants {
namespace {

/// The four-bit codes of 32 weights in split halves.
TSR_INLINE void put_split(const uint8_t* codes, uint8_t* qs) {
    for (int i = 0; i < 16; i++) qs[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

/// Their fifth bits.
TSR_INLINE void put_fifth(const uint8_t* codes, uint8_t* qh) {
    uint32_t bits = 0;
    for (int e = 0; e < 32; e++) bits |= static_cast<uint32_t>(codes[e] >> 4) << e;
    store_u32(bits, qh);
}

/// Eight blocks of the input.
template <class Block>
struct Eight {
    static constexpr int kWeights = Block::kWeights;
    Group<kWeights> group;
    float factors[kLanes], inverses[kLanes];
    bool finite[kLanes];

    /// Lanes from `count` on are zeros.
    static void load(Eight& eight, const float* x, const float* importance, int count) {
        for (int l = 0; l < kLanes; l++) {
            static constexpr float kZeros[kWeights] = {};
            const bool given = l < count;
            const float* from = given ? x + l * kWeights : kZeros;
            const float* weights = given && importance ? importance + l * kWeights : nullptr;
            const Norm norm = norm_of(from, weights, kWeights);
            load_lane(eight.group, l, from, weights, norm);
            eight.factors[l] = norm.factor;
            eight.inverses[l] = norm.inverse;
            eight.finite[l] = norm.finite;
        }
    }
};

/// Types with x = d * level: Format says how a block stores its codes.
template <class Format, class Block>
TSR_INLINE void encode_scaled(const float* x, const float* importance, Block* out, int count) {
    using Levels = typename Format::Levels;
    Eight<Block> eight;
    Eight<Block>::load(eight, x, importance, count);
    Flt step = best_steps<Levels>(eight.group, Format::kScan, Format::kRefine);
    uint16_t halves[kLanes];
    round_to_halves(step, eight.factors, eight.inverses, halves);
    uint8_t codes[kLanes * Block::kWeights];
    put_codes<Levels>(eight.group, step, all(0), codes);
    for (int l = 0; l < count; l++) {
        Format::put(codes + Block::kWeights * l, out[l]);
        store_u16(eight.finite[l] ? halves[l] : kHalfNan, out[l].d);
    }
}

/// Types with x = d * code + m. The offset is rounded first and the step then fitted to it.
template <class Format, class Block>
TSR_INLINE void encode_lined(const float* x, const float* importance, Block* out, int count) {
    constexpr int kTop = Format::kTop;
    Eight<Block> eight;
    Eight<Block>::load(eight, x, importance, count);
    Line line = best_lines<kTop>(eight.group, Format::kScan, Format::kRefine, false);
    uint16_t steps[kLanes], offsets[kLanes];
    round_to_halves(line.offset, eight.factors, eight.inverses, offsets);
    const LineSums s = sums_at<kTop>(eight.group, line);
    line.step = line.step + quotient(s.code_rest, s.code_code);
    round_to_halves(line.step, eight.factors, eight.inverses, steps);
    uint8_t codes[kLanes * Block::kWeights];
    put_codes<Uniform<0, kTop>>(eight.group, line.step, line.offset, codes);
    for (int l = 0; l < count; l++) {
        Format::put(codes + Block::kWeights * l, out[l]);
        store_u16(eight.finite[l] ? steps[l] : kHalfNan, out[l].d);
        store_u16(eight.finite[l] ? offsets[l] : kHalfNan, out[l].m);
    }
}

struct FormatQ4_0 {
    using Levels = Uniform<-8, 7>;
    static constexpr Scan kScan = {0.74f, 1.045f, 18};
    static constexpr int kRefine = 2;
    TSR_INLINE void put(const uint8_t* codes, BlockQ4_0& b) { put_split(codes, b.qs); }
};

struct FormatQ5_0 {
    using Levels = Uniform<-16, 15>;
    static constexpr Scan kScan = {0.86f, 1.03f, 18};
    static constexpr int kRefine = 2;
    TSR_INLINE void put(const uint8_t* codes, BlockQ5_0& b) {
        put_split(codes, b.qs);
        put_fifth(codes, b.qh);
    }
};

struct FormatQ8_0 {
    using Levels = Uniform<-127, 127>;
    static constexpr Scan kScan = {0.97f, 1.0025f, 18};
    static constexpr int kRefine = 1;
    TSR_INLINE void put(const uint8_t* codes, BlockQ8_0& b) {
        for (int e = 0; e < b.kWeights; e++) b.qs[e] = static_cast<int8_t>(codes[e] - 127);
    }
};

struct FormatIQ4_NL {
    using Levels = Iq4Levels;
    static constexpr Scan kScan = {0.70f, 1.055f, 16};
    static constexpr int kRefine = 2;
    TSR_INLINE void put(const uint8_t* codes, BlockIQ4_NL& b) { put_split(codes, b.qs); }
};

struct FormatTQ2_0 {
    using Levels = Uniform<-1, 1>;
    static constexpr Scan kScan = {1.0f, 1.1f, 24};
    static constexpr int kRefine = 3;
    TSR_INLINE void put(const uint8_t* codes, BlockTQ2_0& b) {
        for (int i = 0; i < 64; i++) {
            const uint8_t* c = codes + 128 * (i / 32) + i % 32;
            b.qs[i] = static_cast<uint8_t>(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
        }
    }
};

struct FormatTQ1_0 {
    using Levels = FormatTQ2_0::Levels;
    static constexpr Scan kScan = FormatTQ2_0::kScan;
    static constexpr int kRefine = FormatTQ2_0::kRefine;

    /// `digits` codes, `stride` apart, the first the most significant of five.
    TSR_INLINE uint8_t pack(const uint8_t* codes, int stride, int digits) {
        int number = 0;
        for (int n = 0; n < 5; n++) number = number * 3 + (n < digits ? codes[n * stride] : 0);
        return static_cast<uint8_t>((number * 256 + 242) / 243);
    }
    TSR_INLINE void put(const uint8_t* codes, BlockTQ1_0& b) {
        for (int i = 0; i < 32; i++) b.qs[i] = pack(codes + i, 32, 5);
        for (int i = 0; i < 16; i++) b.qs[32 + i] = pack(codes + 160 + i, 16, 5);
        for (int i = 0; i < 4; i++) b.qh[i] = pack(codes + 240 + i, 4, 4);
    }
};

struct FormatQ4_1 {
    static constexpr int kTop = 15;
    static constexpr LineScan kScan = {0.95f, -0.05f, 6, 0.004f, 10};
    static constexpr int kRefine = 2;
    TSR_INLINE void put(const uint8_t* codes, BlockQ4_1& b) { put_split(codes, b.qs); }
};

struct FormatQ5_1 {
    static constexpr int kTop = 31;
    static constexpr LineScan kScan = {0.975f, -0.025f, 6, 0.0025f, 10};
    static constexpr int kRefine = 2;
    TSR_INLINE void put(const uint8_t* codes, BlockQ5_1& b) {
        put_split(codes, b.qs);
        put_fifth(codes, b.qh);
    }
};

/// MXFP4 has powers of two for steps: those around the largest weight are tried.
TSR_INLINE void encode_powers(const float* x, const float* importance, BlockMXFP4* out, int count) {
    Eight<BlockMXFP4> eight;
    Eight<BlockMXFP4>::load(eight, x, importance, count);
    // Weights lie below 2 in magnitude and the largest level is 12: 2^-2 clips nothing.
    Flt best = all(0.25f), least = sums_at<Mxfp4Levels>(eight.group, best).error;
    constexpr float kFiner[] = {0.125f, 0.0625f};
    for (const float candidate : kFiner) {
        const Flt error = sums_at<Mxfp4Levels>(eight.group, all(candidate)).error;
        best = select(error < least, all(candidate), best);
        least = min(error, least);
    }
    uint8_t codes[kLanes * 32];
    float steps[kLanes];
    put_codes<Mxfp4Levels>(eight.group, best, all(0), codes);
    store(steps, best);
    for (int l = 0; l < count; l++) {
        // steps * inverse = 2^(e - 128)
        const int exponent = static_cast<int>(__builtin_bit_cast(uint32_t, steps[l]) >> 23) +
                             static_cast<int>(__builtin_bit_cast(uint32_t, eight.inverses[l]) >> 23) - 127 +
                             1;
        put_split(codes + 32 * l, out[l].qs);
        out[l].e = static_cast<uint8_t>(exponent < 0 ? 0 : exponent);
    }
}

}  // namespace
}  // namespace tessera::quants
