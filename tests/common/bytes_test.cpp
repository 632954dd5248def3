#include "common/bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace tessera {
namespace {

std::array<std::byte, 16> counting_bytes() {
    std::array<std::byte, 16> bytes{};
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<std::byte>(i + 1);
    return bytes;
}

TEST(ByteReader, ReadsLittleEndianValuesInOrder) {
    const auto bytes = counting_bytes();
    ByteReader reader(bytes);
    EXPECT_EQ(reader.get<uint8_t>(), 1);
    EXPECT_EQ(reader.get<uint16_t>(), 0x0302);
    EXPECT_EQ(reader.get<uint32_t>(), 0x07060504u);
    EXPECT_EQ(reader.view(3), "\x08\x09\x0a");
    EXPECT_EQ(reader.pos(), 10u);
    EXPECT_EQ(reader.remaining(), 6u);
    reader.skip(6);
    EXPECT_TRUE(reader.ok());
    EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReader, AReadPastTheEndLatchesFailure) {
    const auto bytes = counting_bytes();
    ByteReader reader(bytes);
    reader.seek(13);
    EXPECT_EQ(reader.get<uint32_t>(), 0u);
    EXPECT_FALSE(reader.ok());
    EXPECT_EQ(reader.get<uint8_t>(), 0);
    EXPECT_EQ(reader.pos(), 13u);
}

TEST(ByteReader, LengthsNearTheLimitDoNotWrap) {
    const auto bytes = counting_bytes();
    for (const uint64_t n : {uint64_t{17}, UINT64_MAX, UINT64_MAX - 7, uint64_t{1} << 63}) {
        ByteReader reader(bytes);
        reader.skip(8);
        EXPECT_TRUE(reader.view(n).empty());
        EXPECT_FALSE(reader.ok());
        ByteReader sought(bytes);
        sought.seek(n);
        EXPECT_FALSE(sought.ok());
    }
    ByteReader at_end(bytes);
    at_end.seek(16);
    EXPECT_TRUE(at_end.ok());
    EXPECT_TRUE(at_end.view(0).empty());
    EXPECT_TRUE(at_end.ok());
}

}  // namespace
}  // namespace tessera
