// Tiles: the layout is a bijection on bytes, and known values are at their documented places.
#include "src/npu/layout.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/npu/support.h"

namespace tessera::npu {
namespace {

TEST(Layout, TilesAreBijections) {
    std::set<int64_t> act, weight, nibble;
    for (int64_t row = 0; row < kTileRows; ++row)
        for (int64_t channel = 0; channel < kTileChannels; ++channel)
            act.insert(act_tile_offset(row, channel));
    for (int64_t k = 0; k < kTileChannels; ++k)
        for (int64_t column = 0; column < kTileChannels; ++column) {
            weight.insert(weight_tile_offset(k, column));
            const NibblePlace place = nibble_place(k, column);
            nibble.insert(2 * place.byte + place.high);
        }
    EXPECT_EQ(act.size(), static_cast<size_t>(kActTileBytes));
    EXPECT_EQ(*act.rbegin(), kActTileBytes - 1);
    EXPECT_EQ(weight.size(), static_cast<size_t>(kWeightTileBytes));
    EXPECT_EQ(*weight.rbegin(), kWeightTileBytes - 1);
    EXPECT_EQ(nibble.size(), static_cast<size_t>(2 * kNibbleTileBytes));
    EXPECT_EQ(*nibble.rbegin(), 2 * kNibbleTileBytes - 1);
}

TEST(Layout, KnownPlaces) {
    // Four inputs of an output side by side, then the next output, then the next four inputs.
    EXPECT_EQ(weight_tile_offset(0, 0), 0);
    EXPECT_EQ(weight_tile_offset(3, 0), 3);
    EXPECT_EQ(weight_tile_offset(0, 1), 4);
    EXPECT_EQ(weight_tile_offset(4, 0), 128);
    EXPECT_EQ(weight_tile_offset(31, 31), 1023);
    EXPECT_EQ(nibble_place(0, 16).byte, 0);
    EXPECT_TRUE(nibble_place(0, 16).high);
    EXPECT_EQ(act_tile_offset(1, 0), 32);
    const ActLayout layout{.rows = 65, .channels = 33, .planes = 2};
    EXPECT_EQ(layout.bytes(), 65 * 64 * 2);
    std::vector<uint16_t> x(65 * 33);
    x[0] = 0x1234;
    x[64 * 33 + 32] = 0xabcd;
    std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()), std::byte{0xee});
    pack_activations(layout, x.data(), bytes);
    EXPECT_EQ(bytes[0], std::byte{0x12});
    EXPECT_EQ(bytes[2 * 2048], std::byte{0x34});
    // The second row tile has one row: plane, channel tile, 32 bytes.
    EXPECT_EQ(bytes[4 * 2048 + 32], std::byte{0xab});
    EXPECT_EQ(bytes[4 * 2048 + 64 + 32], std::byte{0xcd});
    EXPECT_EQ(bytes[4 * 2048 + 33], std::byte{0});
}

TEST(Layout, ActivationsComeBack) {
    test::Draw draw(1);
    for (int i = 0; i < 50; ++i) {
        const int bits = i % 2 ? 8 : 16;
        const Encoding encoding = draw.encoding(bits);
        const ActLayout layout{draw.integer(1, 200), draw.integer(1, 100), bits / 8};
        const auto x = draw.codes(encoding, layout.rows * layout.channels);
        std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
        pack_activations(layout, x.data(), bytes);
        std::vector<uint16_t> back(x.size());
        unpack_activations(layout, bytes, back.data());
        ASSERT_EQ(back, x);
    }
}

}  // namespace
}  // namespace tessera::npu
