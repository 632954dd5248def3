// Every table of tile kernels against plain C, on bytes at random and on the largest there are. Runs in cross
// builds, too.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "common/cpu.h"
#include "common/rng.h"
#include "tests/npu/emulated/tile.h"
#include "tests/npu/usable_kernels.h"

namespace tessera::npu {
namespace {

/// The tables that this machine can run, and VNNI's by emulation.
std::vector<const TileKernels*> all_tables() {
    std::vector<const TileKernels*> out = test::usable_kernels();
#if defined(__x86_64__)
    if (cpu_features().avx2) out.push_back(&kTilesEmulatedVnni);
#endif
    return out;
}

constexpr int64_t kActTile = 64 * 32, kWeightTile = 32 * 32, kNibbleTile = kWeightTile / 2;

template <class T>
std::vector<T> random_bytes(Rng& rng, int64_t n) {
    std::vector<T> out(static_cast<size_t>(n));
    for (T& byte : out) byte = static_cast<T>(rng.next_u64());
    return out;
}

/// A table's products of the operands, added to existing sums.
std::vector<int64_t> products(const TileKernels& table, MultiplyArgs args) {
    std::vector<int64_t> sums(static_cast<size_t>(args.rows) * 32, 7);
    args.sums = sums.data();
    table.multiply(args);
    return sums;
}

TEST(TileKernels, MultiplyEqualsPlainC) {
    Rng rng(1);
    for (const TileKernels* table : all_tables())
        for (const int64_t k_tiles : {1, 3, 8, 9, 33, 70})
            for (const int64_t rows : {1, 2, 3, 31, 64}) {
                const auto high = random_bytes<uint8_t>(rng, k_tiles * kActTile);
                const auto low = random_bytes<uint8_t>(rng, k_tiles * kActTile);
                const auto w = random_bytes<int8_t>(rng, k_tiles * kWeightTile);
                for (const uint8_t* second : {low.data(), static_cast<const uint8_t*>(nullptr)}) {
                    const MultiplyArgs args = {high.data(), second, kActTile, w.data(),
                                               k_tiles,     rows,   nullptr};
                    EXPECT_EQ(products(*table, args), products(kTilesScalar, args))
                        << table->name << " " << k_tiles << " tiles, " << rows << " rows";
                }
            }
}

/// No 32-bit sum may overflow: all products have the largest magnitude and the same sign.
TEST(TileKernels, MultiplyHoldsTheLargestSums) {
    constexpr int64_t kTiles = 2056;  // 65792 inputs, about as many as a Linear may have
    for (const TileKernels* table : all_tables())
        for (const int weight : {-128, 127})
            for (const int byte : {0, 255}) {
                const std::vector<uint8_t> x(kTiles * kActTile, static_cast<uint8_t>(byte));
                const std::vector<int8_t> w(kTiles * kWeightTile, static_cast<int8_t>(weight));
                const MultiplyArgs args = {x.data(), x.data(), kActTile, w.data(), kTiles, 3, nullptr};
                const int64_t sum = kTiles * 32 * (257 * byte - 32768) * weight;
                EXPECT_EQ(products(*table, args), std::vector<int64_t>(3 * 32, 7 + sum)) << table->name;
            }
}

TEST(TileKernels, ExpandEqualsPlainC) {
    Rng rng(2);
    for (const TileKernels* table : all_tables())
        for (const int64_t block : {16, 32, 64})
            for (const int64_t k_tiles : {1, 2, 5}) {
                const auto packed = random_bytes<uint8_t>(rng, k_tiles * kNibbleTile);
                const auto mult = random_bytes<int8_t>(rng, (k_tiles * 32 + block - 1) / block * 32);
                std::vector<int8_t> out(static_cast<size_t>(k_tiles * kWeightTile)), expected(out);
                table->expand(packed.data(), mult.data(), k_tiles, block, out.data());
                kTilesScalar.expand(packed.data(), mult.data(), k_tiles, block, expected.data());
                EXPECT_EQ(out, expected) << table->name << " blocks of " << block;
            }
}

/// Codes at random, and all of the largest products there are, of one sign.
TEST(TileKernels, MultiplyPackedEqualsExpandAndMultiply) {
    Rng rng(4);
    for (const TileKernels* table : all_tables()) {
        if (!table->multiply_packed) continue;
        for (const int64_t block : {16, 32, 64})
            for (const int64_t k_tiles : {1, 2, 9, 2056})
                for (const int fixed : {-1, 0, 1, 2}) {
                    auto high = random_bytes<uint8_t>(rng, k_tiles * 32),
                         low = random_bytes<uint8_t>(rng, k_tiles * 32);
                    auto packed = random_bytes<uint8_t>(rng, k_tiles * kNibbleTile);
                    std::vector<int8_t> mult(static_cast<size_t>((k_tiles * 32 + block - 1) / block * 32));
                    for (int8_t& m : mult)
                        m = static_cast<int8_t>(static_cast<int>(rng.next_u64() % 32) - 15);
                    if (fixed >= 0) {
                        std::fill(high.begin(), high.end(), fixed == 2 ? 0 : 255);
                        std::fill(low.begin(), low.end(), 255);
                        std::fill(packed.begin(), packed.end(), fixed == 1 ? 0x77 : 0x88);
                        std::fill(mult.begin(), mult.end(), 16);
                    }
                    std::vector<int8_t> w(static_cast<size_t>(k_tiles * kWeightTile));
                    kTilesScalar.expand(packed.data(), mult.data(), k_tiles, block, w.data());
                    for (const uint8_t* second :
                         {std::as_const(low).data(), static_cast<const uint8_t*>(nullptr)}) {
                        std::vector<int64_t> sums(32, 7);
                        table->multiply_packed({high.data(), second, 32, packed.data(), mult.data(), block,
                                                k_tiles, sums.data()});
                        EXPECT_EQ(sums, products(kTilesScalar,
                                                 {high.data(), second, 32, w.data(), k_tiles, 1, nullptr}))
                            << table->name << " blocks of " << block << ", " << k_tiles << " tiles";
                    }
                }
    }
}

TEST(TileKernels, InterleaveEqualsPlainC) {
    Rng rng(3);
    for (const TileKernels* table : all_tables())
        for (const int64_t stride : {32, 40, 96})
            for (const int64_t n_quads : {1, 8, 21}) {
                const auto bytes = random_bytes<uint8_t>(rng, 4 * n_quads * stride);
                std::vector<int8_t> out(static_cast<size_t>(n_quads * 128)), expected(out);
                std::vector<int32_t> sums(32, 5), expected_sums(sums);
                table->interleave(bytes.data(), stride, n_quads, out.data(), sums.data());
                kTilesScalar.interleave(bytes.data(), stride, n_quads, expected.data(), expected_sums.data());
                EXPECT_EQ(out, expected) << table->name << " rows " << stride << " apart";
                EXPECT_EQ(sums, expected_sums) << table->name << " rows " << stride << " apart";
            }
}

}  // namespace
}  // namespace tessera::npu
