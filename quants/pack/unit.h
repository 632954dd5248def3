#pragma once
// What the packed formats are made of: a row's part of a unit as plain numbers, and the moves of bits between
// it, a file's block and a packed unit of 8 rows. The formats: formats.h. Included by ISA units: only C
// headers, everything local to the unit.
#include <stdint.h>
#include <string.h>

#include "quants/blocks.h"
#include "quants/kernels/p8.h"

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

/// How the minimum enters the product (docs/numerics.md).
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

// Eight codes at a time in a word, lowest first: the compiler makes a mess of the same loops over bytes.

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

/// Moves a field of Bits bits of 256 codes, at bit At of the code, from planes of Width bytes. At = 0 goes
/// first: it overwrites.
template <int Bits, int Width, int At>
inline void read_planes(const uint8_t* qs, uint8_t* code) {
    constexpr uint64_t kField = ((1 << Bits) - 1) * kEachByte;
    for (int first = 0; first < 256; first += 8 / Bits * Width, qs += Width) {
        for (int i = 0; i < Width; i += 8) {
            const uint64_t eight = load_eight(qs + i);
            for (int field = 0; field < 8 / Bits; field++) {
                uint8_t* to = code + first + field * Width + i;
                const uint64_t moved = (eight >> (Bits * field) & kField) << At;
                store_eight(At == 0 ? moved : load_eight(to) | moved, to);
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

// ---- codes in a packed unit: per 32 weights a plane of nibbles (128 bytes), of bit pairs (64), of bits
// (32), as far as the width has them. Group g is 4 consecutive weights, and 4 * row + t the byte of its
// weight t in a vector.

/// The place of group g in a byte of the plane of single bits. Groups g and g + 2 of a vector of bit pairs
/// lie 4 bits apart there, and so they do here: one shift serves both where 3-bit codes are joined.
constexpr int bit_of_group(int g) { return 2 * (g / 4) + g % 2 + 4 * (g / 2 % 2); }

template <int Bits>
inline void read_codes(const uint8_t* block, int row, uint8_t* code) {
    for (int k = 0; k < 32; k++) {
        const int g = k / 4, lane = 4 * row + k % 4;
        const uint8_t* p = block;
        int value = 0, at = 0;
        if constexpr (Bits == 8) value = p[32 * g + lane];
        if constexpr (Bits < 8 && (Bits & 4) != 0) {
            value = (p[32 * (g / 2) + lane] >> (4 * (g % 2))) & 15;
            p += 128, at = 4;
        }
        if constexpr ((Bits & 2) != 0) {
            value |= ((p[32 * (g / 4) + lane] >> (2 * (g % 4))) & 3) << at;
            p += 64, at += 2;
        }
        if constexpr ((Bits & 1) != 0) value |= ((p[lane] >> bit_of_group(g)) & 1) << at;
        code[k] = static_cast<uint8_t>(value);
    }
}

/// The block's bytes are zero or hold other rows.
template <int Bits>
inline void write_codes(const uint8_t* code, uint8_t* block, int row) {
    const auto add = [](uint8_t& byte, int bits) { byte = static_cast<uint8_t>(byte | bits); };
    for (int k = 0; k < 32; k++) {
        const int g = k / 4, lane = 4 * row + k % 4;
        uint8_t* p = block;
        int at = 0;
        if constexpr (Bits == 8) p[32 * g + lane] = code[k];
        if constexpr (Bits < 8 && (Bits & 4) != 0) {
            add(p[32 * (g / 2) + lane], (code[k] & 15) << (4 * (g % 2)));
            p += 128, at = 4;
        }
        if constexpr ((Bits & 2) != 0) {
            add(p[32 * (g / 4) + lane], ((code[k] >> at) & 3) << (2 * (g % 4)));
            p += 64, at += 2;
        }
        if constexpr ((Bits & 1) != 0) add(p[lane], ((code[k] >> at) & 1) << bit_of_group(g));
    }
}

// ---- facts

/// Facts that every format has. Units of 256 weights apply integer scales to sub-blocks, and the float ones
/// at the end of the unit.
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
    static constexpr int kZero = Zero;  // what the operand of a zero weight is
    static constexpr int kMinAt = 16;   // of the minima in the head
    /// Whether a weight is a matter of its code alone; otherwise the format has weight(unit, k).
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
