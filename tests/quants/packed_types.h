#pragma once
// Helpers of the packed path's tests: the list of packed types, blocks with chosen numbers, quantized tokens,
// and the call of a table's product.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "quants/pack/formats.h"
#include "quants/types.h"
#include "tests/quants/tables.h"

namespace tessera::test {

using kernels::ActRow;
using kernels::ActView;
using kernels::KernelTable;
using kernels::RowUnit;
using kernels::WeightTuning;

/// The kind of numbers in a block.
enum class Fill { Random, Largest, Smallest, Extremes, ZeroScale, TinyScale };
constexpr Fill kFills[] = {Fill::Random,   Fill::Largest,   Fill::Smallest,
                           Fill::Extremes, Fill::ZeroScale, Fill::TinyScale};

/// One packed type with its format erased.
struct PackedType {
    Type type;
    const char* name;
    int64_t largest_block_sum;
    /// The file's block of a row with the numbers of `fill`.
    void (*make_block)(Fill fill, std::mt19937& rng, uint8_t* block);
    /// The codes of the packed row as integers, without the zero point, by the format's own reader.
    int (*weight)(const uint8_t* group, int row, int64_t k);
    const kernels::PackedKernels& in(const KernelTable& table) const {
        return table.packed[static_cast<uint32_t>(type)];
    }
    const TypeInfo& info() const { return type_info(type); }
    size_t row_bytes(int64_t n_k) const { return static_cast<size_t>(info().row_bytes(n_k)); }
};

inline uint32_t bits(std::mt19937& rng) { return static_cast<uint32_t>(rng()); }

inline uint32_t random_scale(Fill fill, std::mt19937& rng) {
    if (fill == Fill::ZeroScale) return bits(rng) % 2 * 0x8000;
    if (fill == Fill::TinyScale) return bits(rng) % 0x3ff + 1;   // subnormal
    return (bits(rng) % 2 << 15) | 0x1800 | bits(rng) % 0x1000;  // +-2^-9 .. +-2^-5
}

template <class F>
void make_block(Fill fill, std::mt19937& rng, uint8_t* block) {
    RowUnit u;
    const bool bytes = sizeof(typename F::Disk) == 17;
    u.d = bytes ? (fill == Fill::ZeroScale ? bits(rng) % 2 : 110 + bits(rng) % 20) : random_scale(fill, rng);
    u.m = random_scale(fill, rng);
    const auto pick = [&](int all) -> uint8_t {
        const int ends[3] = {0, all, (all + 1) / 2};  // (all + 1) / 2 is the most negative signed one
        switch (fill) {
            case Fill::Largest:
                return static_cast<uint8_t>(all);
            case Fill::Smallest:
                return 0;
            case Fill::Extremes:
                return static_cast<uint8_t>(ends[bits(rng) % 3]);
            default:
                return static_cast<uint8_t>(static_cast<int>(bits(rng)) & all);
        }
    };
    constexpr bool kByteScales = F::kMin == kernels::MinKind::PerHalf || F::kBits == 6;
    for (int i = 0; i < 16; i++) {
        u.scale[i] = pick(kByteScales ? 255 : 63);
        u.min[i] = pick(63);
    }
    for (int k = 0; k < F::kUnitK; k++) u.code[k] = pick(F::kBits == 0 ? 15 : (1 << F::kBits) - 1);
    for (uint8_t& index : u.index) index = pick(255);
    for (uint8_t& high : u.high) high = pick(255);
    typename F::Disk disk;
    F::write_disk(u, disk);
    std::memcpy(block, &disk, sizeof disk);
}

template <class F>
int weight(const uint8_t* group, int row, int64_t k) {
    RowUnit u;
    kernels::read_packed<F>(group + k / F::kUnitK * F::kUnitBytes, row, u);
    return kernels::weight_at<F>(u, static_cast<int>(k % F::kUnitK));
}

/// The largest |integer sum| a block can have.
template <class F>
int64_t largest_block_sum() {
    int64_t weight = 0, scale = 0;
    for (int code = 0; code < 1 << F::kBits; code++) {
        weight = std::max<int64_t>(weight, std::abs(F::operand(code) - F::kZero));
    }
    constexpr bool kByteScales = F::kMin == kernels::MinKind::PerHalf || F::kBits == 6;
    for (int code = 0; code < (!F::kOfCodes ? 16 : kByteScales ? 256 : 64); code++) {
        RowUnit u{};
        // Some of these bits are bits of scales.
        std::fill(std::begin(u.code), std::end(u.code), static_cast<uint8_t>(F::kBits == 0 ? 15 : 1));
        u.scale[0] = static_cast<uint8_t>(code);
        scale = std::max<int64_t>(scale, std::abs(F::scale(u, 0)));
    }
    return 32 * 127 * weight * scale;
}

inline const std::vector<PackedType>& packed_types() {
    static const std::vector<PackedType> types = {
#define TSR_P8(Name, name) \
    {Type::Name, #name, largest_block_sum<kernels::Name>(), make_block<kernels::Name>, weight<kernels::Name>},
#include "quants/pack/types.inc"
#undef TSR_P8
    };
    return types;
}

/// n_rows rows of n_k weights as a file stores them.
inline std::vector<uint8_t> make_rows(const PackedType& t, int64_t n_rows, int64_t n_k, Fill fill,
                                      uint32_t seed) {
    std::mt19937 rng(seed);
    std::vector<uint8_t> rows(static_cast<size_t>(n_rows) * t.row_bytes(n_k));
    for (size_t at = 0; at < rows.size(); at += static_cast<size_t>(t.info().block_bytes)) {
        t.make_block(fill, rng, rows.data() + at);
    }
    return rows;
}

inline std::vector<uint8_t> pack_rows(const PackedType& t, const KernelTable& table,
                                      const std::vector<uint8_t>& rows, int64_t n_k) {
    const size_t row_bytes = t.row_bytes(n_k);
    const int64_t n_rows = static_cast<int64_t>(rows.size() / row_bytes);
    std::vector<uint8_t> packed(static_cast<size_t>((n_rows + 7) / 8) * 8 * row_bytes);
    for (int64_t r = 0; r < n_rows; r += 8) {
        const size_t at = static_cast<size_t>(r) * row_bytes;
        t.in(table).pack(rows.data() + at, row_bytes, static_cast<int>(std::min<int64_t>(8, n_rows - r)), n_k,
                         packed.data() + at);
    }
    return packed;
}

/// Quantized tokens, each array exactly as long as it must be.
struct Tokens {
    int64_t n_k;
    std::vector<int8_t> q;
    std::vector<float> d, s;
    std::vector<int16_t> sum16, sum8;

    Tokens(int64_t n_tok, int64_t n_k_in)
        : n_k(n_k_in),
          q(static_cast<size_t>(n_tok * n_k)),
          d(static_cast<size_t>(n_tok * n_k / 32)),
          s(d.size()),
          sum16(2 * d.size()),
          sum8(4 * d.size()) {}
    /// The tokens from a block on, out of all tokens.
    ActRow from(int64_t block, int64_t step) {
        return {q.data() + 32 * block,    d.data() + block,        s.data() + block,
                sum16.data() + 2 * block, sum8.data() + 4 * block, step};
    }
    ActRow row(int64_t t) { return from(t * n_k / 32, 1); }
    ActView view(int64_t tile = 1) const {
        return {q.data(), d.data(), s.data(), sum16.data(), sum8.data(), n_k, n_k / 32, tile};
    }
};

/// The first n_tok of tokens in rows, in tiles of `tile` and one of the rest.
inline Tokens in_tiles(const Tokens& x, int64_t n_tok, int64_t tile) {
    Tokens out(n_tok, x.n_k);
    const int64_t n_blocks = x.n_k / 32;
    for (int64_t t = 0; t < n_tok; t++) {
        const int64_t first = t / tile * tile, width = std::min(tile, n_tok - first);
        for (int64_t b = 0; b < n_blocks; b++) {
            const auto in = static_cast<size_t>(t * n_blocks + b);
            const auto at = static_cast<size_t>(first * n_blocks + b * width + t - first);
            std::memcpy(&out.q[32 * at], &x.q[32 * in], 32);
            out.d[at] = x.d[in];
            out.s[at] = x.s[in];
            std::memcpy(&out.sum16[2 * at], &x.sum16[2 * in], 4);
            std::memcpy(&out.sum8[4 * at], &x.sum8[4 * in], 8);
        }
    }
    return out;
}

/// Random tokens; Extremes: every value is + or - the largest, Largest: all +.
inline Tokens make_tokens(int64_t n_tok, int64_t n_k, Fill fill, uint32_t seed) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    Tokens tokens(n_tok, n_k);
    std::vector<float> x(static_cast<size_t>(n_k));
    for (int64_t t = 0; t < n_tok; t++) {
        for (float& v : x) {
            v = normal(rng);
            if (fill == Fill::Largest) v = 1.5f;
            if (fill == Fill::Smallest) v = -1.5f;
            if (fill == Fill::Extremes) v = bits(rng) % 2 ? 1.5f : -1.5f;
        }
        scalar().quantize_act(x.data(), n_k, tokens.row(t));
    }
    return tokens;
}

/// Prefetch options of a product, which change no bit of it.
struct Prefetched {
    WeightTuning tuning = {};
    const void *next = nullptr, *beside = nullptr;
    bool beside_to_l1 = false;
};

/// y[t, r] with rows y_stride >= n_rows apart; floats between the rows stay `kUntouched`.
constexpr float kUntouched = 12345.0f;
inline std::vector<float> multiply_view(const PackedType& t, const KernelTable& table,
                                        const std::vector<uint8_t>& packed, const ActView& x, int64_t n_k,
                                        int64_t n_rows, int64_t n_tok, int64_t y_stride,
                                        const Prefetched& how = {}) {
    alignas(64) static uint8_t scratch[kernels::kPackedScratchBytes];
    std::vector<float> y(static_cast<size_t>(n_tok * y_stride), kUntouched);
    t.in(table).matmul({packed.data(), n_rows, n_k, x, n_tok, y.data(), y_stride, scratch, how.tuning,
                        how.next, how.beside, how.beside_to_l1});
    return y;
}

/// The same of tokens in rows; a table that takes tiles too gives the same for tiles.
inline std::vector<float> multiply(const PackedType& t, const KernelTable& table,
                                   const std::vector<uint8_t>& packed, const Tokens& x, int64_t n_rows,
                                   int64_t n_tok, int64_t y_stride, const Prefetched& how = {}) {
    const std::vector<float> y =
        multiply_view(t, table, packed, x.view(), x.n_k, n_rows, n_tok, y_stride, how);
    if (table.act_tile > 1) {
        const Tokens tiled = in_tiles(x, n_tok, table.act_tile);
        const std::vector<float> same =
            multiply_view(t, table, packed, tiled.view(table.act_tile), x.n_k, n_rows, n_tok, y_stride, how);
        EXPECT_EQ(0, std::memcmp(y.data(), same.data(), sizeof(float) * y.size()))
            << table.name << ' ' << t.name << " k " << x.n_k << " rows " << n_rows << " tokens " << n_tok;
    }
    return y;
}

}  // namespace tessera::test
