// The packed container in the reader and the writer: well-formed files, each way to break one, prefixes.
#include <gtest/gtest.h>

#include <functional>

#include "ggml-like/gguf/packed.h"
#include "ggml-like/gguf/writer.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using gguf::File;
using gguf::StoredType;
using gguf::ValueType;
using test::ExactBytes;
using test::packed_bytes;
using test::RawGguf;

TEST(GgufPacked, TensorsSayHowTheyLie) {
    const ExactBytes bytes(packed_bytes());
    const auto file = File::parse(bytes.span(), "packed", {});
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE(file->is_packed());
    const gguf::TensorInfo* matrix = file->find_tensor("matrix");
    EXPECT_EQ(matrix->type, Type::Q8_0);
    EXPECT_EQ(matrix->layout, Layout::Packed);
    EXPECT_EQ(matrix->type_id(), 0x54530108u);
    EXPECT_EQ(matrix->shape_string(), "[9, 32]");
    EXPECT_EQ(matrix->data.size(), 576u);  // 2 groups of 8 rows of 34 bytes, filled up to 64
    const gguf::TensorInfo* experts = file->find_tensor("experts");
    EXPECT_EQ(experts->type, Type::Q4_0);
    EXPECT_EQ(experts->data.size(), 3 * 192u);  // a group of 8 rows of 18 bytes each
    EXPECT_EQ(file->find_tensor("rows")->layout, Layout::Rows);
    EXPECT_EQ(file->find_tensor("rows")->type_id(), 8u);
    EXPECT_NE(test::touch(*file), 0u);
}

TEST(GgufPacked, AStockFileIsNotPacked) {
    const ExactBytes bytes(test::every_type_bytes());
    EXPECT_FALSE(File::parse(bytes.span(), "stock", {})->is_packed());
}

TEST(GgufPacked, IdsAndBack) {
    int n_packed = 0;
    for (const TypeInfo& info : all_types()) {
        const uint32_t stock = gguf::stored_type_id({info.type, Layout::Rows});
        EXPECT_EQ(stock, static_cast<uint32_t>(info.type));
        EXPECT_EQ(gguf::stored_type_from_id(stock)->type, info.type);
        const uint32_t id = gguf::stored_type_id({info.type, Layout::Packed});
        EXPECT_TRUE(gguf::is_packed_type_id(id));
        const auto stored = gguf::stored_type_from_id(id);
        ASSERT_EQ(stored.has_value(), gguf::has_packed_layout(info.type)) << info.name;
        if (!stored) continue;
        n_packed++;
        EXPECT_EQ(stored->type, info.type);
        EXPECT_EQ(stored->layout, Layout::Packed);
        EXPECT_EQ(gguf::stored_name(*stored), std::string(info.name) + " p8x4");
    }
    EXPECT_EQ(n_packed, 25);
}

struct Broken {
    const char* name;
    std::function<std::string()> make;
    std::vector<const char*> parts;  // that the message must contain
};

/// One tensor over 1152 bytes of data, in a container that is well-formed apart from the given damage.
std::string with_packed_tensor(const std::vector<uint64_t>& dims, uint32_t id, uint64_t offset = 0) {
    RawGguf raw = test::packed_container();
    raw.data = std::string(1152, '\0');
    return raw.raw_tensor("t.weight", dims, id, offset).bytes();
}

std::string with_keys(const std::function<void(RawGguf&)>& set) {
    RawGguf raw;
    raw.alignment = 64;
    raw.u32("general.alignment", 64);
    set(raw);
    return raw.tensor("t.weight", {32, 8}, 0x54530108, std::string(320, '\0')).bytes();
}

const Broken kBroken[] = {
    {"NoKeys",
     [] { return with_keys([](RawGguf&) {}); },
     {"'t.weight'", "0x54530108", "'tessera.packed.version' is missing"}},
    {"NoVersion",
     [] { return with_keys([](RawGguf& raw) { raw.string("tessera.packed.layout", "p8x4"); }); },
     {"'tessera.packed.version'", "expected a u32, found none"}},
    {"NoLayout",
     [] { return with_keys([](RawGguf& raw) { raw.u32("tessera.packed.version", 2); }); },
     {"'tessera.packed.layout'", "expected a string, found none"}},
    {"VersionString",
     [] {
         return with_keys([](RawGguf& raw) {
             raw.string("tessera.packed.version", "2").string("tessera.packed.layout", "p8x4");
         });
     },
     {"'tessera.packed.version'", "expected a u32, found string \"2\""}},
    {"VersionU64",
     [] {
         return with_keys([](RawGguf& raw) {
             raw.key("tessera.packed.version", ValueType::U64, uint64_t{2})
                 .string("tessera.packed.layout", "p8x4");
         });
     },
     {"'tessera.packed.version'", "found u64 2"}},
    {"LayoutNumber",
     [] {
         return with_keys(
             [](RawGguf& raw) { raw.u32("tessera.packed.version", 2).u32("tessera.packed.layout", 1); });
     },
     {"'tessera.packed.layout'", "expected a string, found u32 1"}},
    {"NextVersion",
     [] {
         return with_keys([](RawGguf& raw) {
             raw.u32("tessera.packed.version", 3).string("tessera.packed.layout", "p8x4");
         });
     },
     {"another version of tessera", "expected layout p8x4 version 2, found layout p8x4 version 3",
      "unpack it with that version or pack the stock file again"}},
    {"FormerVersion",
     [] {
         return with_keys([](RawGguf& raw) {
             raw.u32("tessera.packed.version", 1).string("tessera.packed.layout", "p8x4");
         });
     },
     {"another version of tessera", "expected layout p8x4 version 2, found layout p8x4 version 1"}},
    {"OtherLayout",
     [] {
         return with_keys([](RawGguf& raw) {
             raw.u32("tessera.packed.version", 2).string("tessera.packed.layout", "p16\n");
         });
     },
     {"another version of tessera", "found layout p16\\x0A version 2", "pack the stock file again"}},
    {"StockAlignment48",
     [] {
         return with_keys([](RawGguf& raw) {
             raw.u32("tessera.packed.version", 2).string("tessera.packed.layout", "p8x4");
             raw.u32("tessera.packed.alignment", 48);
         });
     },
     {"'tessera.packed.alignment'", "power of two", "found u32 48"}},
    {"StockAlignmentI32",
     [] {
         return with_keys([](RawGguf& raw) {
             raw.u32("tessera.packed.version", 2).string("tessera.packed.layout", "p8x4");
             raw.key("tessera.packed.alignment", ValueType::I32, 32);
         });
     },
     {"'tessera.packed.alignment'", "found i32 32"}},
    {"StockAlignmentAlone",
     [] { return with_keys([](RawGguf& raw) { raw.u32("tessera.packed.alignment", 32); }); },
     {"'tessera.packed.version'", "found none"}},
    {"Layout0",
     [] {
         return with_packed_tensor({32, 8}, 0x54530008);
     },
     {"'t.weight'", "another version", "layout number 0 in type id 0x54530008"}},
    {"Layout2",
     [] {
         return with_packed_tensor({32, 8}, 0x54530208);
     },
     {"'t.weight'", "another version", "expected layout p8x4 version 2", "layout number 2"}},
    {"Layout255",
     [] {
         return with_packed_tensor({32, 8}, 0x5453ff08);
     },
     {"'t.weight'", "layout number 255"}},
    {"BaseWords",
     [] {
         return with_packed_tensor({32, 8}, 0x5453011a);
     },
     {"'t.weight'", "0x5453011a", "layout p8x4, found i32"}},
    {"BaseData",
     [] {
         return with_packed_tensor({32, 8}, 0x54530118);
     },
     {"'t.weight'", "found i8"}},
    {"BaseDouble",
     [] {
         return with_packed_tensor({32, 8}, 0x5453011c);
     },
     {"'t.weight'", "found f64"}},
    {"BaseRetired",
     [] {
         return with_packed_tensor({32, 8}, 0x54530104);
     },
     {"'t.weight'", "0x54530104", "Q4_2"}},
    {"BaseUnknown",
     [] {
         return with_packed_tensor({32, 8}, 0x54530132);
     },
     {"'t.weight'", "type id 50 is unknown"}},
    {"OtherPrivate",
     [] {
         return with_packed_tensor({32, 8}, 0x54540108);
     },
     {"'t.weight'", "is unknown"}},
    {"Vector",
     [] { return with_packed_tensor({32}, 0x54530108); },
     {"'t.weight'", "2 or 3 dimensions", "[32]"}},
    {"FourDimensions",
     [] {
         return with_packed_tensor({32, 8, 1, 1}, 0x54530108);
     },
     {"'t.weight'", "2 or 3 dimensions", "[1, 1, 8, 32]"}},
    {"PartialBlock",
     [] {
         return with_packed_tensor({33, 8}, 0x54530108);
     },
     {"'t.weight'", "multiple of 32"}},
    {"ZeroRows",
     [] {
         return with_packed_tensor({32, 0}, 0x54530108);
     },
     {"'t.weight'", "at least 1"}},
    {"Unaligned",
     [] {
         return with_packed_tensor({32, 8}, 0x54530108, 32);
     },
     {"'t.weight'", "alignment 64", "found 32"}},
    // 33 rows take 5 groups: 1360 bytes and 48 bytes of padding. In row order they would fit.
    {"LastGroupPastEnd",
     [] {
         return with_packed_tensor({32, 33}, 0x54530108);
     },
     {"'t.weight' (q8_0 p8x4 [33, 32])", "expected 1408 bytes", "has 1152 bytes", "truncated"}},
    {"FillingPastEnd",
     [] {
         return with_packed_tensor({32, 1, 4}, 0x54530108);
     },
     {"'t.weight'", "expected 1280 bytes", "has 1152 bytes"}},
    {"GroupsOverflow",
     [] {
         return with_packed_tensor({32, uint64_t{271275648142787523}}, 0x54530108);
     },
     {"'t.weight'", "63 bits"}},
    {"FillingOverflow",
     [] {
         return with_packed_tensor({32, 1, uint64_t{1} << 57}, 0x54530108);
     },
     {"'t.weight'", "63 bits"}},
    {"SmallAlignment",
     [] {
         RawGguf raw;
         raw.u32("tessera.packed.version", 2).string("tessera.packed.layout", "p8x4");
         return raw.tensor("t.weight", {32, 8}, 0x54530108, std::string(320, '\0')).bytes();
     },
     {"'t.weight'", "'general.alignment'", "multiple of 64, found 32"}},
    {"Overlap",
     [] {
         RawGguf raw = test::packed_container();
         raw.data = std::string(1152, '\0');
         raw.raw_tensor("first", {32, 9}, 0x54530108, 0);  // 576 bytes, where 9 rows would take 306
         return raw.raw_tensor("second", {64}, 0, 512).bytes();
     },
     {"'first' and 'second' overlap by 64 bytes"}},
};

class GgufPackedBroken : public testing::TestWithParam<Broken> {};

TEST_P(GgufPackedBroken, ErrorNamesIt) {
    const ExactBytes bytes(GetParam().make());
    const auto file = File::parse(bytes.span(), "bad.gguf", {});
    ASSERT_FALSE(file);
    const std::string& message = file.error().message;
    EXPECT_TRUE(message.starts_with("bad.gguf: ")) << message;
    for (const char* part : GetParam().parts)
        EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
    for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << message;
}

INSTANTIATE_TEST_SUITE_P(Cases, GgufPackedBroken, testing::ValuesIn(kBroken),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(GgufPacked, EveryPrefixIsAnError) {
    const std::string whole = packed_bytes();
    for (size_t n = 0; n < whole.size(); n++) {
        const ExactBytes bytes(std::string_view(whole).substr(0, n));
        const auto file = File::parse(bytes.span(), "prefix", {});
        ASSERT_FALSE(file) << n << " of " << whole.size();
        ASSERT_NE(file.error().message.find("runcated"), std::string::npos) << file.error().message;
    }
}

TEST(GgufPacked, ContainerKeysCannotBeOverridden) {
    const ExactBytes bytes(packed_bytes());
    for (const char* key : {"tessera.packed.version=int:2", "tessera.packed.layout=str:p8x8",
                            "tessera.packed.alignment=int:32"}) {
        const auto file = File::parse(bytes.span(), "packed", {.overrides = {*gguf::parse_override(key)}});
        ASSERT_FALSE(file);
        EXPECT_NE(file.error().message.find("cannot be overridden"), std::string::npos)
            << file.error().message;
    }
}

TEST(GgufPacked, TheWriterKnowsTheSizes) {
    const test::TempFolder folder;
    const int64_t shape[] = {9, 32}, vector[] = {32};
    const auto error_of = [&](std::span<const int64_t> dims, uint32_t id, uint64_t n_bytes) {
        gguf::Writer writer(folder.at("m.gguf"), 64);
        writer.add_tensor("t", dims, id, n_bytes);
        const auto begun = writer.begin_data();
        return begun ? std::string() : begun.error().message;
    };
    EXPECT_EQ(error_of(shape, 0x54530108, 576), "");
    EXPECT_NE(error_of(shape, 0x54530108, 306).find("expected 576 bytes, found 306"), std::string::npos);
    EXPECT_NE(error_of(shape, 0x5453011a, 576).find("found i32"), std::string::npos);
    EXPECT_EQ(error_of(shape, 0x54530101, 1024), "");  // 16 rows of 64 bytes
    EXPECT_NE(error_of(vector, 0x54530108, 64).find("2 or 3 dimensions"), std::string::npos);
}

}  // namespace
}  // namespace tessera
