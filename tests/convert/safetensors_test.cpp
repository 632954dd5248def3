// The reader of safetensors files: accepted files and every kind of malformed file.
#include "src/convert/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

namespace tessera::convert {
namespace {

std::string file_of(const std::string& header, size_t data_bytes) {
    const uint64_t n = header.size();
    std::string out(reinterpret_cast<const char*>(&n), sizeof n);
    out += header;
    for (size_t i = 0; i < data_bytes; i++) out += static_cast<char>(i);
    return out;
}

/// Over an allocation of exactly that size, so that sanitizers see a read past the end.
struct Parsed {
    std::unique_ptr<std::byte[]> bytes;
    Result<SafetensorsFile> file;
};
Parsed parse(const std::string& text) {
    auto bytes = std::make_unique<std::byte[]>(text.size());
    std::memcpy(bytes.get(), text.data(), text.size());
    auto file = SafetensorsFile::parse({bytes.get(), text.size()}, "x.safetensors");
    return {std::move(bytes), std::move(file)};
}

constexpr const char* kSound =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2,3],"data_offsets":[8,20]},)"
    R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"s":{"dtype":"BF16","shape":[],"data_offsets":[20,22]},)"
    R"("e":{"dtype":"U8","shape":[0,4],"data_offsets":[22,22]}}   )";

TEST(Safetensors, TensorsInTheOrderOfTheirData) {
    const Parsed parsed = parse(file_of(kSound, 22));
    ASSERT_TRUE(parsed.file.has_value()) << parsed.file.error().message;
    const auto tensors = parsed.file->tensors();
    ASSERT_EQ(tensors.size(), 4u);
    EXPECT_EQ(tensors[0].name, "a");
    EXPECT_EQ(tensors[1].name, "b");
    EXPECT_EQ(tensors[1].dtype, Dtype::F16);
    EXPECT_EQ(tensors[1].shape_string(), "[2, 3]");
    EXPECT_EQ(tensors[1].n_elements(), 6);
    EXPECT_EQ(tensors[1].data[0], std::byte{8});
    EXPECT_EQ(tensors[2].n_elements(), 1);
    EXPECT_EQ(tensors[3].n_elements(), 0);
}

TEST(Safetensors, EveryPrefixIsRefused) {
    const std::string whole = file_of(kSound, 22);
    for (size_t n = 0; n < whole.size(); n++) {
        const Parsed parsed = parse(whole.substr(0, n));
        ASSERT_FALSE(parsed.file.has_value()) << n;
        EXPECT_EQ(parsed.file.error().code, ErrorCode::Malformed);
        EXPECT_NE(parsed.file.error().message.find("x.safetensors"), std::string::npos);
    }
    EXPECT_FALSE(parse(whole + "x").file.has_value());
}

struct Wrong {
    const char* why;
    const char* header;
    size_t data_bytes;
    const char* says;
};
constexpr Wrong kWrong[] = {
    {"no JSON", "{", 0, "header"},
    {"a list", "[]", 0, "expected an object"},
    {"record is no object", R"({"a":3})", 0, "tensor 'a'"},
    {"no dtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "expected a dtype"},
    {"bad dtype", R"({"a":{"dtype":"Q7","shape":[1],"data_offsets":[0,4]}})", 4, "'Q7' is unknown"},
    {"no shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "expected a shape"},
    {"negative", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "whole numbers"},
    {"fraction", R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "whole numbers"},
    {"no offsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4, "two numbers"},
    {"three offsets", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4, "two numbers"},
    {"backwards", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "within"},
    {"out of bounds", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "within the 4 bytes"},
    {"huge offsets", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})", 4,
     "within"},
    {"size mismatch", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "does not match 8"},
    {"overflowing", R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8,
     "does not match"},
    {"overflowing around 0",
     R"({"a":{"dtype":"F64","shape":[0,9223372036854775807,3],"data_offsets":[0,8]}})", 8, "does not match"},
    {"overlap",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     8, "the data before it end at 8"},
    {"twice the same bytes",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
     4, "the data before it end at 4"},
    {"hole",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
     12, "begin at 8"},
    {"hole at the end", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 12,
     "end at byte 4 of 12"},
    {"name twice",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     8, "occurs twice"},
    {"many dimensions", R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1,
     "up to 8 dimensions"},
};

TEST(Safetensors, WrongHeadersAreNamed) {
    for (const Wrong& wrong : kWrong) {
        const Parsed parsed = parse(file_of(wrong.header, wrong.data_bytes));
        ASSERT_FALSE(parsed.file.has_value()) << wrong.why;
        EXPECT_NE(parsed.file.error().message.find(wrong.says), std::string::npos)
            << wrong.why << ": " << parsed.file.error().message;
    }
}

TEST(Safetensors, HugeLengthsAndDepths) {
    std::string text = file_of(kSound, 22);
    const uint64_t lengths[] = {text.size(), UINT64_MAX, uint64_t{1} << 63};
    for (const uint64_t n : lengths) {
        std::memcpy(text.data(), &n, sizeof n);
        EXPECT_FALSE(parse(text).file.has_value());
    }
    EXPECT_FALSE(parse(file_of(std::string(1 << 20, '['), 0)).file.has_value());
    EXPECT_FALSE(parse(file_of("{\"" + std::string(1 << 20, 'k') + "\":{}}", 0)).file.has_value());
}

}  // namespace
}  // namespace tessera::convert
