#pragma once
// Building blocks of the packed formats: a row's part of a unit as plain numbers, and the moves of bits
// between it, a file's block and a packed unit of 8 rows. The formats: formats.h. Included by ISA units: only
// C headers, everything local to the unit.
#include <stdint.h>
#include <string.h>

#include "quants/blocks.h"
#include "quants/kernels/packed.h"

namespace tessera::kernels {
namespace {

/// One row's part of a unit, as numbers without meaning.
struct RowUnit {
    uint32_t d, m;      // bits of the row's scale and minimum (f16, or an E8M0 byte)
    uint8_t scale[16];  // codes, one per 32 or per 16 weights
    uint8_t min[16];
    uint8_t code[256];
    // Codebook types (grids.h): the low 8 bits of each word's index, and the rest of a block's indices. Where
    // weights have no codes of their own, other bytes.
    uint8_t index[64], high[8];
};

/// How the minimum enters the product (docs/design/numerics.md).
enum class MinKind { None, PerBlock, PerHalf };

inline float bits_to_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

inline float half_bits_to_float(uint32_t h) {
    const uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31)
        return bits_to_float(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0u));
    if (exponent != 0) return bits_to_float(sign | (exponent + 112) << 23 | mantissa << 13);
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

// ---- codes in a file's block

// Eight codes at a time in a word, lowest first: gcc 12 compiles loops over bytes badly.

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lowest byte of a word is the first in memory");

inline uint64_t load_eight(const uint8_t* p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

inline void store_eight(uint64_t v, uint8_t* p) { memcpy(p, &v, sizeof v); }

constexpr uint64_t kEachByte = 0x0101010101010101;

/// 32 codes' low nibbles in split halves.
inline void read_split_halves(const uint8_t* qs, uint8_t* code) {
    for (int i = 0; i < 16; i += 8) {
        const uint64_t eight = load_eight(qs + i);
        store_eight(eight & 15 * kEachByte, code + i);
        store_eight(eight >> 4 & 15 * kEachByte, code + i + 16);
    }
}

inline void write_split_halves(const uint8_t* code, uint8_t* qs) {
    for (int i = 0; i < 16; i += 8) {
        const uint64_t low = load_eight(code + i), high = load_eight(code + i + 16);
        store_eight((low & 15 * kEachByte) | (high & 15 * kEachByte) << 4, qs + i);
    }
}

/// Bit j of `bits` as byte j.
inline uint64_t bits_to_bytes(uint8_t bits) {
    const uint64_t own = bits * kEachByte & 0x8040201008040201;  // byte j keeps bit j
    return (own + 0x7f * kEachByte) >> 7 & kEachByte;
}

/// The inverse: bytes are 0 or 1.
inline uint8_t bytes_to_bits(uint64_t bytes) {
    return static_cast<uint8_t>(bytes * 0x0102040810204080 >> 56);
}

/// The fifth bits of 32 codes, bit i for code i.
inline void read_fifth_bits(const uint8_t* qh, uint8_t* code) {
    for (int i = 0; i < 4; i++) {
        store_eight(load_eight(code + 8 * i) | bits_to_bytes(qh[i]) << 4, code + 8 * i);
    }
}

inline void write_fifth_bits(const uint8_t* code, uint8_t* qh) {
    for (int i = 0; i < 4; i++) qh[i] = bytes_to_bits(load_eight(code + 8 * i) >> 4 & kEachByte);
}

/// 32 codes as a vector of the compiler: a loop over words is vectorized only sometimes, and takes twice the
/// time otherwise.
using Bytes32 [[gnu::vector_size(32)]] = uint64_t;

/// Moves a field of Bits bits of 256 codes, at bit At of the code, from planes of Width bytes. At = 0 goes
/// first: it overwrites.
template <int Bits, int Width, int At>
inline void read_planes(const uint8_t* qs, uint8_t* code) {
    constexpr uint64_t kField = ((1 << Bits) - 1) * kEachByte;
    for (int first = 0; first < 256; first += 8 / Bits * Width, qs += Width) {
        for (int i = 0; i < Width; i += 32) {
            Bytes32 packed, before = {};
            memcpy(&packed, qs + i, sizeof packed);
            for (int field = 0; field < 8 / Bits; field++) {
                uint8_t* to = code + first + field * Width + i;
                if (At != 0) memcpy(&before, to, sizeof before);
                const Bytes32 after = before | (packed >> (Bits * field) & kField) << At;
                memcpy(to, &after, sizeof after);
            }
        }
    }
}

template <int Bits, int Width, int At>
inline void write_planes(const uint8_t* code, uint8_t* qs) {
    constexpr uint64_t kField = ((1 << Bits) - 1) * kEachByte;
    for (int first = 0; first < 256; first += 8 / Bits * Width, qs += Width) {
        for (int i = 0; i < Width; i += 8) {
            uint64_t eight = 0;
            for (int field = 0; field < 8 / Bits; field++) {
                eight |= (load_eight(code + first + field * Width + i) >> At & kField) << (Bits * field);
            }
            store_eight(eight, qs + i);
        }
    }
}

// ---- codes in a packed unit: 32 weights of 8 rows, a vector of 32 bytes for each bit of the code's width.
// Group g is 4 consecutive weights, and 4 * row + t the byte of its weight t in a vector.

/// Bits `from`... of a vector's bytes, which are bits `to`... of a group's codes.
struct CodePart {
    int vector, from, bits, to;
};

/// The place of group g in a byte of single bits: groups g and g + 2 lie 4 bits apart, for the extra bits of
/// codebook types (extra_bit_at).
constexpr int bit_of_group(int g) { return 2 * (g / 4) + g % 2 + 4 * (g / 2 % 2); }

// Codes whose width does not divide 8: as many groups as fit lie whole in the low bits, where a mask extracts
// them, and two or three are split over the bits above. A half block takes few vectors.
constexpr CodePart kParts3[8][2] = {
    {{0, 0, 3, 0}}, {{0, 3, 3, 0}}, {{2, 0, 3, 0}}, {{0, 6, 2, 0}, {2, 6, 1, 2}},
    {{1, 0, 3, 0}}, {{1, 3, 3, 0}}, {{2, 3, 3, 0}}, {{1, 6, 2, 0}, {2, 7, 1, 2}}};
constexpr CodePart kParts5[8][3] = {
    {{0, 0, 5, 0}}, {{1, 0, 5, 0}}, {{0, 5, 3, 0}, {1, 5, 2, 3}}, {{2, 0, 5, 0}},
    {{3, 0, 5, 0}}, {{4, 0, 5, 0}}, {{3, 5, 3, 0}, {4, 5, 2, 3}}, {{2, 5, 3, 0}, {1, 7, 1, 3}, {4, 7, 1, 4}}};
constexpr CodePart kParts6[8][3] = {
    {{0, 0, 6, 0}}, {{1, 0, 6, 0}}, {{2, 0, 6, 0}}, {{0, 6, 2, 0}, {1, 6, 2, 2}, {2, 6, 2, 4}},
    {{3, 0, 6, 0}}, {{4, 0, 6, 0}}, {{5, 0, 6, 0}}, {{3, 6, 2, 0}, {4, 6, 2, 2}, {5, 6, 2, 4}}};

/// Parts of a code, at most.
constexpr int code_parts(int bits) { return bits == 3 ? 2 : bits == 5 || bits == 6 ? 3 : 1; }

/// Part i of group g's codes; none where it has 0 bits.
template <int Bits>
constexpr CodePart code_part(int g, int i) {
    if constexpr (Bits == 1) return {0, bit_of_group(g), 1, 0};
    if constexpr (Bits == 3) return kParts3[g][i];
    if constexpr (Bits == 5) return kParts5[g][i];
    if constexpr (Bits == 6) return kParts6[g][i];
    constexpr int kEach = 8 / Bits;
    return {g / kEach, g % kEach * Bits, Bits, 0};
}

template <int Bits>
inline void read_codes(const uint8_t* block, int row, uint8_t* code) {
    for (int k = 0; k < 32; k++) {
        int value = 0;
        for (int i = 0; i < code_parts(Bits); i++) {
            const CodePart part = code_part<Bits>(k / 4, i);
            const int byte = block[32 * part.vector + 4 * row + k % 4];
            value |= (byte >> part.from & ((1 << part.bits) - 1)) << part.to;
        }
        code[k] = static_cast<uint8_t>(value);
    }
}

/// The block's bytes are zero or hold other rows.
template <int Bits>
inline void write_codes(const uint8_t* code, uint8_t* block, int row) {
    for (int k = 0; k < 32; k++) {
        for (int i = 0; i < code_parts(Bits); i++) {
            const CodePart part = code_part<Bits>(k / 4, i);
            uint8_t& byte = block[32 * part.vector + 4 * row + k % 4];
            const int field = code[k] >> part.to & ((1 << part.bits) - 1);
            byte = static_cast<uint8_t>(byte | field << part.from);
        }
    }
}

// ---- properties

/// Properties that every format has. Units of 256 weights apply integer scales to sub-blocks, and the float
/// ones at the end of the unit.
template <class Block, int Bits, MinKind Min, int Zero>
struct Facts {
    using Disk = Block;
    static constexpr int kUnitK = Block::kWeights;
    static constexpr int kBlocks = kUnitK / 32;
    static constexpr int kBits = Bits;
    static constexpr int kUnitBytes = 8 * static_cast<int>(sizeof(Block));
    static constexpr int kHeadBytes = kUnitBytes - kUnitK * Bits;  // of 8 rows, in front of the codes
    static constexpr bool kSuper = kUnitK == 256;
    static constexpr MinKind kMin = Min;
    static constexpr int kZero = Zero;  // the operand of a zero weight
    static constexpr int kMinAt = 16;   // of the minima in the head
    /// Whether a weight depends on its code alone; otherwise the format has weight(unit, k).
    static constexpr bool kOfCodes = true;

    /// The unsigned operand of a code; the weight is operand - kZero.
    static constexpr int operand(int code) { return code; }
    static float d(const RowUnit& u) { return half_bits_to_float(u.d); }
    /// The integer scale of half-block j (16 weights).
    static int scale(const RowUnit&, int) { return 1; }
    static int min(const RowUnit&, int) { return 0; }

    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        u.d = quants::load_u16(unit + 2 * row);
        if constexpr (Min != MinKind::None) u.m = quants::load_u16(unit + kMinAt + 2 * row);
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        quants::store_u16(u.d, unit + 2 * row);
        if constexpr (Min != MinKind::None) quants::store_u16(u.m, unit + kMinAt + 2 * row);
    }
};

/// Where the codes of block b (32 weights of 8 rows) of a packed unit start, from the unit's first byte.
template <class F>
inline constexpr int codes_at(int b) {
    return F::kHeadBytes + 32 * F::kBits * b;
}

}  // namespace
}  // namespace tessera::kernels
