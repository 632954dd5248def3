// The memory that opening a file may allocate, counted by replacing operator new in this program.
#include <gtest/gtest.h>

#include "ggml-like/gguf/file.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/count_allocations.h"
#include "tests/support/data.h"

namespace tessera {
namespace {

using gguf::File;
using test::ExactBytes;
using test::le;
using test::lstr;
using test::RawGguf;

/// All allocations count, also those freed again: at most 4 bytes for each byte of the file.
void expect_modest(const char* what, const std::string& text, bool opens) {
    const ExactBytes bytes(text);
    const uint64_t before = test::allocated_bytes;
    const auto file = File::parse(bytes.span(), "f", {});
    const uint64_t used = test::allocated_bytes - before;
    EXPECT_EQ(file.has_value(), opens) << what << ": " << (file ? "" : file.error().message);
    EXPECT_LE(used, 4 * text.size() + (64 << 10)) << what << ", a file of " << text.size() << " bytes";
}

/// Base-36 names, the shortest there are.
std::string short_name(uint32_t i) {
    std::string name;
    do name += "0123456789abcdefghijklmnopqrstuvwxyz"[i % 36];
    while ((i /= 36) != 0);
    return name;
}

TEST(GgufAllocation, ShortestKeys) {
    // Just past a power of two a hash table is largest for its number of names.
    for (const uint32_t n : {1000u, 25000u, 98305u, 200000u}) {
        RawGguf raw;
        for (uint32_t i = 0; i < n; i++) raw.raw_key(short_name(i), 0, "\x01");
        expect_modest("keys", raw.bytes(), true);
    }
}

TEST(GgufAllocation, ShortestTensors) {
    for (const uint32_t n : {1000u, 98305u}) {
        RawGguf raw;
        raw.alignment = 1;
        raw.u32("general.alignment", 1);
        for (uint32_t i = 0; i < n; i++) raw.raw_tensor(short_name(i), {1}, 24, n - 1 - i);
        raw.data = std::string(n, '\x05');
        expect_modest("tensors in falling order", raw.bytes(), true);
    }
}

TEST(GgufAllocation, EmptyStrings) {
    RawGguf raw;
    raw.array("strings", 8, 500000, std::string(4000000, '\0'));
    expect_modest("empty strings", raw.bytes(), true);
    RawGguf many;
    for (uint32_t i = 0; i < 100000; i++) many.array(short_name(i), 8, 1, lstr(""));
    expect_modest("arrays of one empty string", many.bytes(), true);
}

TEST(GgufAllocation, LyingCounts) {
    const std::string filler(1000000, '\0');
    RawGguf keys;
    keys.n_keys = 70000;
    expect_modest("number of keys", keys.bytes() + filler, false);
    RawGguf tensors;
    tensors.n_tensors = 30000;
    expect_modest("number of tensors", tensors.bytes() + filler, false);
    RawGguf strings;
    strings.array("s", 8, 120000, le(uint64_t{5}));
    expect_modest("number of strings", strings.bytes() + std::string(1000000, '\xff'), false);
    RawGguf numbers;
    numbers.array("s", 12, uint64_t{1} << 60, "");
    expect_modest("number of f64", numbers.bytes() + filler, false);
    RawGguf text;
    text.raw_key("s", 8, le(uint64_t{1} << 62));
    expect_modest("length of a string", text.bytes() + filler, false);
}

TEST(GgufAllocation, ReferenceFiles) {
    for (const auto& entry : std::filesystem::directory_iterator(TSR_BINARY_DIR "/test-models/bad")) {
        if (entry.path().extension() != ".gguf") continue;
        const std::string path = entry.path().string();
        const uint64_t before = test::allocated_bytes;
        const auto file = File::open(path);
        EXPECT_LE(test::allocated_bytes - before, 4 * std::filesystem::file_size(path) + (64 << 10)) << path;
    }
}

}  // namespace
}  // namespace tessera
