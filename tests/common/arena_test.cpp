#include "common/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "common/pages.h"

namespace tessera {
namespace {

uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

bool all_zero(const Buffer& buffer) {
    return std::all_of(buffer.data(), buffer.data() + buffer.size(),
                       [](std::byte b) { return b == std::byte{0}; });
}

TEST(Buffer, IsZeroFilledAndAlignedForVectors) {
    auto buffer = Buffer::create(1000, "scratch");
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->size(), 1000u);
    EXPECT_EQ(address(buffer->data()) % 64, 0u);
    EXPECT_TRUE(all_zero(*buffer));
    buffer->as<uint8_t>()[999] = 7;
    EXPECT_EQ(buffer->data()[999], std::byte{7});
}

TEST(Buffer, LargeOnesStartOnAHugePage) {
    for (const size_t n : {kHugePage, kHugePage + 1, 3 * kHugePage - 5}) {
        auto buffer = Buffer::create(n, "weights");
        ASSERT_TRUE(buffer);
        EXPECT_EQ(address(buffer->data()) % kHugePage, 0u) << n;
        EXPECT_EQ(buffer->size(), n);
        buffer->data()[0] = buffer->data()[n - 1] = std::byte{1};
    }
}

TEST(Buffer, EmptyIsAllowed) {
    auto buffer = Buffer::create(0, "nothing");
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->size(), 0u);
    EXPECT_EQ(buffer->data(), nullptr);
}

TEST(Buffer, MovesTheMapping) {
    Buffer a = Buffer::create(100, "a").value();
    a.data()[3] = std::byte{9};
    const std::byte* where = a.data();
    Buffer b(std::move(a));
    EXPECT_EQ(b.data(), where);
    EXPECT_EQ(a.size(), 0u);
    Buffer c = Buffer::create(50, "c").value();
    c = std::move(b);
    EXPECT_EQ(c.data(), where);
    EXPECT_EQ(c.data()[3], std::byte{9});
    EXPECT_EQ(b.data(), nullptr);
    Buffer& same = c;
    c = std::move(same);
    EXPECT_EQ(c.data(), where);
    EXPECT_EQ(c.size(), 100u);
}

TEST(Buffer, RefusalNamesTheBufferAndItsSize) {
    for (const size_t n : {SIZE_MAX, SIZE_MAX - 4096, size_t{1} << 62}) {
        auto buffer = Buffer::create(n, "the KV cache");
        ASSERT_FALSE(buffer);
        EXPECT_EQ(buffer.error().code, ErrorCode::OutOfMemory);
        EXPECT_NE(buffer.error().message.find("the KV cache"), std::string::npos);
        EXPECT_NE(buffer.error().message.find(std::to_string(n)), std::string::npos);
    }
}

TEST(Arena, HandsOutAlignedZeroedDisjointPieces) {
    auto arena = Arena::create(Arena::padded(3 * 4) + Arena::padded(100) + Arena::padded(8), "activations");
    ASSERT_TRUE(arena);
    const auto floats = arena->take<float>(3);
    const auto bytes = arena->take<uint8_t>(100);
    const auto words = arena->take<uint64_t>(1);
    EXPECT_EQ(arena->used(), arena->capacity());
    for (const uintptr_t at : {address(floats.data()), address(bytes.data()), address(words.data())})
        EXPECT_EQ(at % 64, 0u);
    EXPECT_EQ(floats.size(), 3u);
    EXPECT_EQ(floats[2], 0.0f);
    std::fill(bytes.begin(), bytes.end(), uint8_t{255});
    EXPECT_EQ(floats[2], 0.0f);
    EXPECT_EQ(words[0], 0u);
    arena->reset();
    EXPECT_EQ(arena->used(), 0u);
    EXPECT_EQ(address(arena->take<float>(1).data()), address(floats.data()));
}

TEST(Arena, LastPieceNeedsNoPadding) {
    auto arena = Arena::create(10, "ten");
    ASSERT_TRUE(arena);
    EXPECT_EQ(arena->take<char>(10).size(), 10u);
}

TEST(ArenaDeathTest, TakingMoreThanPlannedAborts) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto arena = Arena::create(64, "small");
    ASSERT_TRUE(arena);
    arena->take<char>(1);
    EXPECT_DEATH(arena->take<char>(1), "internal error");
}

}  // namespace
}  // namespace tessera
