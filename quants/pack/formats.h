#pragma once
// The packed formats, one struct a type: how one row of one unit (32 or 256 weights) is read from and written
// to a file's block, how it is read from and written to a packed unit of 8 rows, and the meaning of its
// numbers. Pictures: docs/formats/packed-layouts.md; the blocks of a file: quants/blocks.h. Every mapping
// only moves bits, so each pair of functions is a bijection. The vector packers of an ISA replace the moves
// of codes, never the meaning. Included by ISA units: only C headers, everything local to the unit.
#include "quants/pack/grids.h"
#include "quants/pack/unit.h"

namespace tessera::kernels {
namespace {

// ---- formats of 32 weights with a float scale

template <class Block, int Bits, MinKind Min, int Zero>
struct Halves : Facts<Block, Bits, Min, Zero> {
    static void read_disk(const Block& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        if constexpr (Min != MinKind::None) u.m = quants::load_u16(b.m);
        read_split_halves(b.qs, u.code);
        if constexpr (Bits == 5) read_fifth_bits(b.qh, u.code);
    }
    static void write_disk(const RowUnit& u, Block& b) {
        quants::store_u16(u.d, b.d);
        if constexpr (Min != MinKind::None) quants::store_u16(u.m, b.m);
        write_split_halves(u.code, b.qs);
        if constexpr (Bits == 5) write_fifth_bits(u.code, b.qh);
    }
};

struct Q4_0 : Halves<quants::BlockQ4_0, 4, MinKind::None, 8> {};
struct Q4_1 : Halves<quants::BlockQ4_1, 4, MinKind::PerBlock, 0> {};
struct Q5_0 : Halves<quants::BlockQ5_0, 5, MinKind::None, 16> {};
struct Q5_1 : Halves<quants::BlockQ5_1, 5, MinKind::PerBlock, 0> {};

/// The operand of a table code is the table's value + 128, which makes it unsigned.
struct IQ4_NL : Halves<quants::BlockIQ4_NL, 4, MinKind::None, 128> {
    static constexpr int operand(int code) {
        constexpr uint8_t kOperand[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                          129, 141, 153, 166, 181, 197, 217, 241};
        return kOperand[code];
    }
};

/// The table's values + 12.
struct MXFP4 : Facts<quants::BlockMXFP4, 4, MinKind::None, 12> {
    static constexpr int operand(int code) {
        constexpr uint8_t kOperand[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
        return kOperand[code];
    }
    static float d(const RowUnit& u) { return bits_to_float(u.d < 2 ? 0x00200000u << u.d : (u.d - 1) << 23); }

    static void read_disk(const quants::BlockMXFP4& b, RowUnit& u) {
        u.d = b.e;
        read_split_halves(b.qs, u.code);
    }
    static void write_disk(const RowUnit& u, quants::BlockMXFP4& b) {
        b.e = static_cast<uint8_t>(u.d);
        write_split_halves(u.code, b.qs);
    }
    static void read_head(const uint8_t* unit, int row, RowUnit& u) { u.d = unit[row]; }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        unit[row] = static_cast<uint8_t>(u.d);
    }
};

/// Stored with the sign bit inverted, which is the weight + 128.
struct Q8_0 : Facts<quants::BlockQ8_0, 8, MinKind::None, 128> {
    static void read_disk(const quants::BlockQ8_0& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        for (int i = 0; i < 32; i++) u.code[i] = static_cast<uint8_t>(b.qs[i] ^ 0x80);
    }
    static void write_disk(const RowUnit& u, quants::BlockQ8_0& b) {
        quants::store_u16(u.d, b.d);
        for (int i = 0; i < 32; i++) b.qs[i] = static_cast<int8_t>(u.code[i] ^ 0x80);
    }
};

// ---- formats of 256 weights

/// The 12 bytes of Q4_K and Q5_K, four 6-bit fields at a time.
inline void read_k_scales(const uint8_t* s, RowUnit& u) {
    const uint32_t a = quants::load_u32(s), b = quants::load_u32(s + 4), c = quants::load_u32(s + 8);
    quants::store_u32(a & 0x3f3f3f3f, u.scale);
    quants::store_u32((c & 0x0f0f0f0f) | (a >> 2 & 0x30303030), u.scale + 4);
    quants::store_u32(b & 0x3f3f3f3f, u.min);
    quants::store_u32((c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030), u.min + 4);
}

inline void write_k_scales(const RowUnit& u, uint8_t* s) {
    const uint32_t scale = quants::load_u32(u.scale + 4), min = quants::load_u32(u.min + 4);
    quants::store_u32(quants::load_u32(u.scale) | (scale & 0x30303030) << 2, s);
    quants::store_u32(quants::load_u32(u.min) | (min & 0x30303030) << 2, s + 4);
    quants::store_u32((scale & 0x0f0f0f0f) | (min & 0x0f0f0f0f) << 4, s + 8);
}

/// n 6-bit fields of a row as low nibbles, two fields a byte, and high pairs, four a byte: field f of
/// `position` i (0..Width-1) lies in nibble f % 2 of low[Width * (f / 2) + i] and in pair f of high[i].
template <int Width>
inline int six_bits(const uint8_t* low, const uint8_t* high, int i, int f) {
    return ((low[Width * (f / 2) + i] >> (4 * (f % 2))) & 15) | ((high[i] >> (2 * f)) & 3) << 4;
}

template <int Width>
inline void add_six_bits(int value, uint8_t* low, uint8_t* high, int i, int f) {
    uint8_t& l = low[Width * (f / 2) + i];
    l = static_cast<uint8_t>(l | (value & 15) << (4 * (f % 2)));
    high[i] = static_cast<uint8_t>(high[i] | (value >> 4) << (2 * f));
}

/// Q4_K and Q5_K. Head: d[8], dmin[8], then as 6-bit fields of width 32, position 8 * (block % 4) + row: the
/// scale of blocks 0-3, the minimum of blocks 0-3, the scale of blocks 4-7, their minimum.
template <class Block, int Bits>
struct KScaled : Facts<Block, Bits, MinKind::PerBlock, 0> {
    using Base = Facts<Block, Bits, MinKind::PerBlock, 0>;
    static constexpr int kLowAt = 32, kHighAt = 96;

    static int scale(const RowUnit& u, int j) { return u.scale[j / 2]; }
    static int min(const RowUnit& u, int j) { return u.min[j / 2]; }

    static void read_disk(const Block& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        u.m = quants::load_u16(b.dmin);
        read_k_scales(b.scales, u);
        read_planes<4, 32, 0>(b.qs, u.code);
        if constexpr (Bits == 5) read_planes<1, 32, 4>(b.qh, u.code);
    }
    static void write_disk(const RowUnit& u, Block& b) {
        quants::store_u16(u.d, b.d);
        quants::store_u16(u.m, b.dmin);
        write_k_scales(u, b.scales);
        write_planes<4, 32, 0>(u.code, b.qs);
        if constexpr (Bits == 5) write_planes<1, 32, 4>(u.code, b.qh);
    }
    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        Base::read_head(unit, row, u);
        for (int b = 0; b < 8; b++) {
            const int i = 8 * (b % 4) + row, f = b / 4 * 2;
            u.scale[b] = static_cast<uint8_t>(six_bits<32>(unit + kLowAt, unit + kHighAt, i, f));
            u.min[b] = static_cast<uint8_t>(six_bits<32>(unit + kLowAt, unit + kHighAt, i, f + 1));
        }
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        Base::write_head(u, unit, row);
        for (int b = 0; b < 8; b++) {
            const int i = 8 * (b % 4) + row, f = b / 4 * 2;
            add_six_bits<32>(u.scale[b], unit + kLowAt, unit + kHighAt, i, f);
            add_six_bits<32>(u.min[b], unit + kLowAt, unit + kHighAt, i, f + 1);
        }
    }
};

struct Q4_K : KScaled<quants::BlockQ4_K, 4> {};
struct Q5_K : KScaled<quants::BlockQ5_K, 5> {};

/// Head: d[8], then the scales: byte 16 * block + 2 * row + half.
struct Q6_K : Facts<quants::BlockQ6_K, 6, MinKind::None, 32> {
    static constexpr int kScalesAt = 16;

    static int scale(const RowUnit& u, int j) { return static_cast<int8_t>(u.scale[j]); }

    static void read_disk(const quants::BlockQ6_K& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        memcpy(u.scale, b.scales, 16);
        read_planes<4, 64, 0>(b.ql, u.code);
        read_planes<2, 32, 4>(b.qh, u.code);
    }
    static void write_disk(const RowUnit& u, quants::BlockQ6_K& b) {
        quants::store_u16(u.d, b.d);
        memcpy(b.scales, u.scale, 16);
        write_planes<4, 64, 0>(u.code, b.ql);
        write_planes<2, 32, 4>(u.code, b.qh);
    }
    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        Facts::read_head(unit, row, u);
        for (int b = 0; b < 8; b++) memcpy(u.scale + 2 * b, unit + kScalesAt + 16 * b + 2 * row, 2);
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        Facts::write_head(u, unit, row);
        for (int b = 0; b < 8; b++) memcpy(unit + kScalesAt + 16 * b + 2 * row, u.scale + 2 * b, 2);
    }
};

/// Head: d[8], dmin[8], then byte 16 * block + 2 * row + half = [ minimum : 4 | scale : 4 ].
struct Q2_K : Facts<quants::BlockQ2_K, 2, MinKind::PerHalf, 0> {
    static constexpr int kScalesAt = 32;

    static int scale(const RowUnit& u, int j) { return u.scale[j] & 15; }
    static int min(const RowUnit& u, int j) { return u.scale[j] >> 4; }

    static void read_disk(const quants::BlockQ2_K& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        u.m = quants::load_u16(b.dmin);
        memcpy(u.scale, b.scales, 16);
        read_planes<2, 32, 0>(b.qs, u.code);
    }
    static void write_disk(const RowUnit& u, quants::BlockQ2_K& b) {
        quants::store_u16(u.d, b.d);
        quants::store_u16(u.m, b.dmin);
        memcpy(b.scales, u.scale, 16);
        write_planes<2, 32, 0>(u.code, b.qs);
    }
    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        Facts::read_head(unit, row, u);
        for (int b = 0; b < 8; b++) memcpy(u.scale + 2 * b, unit + kScalesAt + 16 * b + 2 * row, 2);
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        Facts::write_head(u, unit, row);
        for (int b = 0; b < 8; b++) memcpy(unit + kScalesAt + 16 * b + 2 * row, u.scale + 2 * b, 2);
    }
};

/// Head: d[8], then as 6-bit fields of width 32, position 16 * (block % 2) + 2 * row + half: field block / 2.
struct Q3_K : Facts<quants::BlockQ3_K, 3, MinKind::None, 4> {
    static constexpr int kLowAt = 16, kHighAt = 80;

    static int scale(const RowUnit& u, int j) { return u.scale[j] - 32; }

    static void read_disk(const quants::BlockQ3_K& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        const uint32_t high = quants::load_u32(b.scales + 8);
        for (int f = 0; f < 4; f++) {
            const uint32_t low = quants::load_u32(b.scales + 4 * (f % 2)) >> (4 * (f / 2)) & 0x0f0f0f0f;
            quants::store_u32(low | (high >> (2 * f) & 0x03030303) << 4, u.scale + 4 * f);
        }
        read_planes<2, 32, 0>(b.qs, u.code);
        read_planes<1, 32, 2>(b.hmask, u.code);
    }
    static void write_disk(const RowUnit& u, quants::BlockQ3_K& b) {
        quants::store_u16(u.d, b.d);
        uint32_t low[2] = {0, 0}, high = 0;
        for (int f = 0; f < 4; f++) {
            const uint32_t four = quants::load_u32(u.scale + 4 * f);
            low[f % 2] |= (four & 0x0f0f0f0f) << (4 * (f / 2));
            high |= (four >> 4 & 0x03030303) << (2 * f);
        }
        quants::store_u32(low[0], b.scales);
        quants::store_u32(low[1], b.scales + 4);
        quants::store_u32(high, b.scales + 8);
        write_planes<2, 32, 0>(u.code, b.qs);
        write_planes<1, 32, 2>(u.code, b.hmask);
    }
    // The two halves of a block are moved together, as one halfword.
    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        Facts::read_head(unit, row, u);
        for (int b = 0; b < 8; b++) {
            const int i = 16 * (b % 2) + 2 * row, f = b / 2;
            const uint32_t low = quants::load_u16(unit + kLowAt + 32 * (f / 2) + i) >> (4 * (f % 2)) & 0x0f0f;
            const uint32_t high = quants::load_u16(unit + kHighAt + i) >> (2 * f) & 0x0303;
            quants::store_u16(low | high << 4, u.scale + 2 * b);
        }
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        Facts::write_head(u, unit, row);
        for (int odd = 0; odd < 2; odd++) {
            const int i = 16 * odd + 2 * row;
            uint32_t low[2] = {0, 0}, high = 0;
            for (int f = 0; f < 4; f++) {
                const uint32_t both = quants::load_u16(u.scale + 4 * f + 2 * odd);
                low[f / 2] |= (both & 0x0f0f) << (4 * (f % 2));
                high |= (both >> 4 & 0x0303) << (2 * f);
            }
            quants::store_u16(low[0], unit + kLowAt + i);
            quants::store_u16(low[1], unit + kLowAt + 32 + i);
            quants::store_u16(high, unit + kHighAt + i);
        }
    }
};

/// Head: d[8], then as 6-bit fields of width 16, position 8 * (block % 2) + row: field block / 2.
struct IQ4_XS : Facts<quants::BlockIQ4_XS, 4, MinKind::None, 128> {
    static constexpr int kLowAt = 16, kHighAt = 48;

    static constexpr int operand(int code) { return IQ4_NL::operand(code); }
    static int scale(const RowUnit& u, int j) { return u.scale[j / 2] - 32; }

    static void read_disk(const quants::BlockIQ4_XS& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        const uint32_t high = quants::load_u16(b.scales_h);
        for (int j = 0; j < 8; j++) {
            u.scale[j] = static_cast<uint8_t>(quants::nibble(b.scales_l, j) | ((high >> (2 * j)) & 3) << 4);
        }
        for (int j = 0; j < 8; j++) read_split_halves(b.qs + 16 * j, u.code + 32 * j);
    }
    static void write_disk(const RowUnit& u, quants::BlockIQ4_XS& b) {
        quants::store_u16(u.d, b.d);
        uint32_t low = 0, high = 0;
        for (int j = 0; j < 8; j++) {
            low |= (u.scale[j] & 15u) << (4 * j);
            high |= (u.scale[j] >> 4 & 3u) << (2 * j);
        }
        for (int j = 0; j < 8; j++) write_split_halves(u.code + 32 * j, b.qs + 16 * j);
        quants::store_u32(low, b.scales_l);
        quants::store_u16(high, b.scales_h);
    }
    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        Facts::read_head(unit, row, u);
        for (int b = 0; b < 8; b++) {
            const int i = 8 * (b % 2) + row;
            u.scale[b] = static_cast<uint8_t>(six_bits<16>(unit + kLowAt, unit + kHighAt, i, b / 2));
        }
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        Facts::write_head(u, unit, row);
        for (int b = 0; b < 8; b++) {
            const int i = 8 * (b % 2) + row;
            add_six_bits<16>(u.scale[b], unit + kLowAt, unit + kHighAt, i, b / 2);
        }
    }
};

/// Ternary weights, whose sums need no scale but d.
struct TQ2_0 : Facts<quants::BlockTQ2_0, 2, MinKind::None, 1> {
    static void read_disk(const Disk& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        read_planes<2, 32, 0>(b.qs, u.code);
    }
    static void write_disk(const RowUnit& u, Disk& b) {
        quants::store_u16(u.d, b.d);
        write_planes<2, 32, 0>(u.code, b.qs);
    }
};

/// Five base-3 digits per byte; bytes are copied as they are. Head: d[8], then byte 4 * row + t of vector v
/// (32 bytes) is byte 4 * v + t of the file's 48 + 4.
struct TQ1_0 : Facts<quants::BlockTQ1_0, 0, MinKind::None, 1> {
    static constexpr bool kOfCodes = false;
    static constexpr int kBytesAt = 16, kVectors = 13;

    static constexpr int operand(int) { return 2; }  // at most
    static int weight(const RowUnit& u, int k) {
        quants::BlockTQ1_0 b;
        memcpy(b.qs, u.index, sizeof b.qs);
        memcpy(b.qh, u.index + sizeof b.qs, sizeof b.qh);
        return quants::code_at(b, k) - 1;
    }

    static void read_disk(const Disk& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        memcpy(u.index, b.qs, sizeof b.qs);
        memcpy(u.index + sizeof b.qs, b.qh, sizeof b.qh);
    }
    static void write_disk(const RowUnit& u, Disk& b) {
        quants::store_u16(u.d, b.d);
        memcpy(b.qs, u.index, sizeof b.qs);
        memcpy(b.qh, u.index + sizeof b.qs, sizeof b.qh);
    }
    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        Facts::read_head(unit, row, u);
        for (int v = 0; v < kVectors; v++) memcpy(u.index + 4 * v, unit + kBytesAt + 32 * v + 4 * row, 4);
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        Facts::write_head(u, unit, row);
        for (int v = 0; v < kVectors; v++) memcpy(unit + kBytesAt + 32 * v + 4 * row, u.index + 4 * v, 4);
    }
};

/// The largest magnitude of an operand less `less`.
template <class F>
constexpr int largest_operand(int less) {
    int largest = 0;
    for (int code = 0; code < 1 << F::kBits; code++) {
        const int operand = F::operand(code) - less, size = operand < 0 ? -operand : operand;
        if (size > largest) largest = size;
    }
    return largest;
}

/// The integer weight k of a row's unit, its scale not included.
template <class F>
inline int weight_at(const RowUnit& u, int k) {
    if constexpr (F::kOfCodes) {
        return F::operand(u.code[k]) - F::kZero;
    } else {
        return F::weight(u, k);
    }
}

template <class F>
inline void read_packed(const uint8_t* unit, int row, RowUnit& u) {
    F::read_head(unit, row, u);
    if constexpr (F::kBits != 0) {
        for (int b = 0; b < F::kBlocks; b++) {
            read_codes<F::kBits>(unit + codes_at<F>(b), row, u.code + 32 * b);
        }
    }
}

}  // namespace
}  // namespace tessera::kernels
