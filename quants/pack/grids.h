#pragma once
// The packed formats of the codebook types IQ1, IQ2 and IQ3 (formats.h has the others): indices of words in
// the head, and for IQ2 and IQ3 as codes one bit a weight, its sign. Where a file stores 7 of 8 signs, the
// last weight's code is one bit of something else of the row, an *extra* bit: of a scale, or of an index.
// Pictures: docs/formats/packed-layouts.md; the blocks of a file: quants/blocks.h. Included by ISA units:
// only C headers, everything local to the unit.
#include "quants/kernels/codebooks.h"
#include "quants/pack/unit.h"

namespace tessera::kernels {
namespace {

// ---- extra bits: one for each word of 8 weights, 4 for each block, in the code of the word's last weight.
// They hold a field of 4 bits for each block, arranged so that a kernel extracts all fields of a unit with
// two masks, a shift and an addition for each two blocks: bit n of the fields of blocks p (0..3) and p + 4,
// as bit i = n and i = 4 + n of a byte, lies in block 2 p + i % 2 where a plane has bit (i | 1) of a byte.

/// The place among 256 codes of bit n of the field of block b.
constexpr int extra_bit_at(int b, int n) {
    const int i = 4 * (b / 4) + n, block = 2 * (b % 4) + i % 2, word = 2 * (i / 2 % 2) + i / 4;
    return 32 * block + 8 * word + 7;
}
static_assert(bit_of_group(3) == 5 && extra_bit_at(4, 0) == 8 + 7 && extra_bit_at(4, 1) == 32 + 8 + 7);

inline int extra_field(const uint8_t* code, int b) {
    int field = 0;
    for (int n = 0; n < 4; n++) field |= code[extra_bit_at(b, n)] << n;
    return field;
}

inline void put_extra_field(int field, int b, uint8_t* code) {
    for (int n = 0; n < 4; n++) code[extra_bit_at(b, n)] = static_cast<uint8_t>((field >> n) & 1);
}

// ---- formats

/// Common to the codebook types. Head: d[8], the indices' low bytes (byte 8 * word + row), then as far as
/// the type has them the other bits of the indices (byte 8 * block + row) and the scales as nibbles, those of
/// blocks 0-3 low and of blocks 4-7 high: byte 8 * (block % 4) + row, or 16 * (block % 4) + 2 * row + half.
///   WordK     weights of a word
///   HighBits  bits of an index beyond 8
///   Halves    scales a block
///   Even      the number of negative weights of each 8 is even: 7 signs
///   Zero, Most  the zero point of operands and the largest weight
///   Parts     x = d / Parts * (2 * scale + 1) * weight
template <class Block, int WordK, int HighBits, int Halves, bool Even, int Zero, int Most, int Parts>
struct Grid : Facts<Block, 1, MinKind::None, Zero> {
    using Base = Facts<Block, 1, MinKind::None, Zero>;
    static constexpr bool kOfCodes = false, kEven = Even;
    static constexpr int kWordK = WordK, kHighBits = HighBits, kHalves = Halves;
    static constexpr int kWords = 32 / WordK;  // of a block
    static constexpr bool kHighInHead = HighBits != 0 && !Even, kScaleInHead = !Even || Halves == 2;
    static constexpr int kIndexAt = 16, kHighAt = kIndexAt + 64 * kWords;
    static constexpr int kScalesAt = kHighAt + (kHighInHead ? 64 : 0);
    static_assert(kScalesAt + (kScaleInHead ? 32 * Halves : 0) == Base::kHeadBytes);
    static constexpr float kFactor = 1.0f / static_cast<float>(Parts);

    /// The two ends of an operand's range, which determine its size; weights do not consist of codes.
    static constexpr int operand(int code) { return code == 0 ? Zero - Most : Zero + Most; }
    static float d(const RowUnit& u) { return kFactor * half_bits_to_float(u.d); }
    static int scale(const RowUnit& u, int j) {
        const int b = j / 2;
        return 2 * (!kScaleInHead ? extra_field(u.code, b) : u.scale[Halves == 2 ? j : b]) + 1;
    }
    /// Of word w of the unit.
    static int index(const RowUnit& u, int w) {
        const int b = w / kWords, high = kHighInHead ? u.high[b] : HighBits != 0 ? extra_field(u.code, b) : 0;
        return u.index[w] | (high >> (HighBits * (w % kWords)) & ((1 << HighBits) - 1)) << 8;
    }
    static bool negative(const RowUnit& u, int k) {
        if (!Even || k % 8 != 7) return u.code[k] != 0;
        int odd = 0;
        for (int i = k - 7; i < k; i++) odd ^= u.code[i];
        return odd != 0;
    }

    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        Base::read_head(unit, row, u);
        for (int w = 0; w < 8 * kWords; w++) u.index[w] = unit[kIndexAt + 8 * w + row];
        for (int b = 0; b < 8 && kHighInHead; b++) u.high[b] = unit[kHighAt + 8 * b + row];
        for (int j = 0; j < 4 * Halves && kScaleInHead; j++) {
            const uint8_t two = unit[scale_at(j, row)];
            u.scale[j] = two & 15;
            u.scale[j + 4 * Halves] = two >> 4;
        }
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        Base::write_head(u, unit, row);
        for (int w = 0; w < 8 * kWords; w++) unit[kIndexAt + 8 * w + row] = u.index[w];
        for (int b = 0; b < 8 && kHighInHead; b++) unit[kHighAt + 8 * b + row] = u.high[b];
        for (int j = 0; j < 4 * Halves && kScaleInHead; j++) {
            unit[scale_at(j, row)] =
                static_cast<uint8_t>((u.scale[j] & 15) | (u.scale[j + 4 * Halves] & 15) << 4);
        }
    }

  protected:
    /// Of scale j and the one four blocks on.
    static constexpr int scale_at(int j, int row) {
        return kScalesAt + 8 * Halves * (j / Halves) + Halves * row + j % Halves;
    }
    static void read_signs(const uint8_t* signs, RowUnit& u) {
        for (int g = 0; g < 32; g++) store_eight(bits_to_bytes(signs[g]), u.code + 8 * g);
    }
    /// Of 8 weights; the last one's bit is no sign where they are 7.
    static uint8_t signs_of(const RowUnit& u, int g) {
        const uint8_t signs = bytes_to_bits(load_eight(u.code + 8 * g));
        return Even ? signs & 127 : signs;
    }
    static void read_scales(const uint8_t* scales, RowUnit& u) {
        for (int j = 0; j < 8 * Halves; j++) u.scale[j] = static_cast<uint8_t>(quants::nibble(scales, j));
    }
    static void write_scales(const RowUnit& u, uint8_t* scales) {
        for (int j = 0; j < 8 * Halves; j += 2) {
            scales[j / 2] = static_cast<uint8_t>((u.scale[j] & 15) | (u.scale[j + 1] & 15) << 4);
        }
    }
    /// Of block b as one word: [ scale : 4 | signs of 8 weights: 3 : 7 | 2 : 7 | 1 : 7 | 0 : 7 ]
    static void read_signs_scale(const uint8_t* from, int b, uint8_t* signs, uint8_t* scale) {
        const uint32_t word = quants::load_u32(from);
        for (int g = 0; g < 4; g++) signs[4 * b + g] = static_cast<uint8_t>(word >> (7 * g) & 127);
        scale[b] = static_cast<uint8_t>(word >> 28);
    }
    static void write_signs_scale(const RowUnit& u, int b, uint8_t* to) {
        uint32_t word = static_cast<uint32_t>(extra_field(u.code, b)) << 28;
        for (int g = 0; g < 4; g++) word |= static_cast<uint32_t>(signs_of(u, 4 * b + g)) << (7 * g);
        quants::store_u32(word, to);
    }
    /// Blocks in which indices, their high bits and signs have bytes of their own.
    static void read_plain(const Block& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        memcpy(u.index, b.qs, sizeof b.qs);
        memcpy(u.high, b.qh, sizeof b.qh);
        read_signs(b.signs, u);
        read_scales(b.scales, u);
    }
    static void write_plain(const RowUnit& u, Block& b) {
        quants::store_u16(u.d, b.d);
        memcpy(b.qs, u.index, sizeof b.qs);
        memcpy(b.qh, u.high, sizeof b.qh);
        for (int g = 0; g < 32; g++) b.signs[g] = signs_of(u, g);
        write_scales(u, b.scales);
    }
    static void read_even(const uint8_t* signs, const uint8_t* fields, RowUnit& u) {
        read_signs(signs, u);
        for (int b = 0; b < 8; b++) put_extra_field(fields[b], b, u.code);
    }
};

/// Weight k of a unit whose words are at `words`.
template <class F>
inline int grid_weight(const RowUnit& u, int k, const int8_t* words) {
    const int size = words[F::index(u, k / F::kWordK) * F::kWordK + k % F::kWordK];
    return F::negative(u, k) ? -size : size;
}

struct IQ2_XXS : Grid<quants::BlockIQ2_XXS, 8, 0, 1, true, 64, 43, 8> {
    static const int8_t* words() { return kWordsIq2Xxs; }
    static int weight(const RowUnit& u, int k) { return grid_weight<IQ2_XXS>(u, k, words()); }

    static void read_disk(const Disk& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        uint8_t signs[32], scale[8];
        for (int j = 0; j < 8; j++) {
            memcpy(u.index + 4 * j, b.qs + 8 * j, 4);
            read_signs_scale(b.qs + 8 * j + 4, j, signs, scale);
        }
        read_even(signs, scale, u);
    }
    static void write_disk(const RowUnit& u, Disk& b) {
        quants::store_u16(u.d, b.d);
        for (int j = 0; j < 8; j++) {
            memcpy(b.qs + 8 * j, u.index + 4 * j, 4);
            write_signs_scale(u, j, b.qs + 8 * j + 4);
        }
    }
};

/// The extra field of a block holds bit 8 of its four indices.
struct IQ2_XS : Grid<quants::BlockIQ2_XS, 8, 1, 2, true, 64, 43, 8> {
    static const int8_t* words() { return kWordsIq2Xs; }
    static int weight(const RowUnit& u, int k) { return grid_weight<IQ2_XS>(u, k, words()); }

    static void read_disk(const Disk& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        uint8_t signs[32], high[8] = {};
        for (int g = 0; g < 32; g++) {
            const uint32_t q = quants::load_u16(b.qs + 2 * g);
            u.index[g] = static_cast<uint8_t>(q);
            signs[g] = static_cast<uint8_t>(q >> 9);
            high[g / 4] = static_cast<uint8_t>(high[g / 4] | (q >> 8 & 1) << (g % 4));
        }
        read_even(signs, high, u);
        read_scales(b.scales, u);
    }
    static void write_disk(const RowUnit& u, Disk& b) {
        quants::store_u16(u.d, b.d);
        for (int g = 0; g < 32; g++) {
            const uint32_t high = static_cast<uint32_t>(index(u, g)) | static_cast<uint32_t>(signs_of(u, g))
                                                                           << 9;
            quants::store_u16(high, b.qs + 2 * g);
        }
        write_scales(u, b.scales);
    }
};

struct IQ2_S : Grid<quants::BlockIQ2_S, 8, 2, 2, false, 64, 43, 8> {
    static const int8_t* words() { return kWordsIq2S; }
    static int weight(const RowUnit& u, int k) { return grid_weight<IQ2_S>(u, k, words()); }

    static void read_disk(const Disk& b, RowUnit& u) { read_plain(b, u); }
    static void write_disk(const RowUnit& u, Disk& b) { write_plain(u, b); }
};

struct IQ3_XXS : Grid<quants::BlockIQ3_XXS, 4, 0, 1, true, 64, 62, 4> {
    static const int8_t* words() { return kWordsIq3Xxs; }
    static int weight(const RowUnit& u, int k) { return grid_weight<IQ3_XXS>(u, k, words()); }

    static void read_disk(const Disk& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        memcpy(u.index, b.qs, 64);
        uint8_t signs[32], scale[8];
        for (int j = 0; j < 8; j++) read_signs_scale(b.signs_scale + 4 * j, j, signs, scale);
        read_even(signs, scale, u);
    }
    static void write_disk(const RowUnit& u, Disk& b) {
        quants::store_u16(u.d, b.d);
        memcpy(b.qs, u.index, 64);
        for (int j = 0; j < 8; j++) write_signs_scale(u, j, b.signs_scale + 4 * j);
    }
};

struct IQ3_S : Grid<quants::BlockIQ3_S, 4, 1, 1, false, 16, 15, 1> {
    static const int8_t* words() { return kWordsIq3S; }
    static int weight(const RowUnit& u, int k) { return grid_weight<IQ3_S>(u, k, words()); }

    static void read_disk(const Disk& b, RowUnit& u) { read_plain(b, u); }
    static void write_disk(const RowUnit& u, Disk& b) { write_plain(u, b); }
};

// ---- IQ1: no signs, but for each word a nibble = [ one bit : 1 | bits 8-10 of its index : 3 ], in a row's
// unit the code of the word's number. The weights that integers stand for are 8 times a word's values, plus
// or minus 1.

/// Head: d[8], the indices' low bytes (byte 8 * word + row), the nibbles: byte 16 * block + 8 * (j % 2) + row
/// = [ nibble of word j + 2 of the block : 4 | of word j : 4 ], j = 0, 1; then what the type has of scales.
template <class Block>
struct Ternary : Facts<Block, 0, MinKind::None, 16> {
    using Base = Facts<Block, 0, MinKind::None, 16>;
    static constexpr bool kOfCodes = false;
    static constexpr int kWords = 4;  // of a block
    static constexpr int kIndexAt = 16, kNibblesAt = kIndexAt + 256, kScalesAt = kNibblesAt + 128;
    static constexpr float kFactor = 0.125f;

    static constexpr int operand(int) { return 16 + 9; }  // at most
    static float d(const RowUnit& u) { return kFactor * half_bits_to_float(u.d); }
    static int number(const RowUnit& u, int k, bool minus) {
        const int w = k / 8, index = u.index[w] | (u.code[w] & 7) << 8;
        return 8 * kWordsIq1[8 * index + k % 8] + (minus ? -1 : 1);
    }
    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        Base::read_head(unit, row, u);
        for (int w = 0; w < 32; w++) {
            u.index[w] = unit[kIndexAt + 8 * w + row];
            u.code[w] = unit[nibble_at(w, row)] >> (4 * (w / 2 % 2)) & 15;
        }
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        Base::write_head(u, unit, row);
        for (int w = 0; w < 32; w++) {
            unit[kIndexAt + 8 * w + row] = u.index[w];
            uint8_t& two = unit[nibble_at(w, row)];
            two = static_cast<uint8_t>(two | (u.code[w] & 15) << (4 * (w / 2 % 2)));
        }
    }

  protected:
    static constexpr int nibble_at(int w, int row) { return kNibblesAt + 16 * (w / 4) + 8 * (w % 2) + row; }
};

/// The single bits of a block's words: bits 1, 2 and 0 of its scale, and whether 1 is taken off.
struct IQ1_S : Ternary<quants::BlockIQ1_S> {
    static int scale_bit(int j) { return j == 2 ? 0 : j + 1; }
    static int scale(const RowUnit& u, int j) {
        int scale = 0;
        for (int i = 0; i < 3; i++) scale |= (u.code[4 * (j / 2) + i] >> 3) << scale_bit(i);
        return 2 * scale + 1;
    }
    static int weight(const RowUnit& u, int k) { return number(u, k, u.code[k / 32 * 4 + 3] >> 3 != 0); }

    static void read_disk(const Disk& b, RowUnit& u) {
        u.d = quants::load_u16(b.d);
        memcpy(u.index, b.qs, 32);
        for (int w = 0; w < 32; w++) {
            const uint32_t qh = quants::load_u16(b.qh + 2 * (w / 4));
            const int j = w % 4, at = j == 3 ? 15 : 12 + scale_bit(j);
            u.code[w] = static_cast<uint8_t>((qh >> (3 * j) & 7) | (qh >> at & 1) << 3);
        }
    }
    static void write_disk(const RowUnit& u, Disk& b) {
        quants::store_u16(u.d, b.d);
        memcpy(b.qs, u.index, 32);
        for (int block = 0; block < 8; block++) {
            uint32_t qh = 0;
            for (int j = 0; j < 4; j++) {
                const uint32_t nibble = u.code[4 * block + j];
                qh |= (nibble & 7) << (3 * j) | (nibble >> 3 & 1) << (j == 3 ? 15 : 12 + scale_bit(j));
            }
            quants::store_u16(qh, b.qh + 2 * block);
        }
    }
};

/// The single bit of a word: whether 1 is taken off. Scales of 3 bits, two a block: together y. Byte 24 * (b
/// / 4) + 8 * c + row of the scales = [ bits 2 c and 2 c + 1 of y of block 3 : 2 | y of block c : 6 ], c = 0
/// .. 2, of 4.
struct IQ1_M : Ternary<quants::BlockIQ1_M> {
    static int scale(const RowUnit& u, int j) { return 2 * u.scale[j] + 1; }
    static int weight(const RowUnit& u, int k) { return number(u, k, u.code[k / 8] >> 3 != 0); }

    static void read_disk(const Disk& b, RowUnit& u) {
        u.d = 0;
        memcpy(u.index, b.qs, 32);
        for (int w = 0; w < 32; w++) u.code[w] = static_cast<uint8_t>(quants::nibble(b.qh, w));
        for (int j = 0; j < 16; j++) {
            const uint32_t four = quants::load_u16(b.scales + 2 * (j / 4));
            u.scale[j] = static_cast<uint8_t>(four >> (3 * (j % 4)) & 7);
            if (j % 4 == 0) u.d |= four >> 12 << j;
        }
    }
    static void write_disk(const RowUnit& u, Disk& b) {
        memcpy(b.qs, u.index, 32);
        for (int w = 0; w < 32; w += 2) {
            b.qh[w / 2] = static_cast<uint8_t>((u.code[w] & 15) | (u.code[w + 1] & 15) << 4);
        }
        for (int k = 0; k < 4; k++) {
            uint32_t four = (u.d >> (4 * k) & 15) << 12;
            for (int i = 0; i < 4; i++) four |= static_cast<uint32_t>(u.scale[4 * k + i] & 7) << (3 * i);
            quants::store_u16(four, b.scales + 2 * k);
        }
    }
    static void read_head(const uint8_t* unit, int row, RowUnit& u) {
        Ternary::read_head(unit, row, u);
        for (int half = 0; half < 2; half++) {
            const uint8_t* from = unit + kScalesAt + 24 * half + row;
            int last = 0;
            for (int c = 0; c < 3; c++) {
                put_scales(from[8 * c] & 63, 4 * half + c, u);
                last |= from[8 * c] >> 6 << (2 * c);
            }
            put_scales(last, 4 * half + 3, u);
        }
    }
    static void write_head(const RowUnit& u, uint8_t* unit, int row) {
        Ternary::write_head(u, unit, row);
        for (int b = 0; b < 8; b++) {
            if (b % 4 == 3) continue;
            const int own = scales_of(u, b), last = scales_of(u, b | 3);
            unit[kScalesAt + 24 * (b / 4) + 8 * (b % 4) + row] =
                static_cast<uint8_t>(own | (last >> (2 * (b % 4)) & 3) << 6);
        }
    }

  private:
    static int scales_of(const RowUnit& u, int b) {
        return (u.scale[2 * b] & 7) | (u.scale[2 * b + 1] & 7) << 3;
    }
    static void put_scales(int y, int b, RowUnit& u) {
        u.scale[2 * b] = static_cast<uint8_t>(y & 7);
        u.scale[2 * b + 1] = static_cast<uint8_t>(y >> 3);
    }
};

}  // namespace
}  // namespace tessera::kernels
