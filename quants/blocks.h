#pragma once
// The blocks that a GGUF file stores: one struct a type, byte for byte, with a picture of its bits and the
// formula that turns it into weights.
//
// Every field is made of bytes, so a block may lie at any address and has no padding. Numbers of more
// than one byte are little endian; a scale written d, m or dmin is an IEEE half. Rows are consecutive blocks.
// In the pictures the highest bit of a byte stands on the left, e is the index of a weight within its block,
// and / is integer division.
//
// Layouts after ggml (ggml/src/ggml-common.h and gguf-py/gguf/quants.py of ggml-org/llama.cpp). Every product
// below has at most 24 significant bits and is therefore exact in f32: a decoder rounds only where the
// formula adds.
//
// Included by ISA units: only C headers, and the functions are `static`, so that a unit compiled for a newer
// instruction set leaves no weak symbol that the linker could pick for every processor.
#include <stdint.h>

namespace tessera::quants {

/// A little-endian 16-bit field.
static inline uint32_t load_u16(const uint8_t* bytes) {
    return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8;
}

/// A little-endian 32-bit field.
static inline uint32_t load_u32(const uint8_t* bytes) { return load_u16(bytes) | load_u16(bytes + 2) << 16; }

static inline void store_u16(uint32_t value, uint8_t* bytes) {
    bytes[0] = static_cast<uint8_t>(value);
    bytes[1] = static_cast<uint8_t>(value >> 8);
}

static inline void store_u32(uint32_t value, uint8_t* bytes) {
    store_u16(value, bytes);
    store_u16(value >> 16, bytes + 2);
}

/// 4-bit field i of bytes that hold two each, the low half first.
static inline int nibble(const uint8_t* bytes, int i) { return (bytes[i / 2] >> (4 * (i % 2))) & 15; }

/// Bit i of a little-endian bit string.
static inline int bit(const uint8_t* bytes, int i) { return (bytes[i / 8] >> (i % 8)) & 1; }

// ---- plain floats: blocks of one weight

struct BlockF32 {
    static constexpr int kWeights = 1;
    uint8_t bits[4];
};

struct BlockF16 {
    static constexpr int kWeights = 1;
    uint8_t bits[2];
};

/// The upper half of an f32.
struct BlockBF16 {
    static constexpr int kWeights = 1;
    uint8_t bits[2];
};

// ---- 32 weights, one scale
// The 4-bit types share one order, "split halves": byte i holds weight i in its low and weight i + 16 in its
// high half.
//
//     qs[i] = [ code of e = i+16 : 4 | code of e = i : 4 ]

/// The 4-bit code of weight e of 32 in split halves.
static inline int split_nibble(const uint8_t* qs, int e) { return (qs[e % 16] >> (4 * (e / 16))) & 15; }

/// x = d * (q - 8)
struct BlockQ4_0 {
    static constexpr int kWeights = 32;
    uint8_t d[2];
    uint8_t qs[16];
};

/// x = d * q + m
struct BlockQ4_1 {
    static constexpr int kWeights = 32;
    uint8_t d[2];
    uint8_t m[2];
    uint8_t qs[16];
};

/// x = d * (q - 16); bit e of qh is the fifth bit of weight e.
struct BlockQ5_0 {
    static constexpr int kWeights = 32;
    uint8_t d[2];
    uint8_t qh[4];
    uint8_t qs[16];
};

/// x = d * q + m; bit e of qh is the fifth bit of weight e.
struct BlockQ5_1 {
    static constexpr int kWeights = 32;
    uint8_t d[2];
    uint8_t m[2];
    uint8_t qh[4];
    uint8_t qs[16];
};

/// x = d * qs[e], qs signed.
struct BlockQ8_0 {
    static constexpr int kWeights = 32;
    uint8_t d[2];
    int8_t qs[32];
};

/// x = d * kIq4Values[q]
struct BlockIQ4_NL {
    static constexpr int kWeights = 32;
    uint8_t d[2];
    uint8_t qs[16];
};

/// x = 2^(e - 128) * kMxfp4Values[q]: OCP Microscaling FP4 (E2M1) with a shared E8M0 scale 2^(e - 127). The
/// table holds the doubled values, which are integers. e = 255 is taken as a plain exponent.
struct BlockMXFP4 {
    static constexpr int kWeights = 32;
    uint8_t e;
    uint8_t qs[16];
};

/// Spaced by the density of normally distributed weights.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Twice the value of each E2M1 code (sign, 2 exponent bits, 1 mantissa bit).
constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static inline int code_at(const BlockQ4_0& b, int e) { return split_nibble(b.qs, e); }
static inline int code_at(const BlockQ4_1& b, int e) { return split_nibble(b.qs, e); }
static inline int code_at(const BlockQ5_0& b, int e) { return split_nibble(b.qs, e) | bit(b.qh, e) << 4; }
static inline int code_at(const BlockQ5_1& b, int e) { return split_nibble(b.qs, e) | bit(b.qh, e) << 4; }
static inline int code_at(const BlockQ8_0& b, int e) { return b.qs[e]; }
static inline int code_at(const BlockIQ4_NL& b, int e) { return split_nibble(b.qs, e); }
static inline int code_at(const BlockMXFP4& b, int e) { return split_nibble(b.qs, e); }

// ---- K-quants: 256 weights, sub-blocks of 16 or 32 with integer scales
// Bits and bit pairs come in planes of 32 bytes, nibbles in planes of 32 bytes per 64 weights:
//
//     1 bit, byte e%32                = [ e/32 = 7 | 6 | 5 | 4 | 3 | 2 | 1 | 0 ]
//     2 bits, byte 32*(e/128) + e%32  = [ e%128/32 = 3 : 2 | 2 : 2 | 1 : 2 | 0 : 2 ]
//     4 bits, byte 32*(e/64) + e%32   = [ e%64/32 = 1 : 4 | 0 : 4 ]

/// The 1, 2 or 4-bit field of weight e of 256 in such planes.
static inline int plane1(const uint8_t* bits, int e) { return (bits[e % 32] >> (e / 32)) & 1; }
static inline int plane2(const uint8_t* qs, int e) {
    return (qs[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32))) & 3;
}
static inline int plane4(const uint8_t* qs, int e) {
    return (qs[32 * (e / 64) + e % 32] >> (4 * (e % 64 / 32))) & 15;
}

/// x = d * scale * q - dmin * min, sub-blocks of 16.
///     scales[j] = [ min : 4 | scale : 4 ]
struct BlockQ2_K {
    static constexpr int kWeights = 256;
    uint8_t scales[16];
    uint8_t qs[64];
    uint8_t d[2];
    uint8_t dmin[2];
};

/// x = d * scale * (q - 4), sub-blocks of 16; q has 2 bits in qs and its third in
/// the plane hmask.
///     scales[0..7]  [ low 4 bits of scale j+8 : 4 | of scale j : 4 ]
///     scales[8..11] [ high 2 bits of scale j+12 | j+8 | j+4 | j ]; the 6-bit value less 32 is the scale
struct BlockQ3_K {
    static constexpr int kWeights = 256;
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint8_t d[2];
};

/// x = d * scale * q - dmin * min, sub-blocks of 32 with 6-bit scales and minima; q in planes of 4 bits.
///     scales, j = 0..3:    [j]   = [ bits 4-5 of scale j+4 : 2 | scale j : 6 ]
///                          [j+4] = [ bits 4-5 of min   j+4 : 2 | min   j : 6 ]
///                          [j+8] = [ bits 0-3 of min j+4 : 4 | bits 0-3 of scale j+4 : 4 ]
struct BlockQ4_K {
    static constexpr int kWeights = 256;
    uint8_t d[2];
    uint8_t dmin[2];
    uint8_t scales[12];
    uint8_t qs[128];
};

/// As Q4_K, with the fifth bit of q in the plane qh.
struct BlockQ5_K {
    static constexpr int kWeights = 256;
    uint8_t d[2];
    uint8_t dmin[2];
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
};

/// x = d * scale * (q - 32), sub-blocks of 16 with signed 8-bit scales.
///     ql[64*(e/128) + e%64] = [ low 4 bits, e%128/64 = 1 : 4 | 0 : 4 ]
///     qh                      the high 2 bits, in planes of 2 bits
struct BlockQ6_K {
    static constexpr int kWeights = 256;
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint8_t d[2];
};

/// x = d * scale * kIq4Values[q], sub-blocks of 32 in split halves; the 6-bit value less 32 is the scale.
///     scales_l[j/2] = [ low 4 bits of scale j = odd : 4 | even : 4 ]
///     scales_h        bits 2j and 2j+1 are the high bits of scale j
struct BlockIQ4_XS {
    static constexpr int kWeights = 256;
    uint8_t d[2];
    uint8_t scales_h[2];
    uint8_t scales_l[4];
    uint8_t qs[128];
};

static inline int code_at(const BlockQ2_K& b, int e) { return plane2(b.qs, e); }
static inline int code_at(const BlockQ3_K& b, int e) { return plane2(b.qs, e) | plane1(b.hmask, e) << 2; }
static inline int code_at(const BlockQ4_K& b, int e) { return plane4(b.qs, e); }
static inline int code_at(const BlockQ5_K& b, int e) { return plane4(b.qs, e) | plane1(b.qh, e) << 4; }
static inline int code_at(const BlockQ6_K& b, int e) {
    return ((b.ql[64 * (e / 128) + e % 64] >> (4 * (e % 128 / 64))) & 15) | plane2(b.qh, e) << 4;
}
static inline int code_at(const BlockIQ4_XS& b, int e) { return split_nibble(b.qs + 16 * (e / 32), e % 32); }

/// Scale and minimum j of the 12 bytes that Q4_K and Q5_K share.
static inline int k_scale(const uint8_t* scales, int j) {
    return j < 4 ? scales[j] & 63 : (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
}
static inline int k_min(const uint8_t* scales, int j) {
    return j < 4 ? scales[j + 4] & 63 : (scales[j + 4] >> 4) | (scales[j] >> 6) << 4;
}

/// The integer scale of sub-block j, its offset subtracted.
static inline int scale_at(const BlockQ2_K& b, int j) { return b.scales[j] & 15; }
static inline int scale_at(const BlockQ3_K& b, int j) {
    const int low = (b.scales[j % 8] >> (4 * (j / 8))) & 15;
    const int high = (b.scales[8 + j % 4] >> (2 * (j / 4))) & 3;
    return (low | high << 4) - 32;
}
static inline int scale_at(const BlockQ4_K& b, int j) { return k_scale(b.scales, j); }
static inline int scale_at(const BlockQ5_K& b, int j) { return k_scale(b.scales, j); }
static inline int scale_at(const BlockQ6_K& b, int j) { return b.scales[j]; }
static inline int scale_at(const BlockIQ4_XS& b, int j) {
    const int high = static_cast<int>(load_u16(b.scales_h) >> (2 * j)) & 3;
    return (nibble(b.scales_l, j) | high << 4) - 32;
}

/// The integer minimum of sub-block j.
static inline int min_at(const BlockQ2_K& b, int j) { return b.scales[j] >> 4; }
static inline int min_at(const BlockQ4_K& b, int j) { return k_min(b.scales, j); }
static inline int min_at(const BlockQ5_K& b, int j) { return k_min(b.scales, j); }

// ---- codebook types: 256 weights, groups of 8 (or 4) magnitudes looked up at once
// The codebooks are in quants/ref/codebooks.h. Signs come as one bit a weight, bit i of a byte for weight i
// of 8, set = negative. XXS and XS store 7 of the 8: the last one makes the number of negative weights even.

/// The 8 sign bits that a 7-bit sign field stands for.
static inline uint32_t even_signs(uint32_t field) {
    const uint32_t signs = field & 127;
    uint32_t parity = signs ^ signs >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return signs | (parity & 1) << 7;
}

/// x = d * (scale + 1/2) / 4 * grid[index][i] * sign; 8 sub-blocks of 32, 8 bytes each.
///     qs[8j+0..3]  the indices of 4 groups of 8 into the 256 words of kGridIq2Xxs
///     qs[8j+4..7]  [ scale : 4 | signs of group 3 : 7 | 2 : 7 | 1 : 7 | 0 : 7 ]
struct BlockIQ2_XXS {
    static constexpr int kWeights = 256;
    uint8_t d[2];
    uint8_t qs[64];
};

/// x = d * (scale + 1/2) / 4 * grid[index][i] * sign; sub-blocks of 16, nibble j of scales.
///     qs[2g..2g+1]  of group g of 8: [ signs : 7 | index into the 512 words of kGridIq2Xs : 9 ]
struct BlockIQ2_XS {
    static constexpr int kWeights = 256;
    uint8_t d[2];
    uint8_t qs[64];
    uint8_t scales[8];
};

/// x = d * (scale + 1/2) / 4 * grid[index][i] * sign; sub-blocks of 16, nibble j of scales.
///     qs[g]     the low 8 bits of the index of group g of 8 into the 1024 words of kGridIq2S
///     qh[g/4]   [ bits 8-9 of the index, g%4 = 3 : 2 | 2 : 2 | 1 : 2 | 0 : 2 ]
///     signs[g]  of group g
struct BlockIQ2_S {
    static constexpr int kWeights = 256;
    uint8_t d[2];
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
};

/// x = d * (scale + 1/2) / 2 * grid[index][i] * sign; sub-blocks of 32.
///     qs[g]          the index of group g of 4 into the 256 words of kGridIq3Xxs
///     signs_scale    4 bytes a sub-block: [ scale : 4 | signs of 8 weights: 3 : 7 | 2 : 7 | 1 : 7 | 0 : 7 ]
struct BlockIQ3_XXS {
    static constexpr int kWeights = 256;
    uint8_t d[2];
    uint8_t qs[64];
    uint8_t signs_scale[32];
};

/// x = d * (1 + 2 * scale) * grid[index][i] * sign; sub-blocks of 32, nibble j of scales.
///     qs[g]     the low 8 bits of the index of group g of 4 into the 512 words of kGridIq3S
///     qh        bit g is bit 8 of that index
///     signs[h]  of group h of 8
struct BlockIQ3_S {
    static constexpr int kWeights = 256;
    uint8_t d[2];
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
};

/// x = d * (2 * scale + 1) * (grid[index][i] + shift), grid in {-1, 0, 1}; sub-blocks of 32.
///     qs[g]         the low 8 bits of the index of group g of 8 into the 2048 words of kGridIq1
///     qh[2j..2j+1]  [ shift : 1 | scale : 3 | bits 8-10 of the index, g%4 = 3 : 3 | 2 : 3 | 1 : 3 | 0 : 3 ]
/// shift is +1/8, or -1/8 where its bit is set.
struct BlockIQ1_S {
    static constexpr int kWeights = 256;
    uint8_t d[2];
    uint8_t qs[32];
    uint8_t qh[16];
};

/// As IQ1_S with a shift for each group of 8 and a scale for each 16.
///     nibble g of qh         [ shift of group g : 1 | bits 8-10 of its index : 3 ]
///     scales, 4 u16, k=0..3  [ nibble k of d : 4 | scale 4k+3 : 3 | 4k+2 | 4k+1 | 4k ]
struct BlockIQ1_M {
    static constexpr int kWeights = 256;
    uint8_t qs[32];
    uint8_t qh[16];
    uint8_t scales[8];
};

// ---- ternary types: 256 weights in {-1, 0, 1} times one scale

/// x = d * (q - 1). Five base-3 digits a byte, stored as the fraction ceil(256 * number / 243): multiplying
/// by 3 moves the next digit into bits 8-9.
///     qs[0..31]   digit n of byte i is weight 32n + i
///     qs[32..47]  digit n of byte i is weight 160 + 16n + (i - 32)
///     qh[0..3]    digit n of byte i is weight 240 + 4n + i (four digits)
struct BlockTQ1_0 {
    static constexpr int kWeights = 256;
    uint8_t qs[48];
    uint8_t qh[4];
    uint8_t d[2];
};

/// x = d * (q - 1), q in planes of 2 bits.
struct BlockTQ2_0 {
    static constexpr int kWeights = 256;
    uint8_t qs[64];
    uint8_t d[2];
};

/// Base-3 digit n of a TQ1_0 byte, the most significant first.
static inline int ternary_digit(uint8_t byte, int n) {
    constexpr uint8_t kPow3[5] = {1, 3, 9, 27, 81};
    const uint32_t rest = (byte * static_cast<uint32_t>(kPow3[n])) & 255;
    return static_cast<int>(rest * 3 >> 8);
}

static inline int code_at(const BlockTQ1_0& b, int e) {
    if (e < 160) return ternary_digit(b.qs[e % 32], e / 32);
    if (e < 240) return ternary_digit(b.qs[32 + e % 16], (e - 160) / 16);
    return ternary_digit(b.qh[e % 4], (e - 240) / 4);
}
static inline int code_at(const BlockTQ2_0& b, int e) { return plane2(b.qs, e); }

// ---- the structs have the sizes of types.def

#define TSR_BLOCK_IS_Weight(Name, weights, n_bytes)                              \
    static_assert(sizeof(Block##Name) == n_bytes && alignof(Block##Name) == 1 && \
                  Block##Name::kWeights == weights);
#define TSR_BLOCK_IS_Data(Name, weights, n_bytes)
#define TSR_TYPE(Name, id, name, block, bytes, role) TSR_BLOCK_IS_##role(Name, block, bytes)
#include "quants/types.def"
#undef TSR_TYPE
#undef TSR_BLOCK_IS_Data
#undef TSR_BLOCK_IS_Weight

}  // namespace tessera::quants
