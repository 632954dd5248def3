#include "common/pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace tessera {
namespace {

uintptr_t address_of(const void* p) { return reinterpret_cast<uintptr_t>(p); }

/// Pages of address space that this process has mapped; the count itself allocates nothing.
size_t mapped_pages() {
    char text[100] = {};
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? std::strtoull(text, nullptr, 10) : 0;
}

TEST(Pages, AreZeroFilledAndTheCallersToTheLastByte) {
    for (const size_t n : {size_t{1}, page_size(), kHugePage / 2 - 1, kHugePage / 2, kHugePage, kHugePage + 1,
                           2 * kHugePage - 1, 3 * kHugePage + 5000}) {
        auto* const bytes = static_cast<char*>(map_pages(n));
        ASSERT_NE(bytes, nullptr) << n;
        EXPECT_EQ(address_of(bytes) % (n >= kHugePage / 2 ? kHugePage : page_size()), 0u) << n;
        EXPECT_TRUE(std::all_of(bytes, bytes + n, [](char c) { return c == 0; })) << n;
        std::fill_n(bytes, n, 'x');
        unmap_pages(bytes, n);
    }
}

TEST(Pages, GoBackWithWhatWasMappedToAlignThem) {
    const size_t before = mapped_pages();
    if (before == 0) GTEST_SKIP() << "the system does not tell what is mapped";
    constexpr size_t kSize = 5 * kHugePage + 1000;
    // Several buffers at once: one may begin where another ends, and then only one of them is aligned by
    // chance.
    void* blocks[4];
    for (void*& block : blocks) block = map_pages(kSize);
    const size_t taken = (mapped_pages() - before) * page_size();
    EXPECT_GE(taken, 4 * kSize);
    EXPECT_LE(taken, 4 * (kSize + page_size()));
    for (void* block : blocks) unmap_pages(block, kSize);
    EXPECT_EQ(mapped_pages(), before);
}

TEST(Pages, AreRefusedWhereThereAreNone) {
    for (const size_t n : {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 4}) {
        errno = 0;
        EXPECT_EQ(map_pages(n), nullptr) << n;
        EXPECT_EQ(errno, ENOMEM) << n;
    }
}

TEST(PageVector, HoldsWhatAnyVectorDoes) {
    for (const size_t n :
         {size_t{10}, kHugePage / 2 / sizeof(int) - 1, kHugePage / 2 / sizeof(int), kHugePage}) {
        PageVector<int> numbers;
        for (size_t i = 0; i < n; i++) numbers.push_back(static_cast<int>(i));
        const PageVector<int> copy = numbers, moved = std::move(numbers);
        PageVector<int> expected(n);
        std::iota(expected.begin(), expected.end(), 0);
        EXPECT_EQ(copy, expected) << n;
        EXPECT_EQ(moved, expected) << n;
        EXPECT_EQ(address_of(moved.data()) % alignof(int), 0u);
    }
}

TEST(PageVector, GivesItsPagesBack) {
    const size_t before = mapped_pages();
    if (before == 0) GTEST_SKIP() << "the system does not tell what is mapped";
    {
        const PageVector<char> large(3 * kHugePage);
        EXPECT_GE(mapped_pages(), before + 3 * kHugePage / page_size());
    }
    EXPECT_EQ(mapped_pages(), before);
}

TEST(PageVector, RefusesSizesBeyondMemory) {
    PageVector<uint64_t> numbers;
    EXPECT_THROW(numbers.reserve(numbers.max_size()), std::bad_alloc);
    EXPECT_THROW(numbers.reserve(SIZE_MAX / 4 / sizeof(uint64_t)), std::bad_alloc);
    EXPECT_TRUE(numbers.empty());
}

}  // namespace
}  // namespace tessera
