// Malformed files, each with the words that its error must contain, and every prefix of a well-formed file.
#include <gtest/gtest.h>

#include <functional>

#include "ggml-like/gguf/file.h"
#include "tests/gguf/raw_gguf.h"

namespace tessera {
namespace {

using gguf::File;
using gguf::ValueType;
using test::ExactBytes;
using test::le;
using test::lstr;
using test::RawGguf;

struct Malformed {
    const char* name;
    std::function<std::string()> make;
    std::vector<const char*> parts;  // that the message must contain
};

std::string with_magic(const char* magic) {
    RawGguf raw;
    raw.magic = magic;
    return raw.bytes();
}

std::string with_version(uint32_t version) {
    RawGguf raw;
    raw.version = version;
    return raw.bytes();
}

std::string with_counts(uint64_t n_keys, uint64_t n_tensors) {
    RawGguf raw;
    raw.n_keys = n_keys;
    raw.n_tensors = n_tensors;
    return raw.bytes() + std::string(100, '\0');
}

/// One tensor over 256 bytes of data.
std::string with_tensor(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    RawGguf raw;
    raw.data = std::string(256, '\0');
    return raw.raw_tensor("t.weight", dims, type, offset).bytes();
}

std::string with_tensor_name(const std::string& name) {
    RawGguf raw;
    return raw.f32(name, 1).bytes();
}

std::string with_key(uint32_t type, const std::string& payload) {
    RawGguf raw;
    return raw.raw_key("some.key", type, payload).bytes() + std::string(40, '\0');
}

std::string with_array(uint32_t element, uint64_t count, const std::string& payload) {
    return with_key(9, le(element) + le(count) + payload);
}

std::string with_alignment(uint32_t value) {
    RawGguf raw;
    return raw.u32("general.alignment", value).f32("t", 1).bytes();
}

std::string two_tensors(const char* name, uint64_t second_offset) {
    RawGguf raw;
    raw.data = std::string(256, '\0');
    return raw.raw_tensor("first", {16}, 0, 32).raw_tensor(name, {16}, 0, second_offset).bytes();
}

const Malformed kCases[] = {
    {"WrongMagic", [] { return with_magic("BLOB"); }, {"not a GGUF file", "'BLOB'"}},
    {"BinaryMagic", [] { return with_magic("\x01\x02\n\x7f"); }, {"'\\x01\\x02\\x0A\\x7F'"}},
    {"MagicGgml", [] { return with_magic("lmgg"); }, {"'ggml'", "convert"}},
    {"MagicGgmf", [] { return with_magic("fmgg"); }, {"'ggmf'", "convert"}},
    {"MagicGgjt", [] { return with_magic("tjgg"); }, {"'ggjt'", "convert"}},
    {"MagicGgla", [] { return with_magic("algg"); }, {"'ggla'", "LoRA"}},
    {"MagicReversed", [] { return with_magic("FUGG"); }, {"big-endian"}},
    {"Zip", [] { return with_magic("PK\x03\x04"); }, {"zip archive"}},
    {"GitLfs", [] { return std::string("version https://git-lfs.github.com/spec/v1\n"); }, {"git lfs pull"}},
    {"WebPage", [] { return std::string("<!DOCTYPE html><html></html>"); }, {"web page"}},
    {"Version0", [] { return with_version(0); }, {"version 0", "expected 2 or 3"}},
    {"Version1", [] { return with_version(1); }, {"version 1", "expected 2 or 3", "convert"}},
    {"Version4", [] { return with_version(4); }, {"version 4", "expected 2 or 3", "newer"}},
    {"VersionSwapped", [] { return with_version(0x03000000); }, {"0x03000000", "version 3", "big-endian"}},
    {"ManyKeys", [] { return with_counts(UINT64_MAX, 0); }, {"18446744073709551615 keys", "at most"}},
    {"FewTooManyKeys", [] { return with_counts(9, 0); }, {"claims 9 keys", "108 bytes", "at most 7"}},
    {"ManyTensors", [] { return with_counts(0, uint64_t{1} << 40); }, {"1099511627776 tensors", "at most"}},
    {"EmptyKey", [] { return RawGguf().u32("", 1).bytes(); }, {"key number 1 of 1", "1 to 65535", "found 0"}},
    {"HugeKeyLength",
     [] {
         RawGguf raw;
         raw.keys = le(UINT64_MAX) + std::string(40, 'k');
         raw.n_keys = 1;
         return raw.bytes();
     },
     {"key number 1 of 1", "18446744073709551615"}},
    {"KeyPastEnd",
     [] {
         RawGguf raw;
         raw.keys = le(uint64_t{60000}) + std::string(40, 'k');
         raw.n_keys = 1;
         return raw.bytes();
     },
     {"truncated", "the name of key number 1 of 1"}},
    {"LongKey",
     [] { return RawGguf().u32(std::string(65536, 'k'), 1).bytes(); },
     {"1 to 65535", "found 65536"}},
    {"ControlInKey",
     [] { return RawGguf().u32("a\x1b[31m", 1).bytes(); },
     {"control characters", "a\\x1B[31m"}},
    {"InvalidUtf8Key", [] { return RawGguf().u32("a\xff", 1).bytes(); }, {"UTF-8", "'a\\xFF'"}},
    {"ValueType13", [] { return with_key(13, le(0)); }, {"'some.key'", "from 0 to 12", "found 13"}},
    {"ValueTypeHuge", [] { return with_key(0x10000008, le(0)); }, {"'some.key'", "found 268435464"}},
    {"Bool2", [] { return with_key(7, "\x02"); }, {"'some.key'", "0 or 1", "found 2"}},
    {"BoolArray255",
     [] { return with_array(7, 3, std::string("\0\1\xff", 3)); },
     {"'some.key'", "found 255"}},
    {"StringPastEnd",
     [] { return with_key(8, le(uint64_t{1000}) + "x"); },
     {"truncated", "the string of key 'some.key'", "1000"}},
    {"StringLengthMax", [] { return with_key(8, le(UINT64_MAX)); }, {"truncated", "'some.key'"}},
    {"NestedArray", [] { return with_array(9, 1, ""); }, {"'some.key'", "array of arrays"}},
    {"ElementType13", [] { return with_array(13, 1, ""); }, {"'some.key'", "element type", "found 13"}},
    {"ArrayPastEnd", [] { return with_array(6, 1000, ""); }, {"'some.key'", "1000 f32", "does not fit"}},
    {"ArrayCountOverflow",
     [] { return with_array(10, (uint64_t{1} << 61) + 1, ""); },
     {"'some.key'", "2305843009213693953 u64", "does not fit"}},
    {"StringArrayCount", [] { return with_array(8, uint64_t{1} << 60, ""); }, {"'some.key'", "does not fit"}},
    {"StringArrayPastEnd",
     [] { return with_array(8, 2, lstr("a") + le(uint64_t{500})); },
     {"truncated", "string 2 of 2 of key 'some.key'"}},
    {"DuplicateKey",
     [] { return RawGguf().u32("a", 1).u32("b", 1).u32("a", 2).bytes(); },
     {"key 'a' occurs twice", "number 1", "number 3 of 3"}},
    {"AlignmentString",
     [] { return RawGguf().string("general.alignment", "x").bytes(); },
     {"'general.alignment'", "expected u32", "found string \"x\""}},
    {"AlignmentI32",
     [] { return RawGguf().key("general.alignment", ValueType::I32, 32).bytes(); },
     {"'general.alignment'", "expected u32", "found i32 32"}},
    {"Alignment0", [] { return with_alignment(0); }, {"'general.alignment'", "power of two", "found u32 0"}},
    {"Alignment48",
     [] { return with_alignment(48); },
     {"'general.alignment'", "power of two", "found u32 48"}},
    {"AlignmentHuge", [] { return with_alignment(1u << 21); }, {"'general.alignment'", "found u32 2097152"}},
    {"EmptyTensorName", [] { return with_tensor_name(""); }, {"tensor number 1 of 1", "1 to 255", "found 0"}},
    {"LongTensorName", [] { return with_tensor_name(std::string(256, 't')); }, {"1 to 255", "found 256"}},
    {"ControlInTensorName", [] { return with_tensor_name("a\nb"); }, {"control characters", "'a\\x0Ab'"}},
    {"NoDimensions", [] { return with_tensor({}, 0, 0); }, {"'t.weight'", "1 to 4 dimensions", "found 0"}},
    {"FiveDimensions",
     [] {
         return with_tensor({1, 1, 1, 1, 1}, 0, 0);
     },
     {"'t.weight'", "found 5"}},
    {"ZeroDimension",
     [] {
         return with_tensor({32, 0}, 0, 0);
     },
     {"'t.weight'", "[0, 32]", "at least 1"}},
    {"NegativeDimension",
     [] {
         return with_tensor({4, UINT64_MAX}, 0, 0);
     },
     {"'t.weight'", "below 2^63"}},
    {"ProductOverflow",
     [] {
         return with_tensor({1u << 31, 1u << 31, 4}, 0, 0);
     },
     {"'t.weight'", "63 bits"}},
    {"BytesOverflow", [] { return with_tensor({uint64_t{1} << 62}, 0, 0); }, {"'t.weight'", "63 bits"}},
    {"PartialBlock",
     [] { return with_tensor({33}, 8, 0); },
     {"'t.weight'", "multiple of 32", "q8_0", "found 33"}},
    {"RetiredType", [] { return with_tensor({32}, 4, 0); }, {"'t.weight'", "4"}},
    {"UnknownType", [] { return with_tensor({32}, 4000, 0); }, {"'t.weight'", "4000"}},
    {"UnalignedOffset", [] { return with_tensor({8}, 0, 4); }, {"'t.weight'", "alignment 32", "found 4"}},
    {"OffsetPastEnd", [] { return with_tensor({8}, 0, 512); }, {"'t.weight'", "offset 512", "has 256 bytes"}},
    {"OffsetOverflow", [] { return with_tensor({8}, 0, UINT64_MAX - 31); }, {"'t.weight'", "has 256 bytes"}},
    {"DataPastEnd",
     [] { return with_tensor({65}, 0, 0); },
     {"'t.weight'", "expected 260 bytes", "truncated"}},
    {"DuplicateTensor", [] { return two_tensors("first", 96); }, {"tensor 'first' occurs twice"}},
    {"OverlapAfter", [] { return two_tensors("second", 64); }, {"'first' and 'second' overlap by 32 bytes"}},
    {"OverlapBefore", [] { return two_tensors("second", 0); }, {"'second' and 'first' overlap by 32 bytes"}},
    {"OverlapSame", [] { return two_tensors("second", 32); }, {"'first'", "'second'", "overlap by 64 bytes"}},
};

class GgufMalformed : public testing::TestWithParam<Malformed> {};

TEST_P(GgufMalformed, ErrorNamesIt) {
    const ExactBytes bytes(GetParam().make());
    const auto file = File::parse(bytes.span(), "bad.gguf", {});
    ASSERT_FALSE(file);
    const std::string& message = file.error().message;
    EXPECT_TRUE(message.starts_with("bad.gguf: ")) << message;
    EXPECT_TRUE(file.error().code == ErrorCode::Malformed || file.error().code == ErrorCode::Unsupported)
        << message;
    for (const char* part : GetParam().parts)
        EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
    for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << message;
}

INSTANTIATE_TEST_SUITE_P(Cases, GgufMalformed, testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(GgufPrefixes, EveryPrefixIsAnError) {
    const std::string whole = test::every_type_bytes();
    // The file ends with the last tensor's four bytes, so that every shorter prefix is truncated.
    for (size_t n = 0; n < whole.size(); n++) {
        const ExactBytes bytes(std::string_view(whole).substr(0, n));
        const auto file = File::parse(bytes.span(), "prefix", {});
        ASSERT_FALSE(file) << n << " of " << whole.size();
        ASSERT_NE(file.error().message.find("runcated"), std::string::npos)
            << n << ": " << file.error().message;
    }
    const ExactBytes bytes(whole);
    ASSERT_TRUE(File::parse(bytes.span(), "whole", {}));
}

}  // namespace
}  // namespace tessera
