// Well-formed files: every value type, getters, overrides, the reference files, and the index of names.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "ggml-like/gguf/file.h"
#include "ggml-like/gguf/name_index.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/data.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using gguf::File;
using gguf::Value;
using gguf::ValueType;
using test::every_type_bytes;
using test::ExactBytes;
using test::RawGguf;

File::Options with_overrides(std::initializer_list<const char*> arguments) {
    File::Options options;
    for (const char* argument : arguments) {
        auto parsed = gguf::parse_override(argument);
        EXPECT_TRUE(parsed) << parsed.error().message;
        if (parsed) options.overrides.push_back(*parsed);
    }
    return options;
}

class GgufReader : public testing::Test {
  protected:
    GgufReader() : bytes_(every_type_bytes()) {}

    File open(const File::Options& options = {}) {
        auto file = File::parse(bytes_.span(), "every.gguf", options);
        if (!file) ADD_FAILURE() << file.error().message;
        return std::move(*file);
    }

    ExactBytes bytes_;
};

TEST_F(GgufReader, Header) {
    const File file = open();
    EXPECT_EQ(file.path(), "every.gguf");
    EXPECT_EQ(file.version(), 3u);
    EXPECT_EQ(file.alignment(), 32u);
    EXPECT_EQ(file.n_files(), 1);
    EXPECT_EQ(file.total_bytes(), bytes_.span().size());
    EXPECT_EQ(file.keys().size(), 28u);
    EXPECT_EQ(file.keys()[0].key, "general.architecture");
}

TEST_F(GgufReader, ReadsFromMemoryWhereItLies) {
    const File file = open();
    ASSERT_FALSE(file.tensors().empty());
    const std::span<const std::byte> data = file.tensors()[0].data;
    EXPECT_EQ(file.read(data, nullptr).value(), data.data());
}

TEST_F(GgufReader, Scalars) {
    const File file = open();
    const auto integer = [&](const char* key) { return file.find(key)->as_int(); };
    EXPECT_EQ(integer("u8"), 200);
    EXPECT_EQ(integer("i8"), -100);
    EXPECT_EQ(integer("u16"), 60000);
    EXPECT_EQ(integer("i16"), -30000);
    EXPECT_EQ(integer("u32"), 4000000000);
    EXPECT_EQ(integer("i32"), -2000000000);
    EXPECT_EQ(integer("i64"), INT64_MIN);
    EXPECT_EQ(integer("u64"), std::nullopt);
    EXPECT_EQ(integer("f32"), std::nullopt);
    EXPECT_EQ(integer("bool"), 1);
    EXPECT_EQ(file.find("f32")->as_float(), static_cast<double>(0.1f));
    EXPECT_EQ(file.find("f64")->as_float(), -1e300);
    EXPECT_EQ(file.find("u64")->as_float(), 0x1p63);
    EXPECT_EQ(file.find("bool")->as_float(), std::nullopt);
    EXPECT_EQ(file.find("bool")->as_bool(), true);
    EXPECT_EQ(file.find("u8")->as_bool(), std::nullopt);
    EXPECT_EQ(file.find("empty")->as_string(), "");
    EXPECT_EQ(file.find("general.architecture")->as_string(), "llama");
    EXPECT_EQ(file.find("absent"), nullptr);
    EXPECT_EQ(file.find(""), nullptr);
}

TEST_F(GgufReader, Arrays) {
    const File file = open();
    const Value& strings = *file.find("strings");
    ASSERT_EQ(strings.size(), 3u);
    EXPECT_EQ(strings.at(0).as_string(), "one");
    EXPECT_EQ(strings.at(1).as_string(), "");
    EXPECT_EQ(strings.at(2).as_string(), "drei");
    EXPECT_TRUE(strings.raw().empty());
    const Value& bools = *file.find("array.7");
    EXPECT_EQ(bools.at(0).as_bool(), true);
    EXPECT_EQ(bools.at(1).as_bool(), false);
    EXPECT_EQ(file.find("array.3")->at(1).as_int(), 0x0101);
    EXPECT_EQ(file.find("array.11")->at(1).as_int(), 0x0101010101010101);
    EXPECT_EQ(file.find("array.12")->raw().size(), 16u);
    EXPECT_EQ(file.find("none")->size(), 0u);
    EXPECT_EQ(file.find("u8")->size(), 0u);
}

TEST_F(GgufReader, Printed) {
    const File file = open();
    const auto text = [&](const char* key) { return file.find(key)->to_string(); };
    EXPECT_EQ(text("i8"), "-100");
    EXPECT_EQ(text("u64"), "9223372036854775808");
    EXPECT_EQ(text("f32"), "0.1");
    EXPECT_EQ(text("f64"), "-1e+300");
    EXPECT_EQ(text("bool"), "true");
    EXPECT_EQ(text("strings"), "[3] one, , drei");
    EXPECT_EQ(text("none"), "[0]");
    EXPECT_EQ(file.find("strings")->to_string(2), "[3] one, , ...");
    EXPECT_STREQ(gguf::value_type_name(ValueType::Array), "array");
}

TEST_F(GgufReader, Tensors) {
    const File file = open();
    ASSERT_EQ(file.tensors().size(), 4u);
    const gguf::TensorInfo* c = file.find_tensor("c.weight");
    ASSERT_NE(c, nullptr);
    EXPECT_EQ(c->type, Type::Q8_0);
    EXPECT_EQ(c->shape_string(), "[1, 32]");
    EXPECT_EQ(c->n_cols(), 32);
    EXPECT_EQ(c->n_elements(), 32);
    EXPECT_EQ(c->data.size(), 34u);
    EXPECT_EQ(c->data[0], std::byte{2});
    float last;
    std::memcpy(&last, file.find_tensor("a.weight")->data.data() + 60, 4);
    EXPECT_EQ(last, 15.0f);
    EXPECT_EQ(file.find_tensor("absent"), nullptr);
}

TEST_F(GgufReader, Getters) {
    const File file = open();
    EXPECT_EQ(file.get_int("u16", 0, 65535).value(), 60000);
    EXPECT_EQ(file.get_float("i16").value(), -30000.0);
    EXPECT_EQ(file.get_bool("bool").value(), true);
    EXPECT_EQ(file.get_string("general.architecture").value(), "llama");
    EXPECT_EQ(file.get_array("strings", ValueType::String)->size(), 3u);
    EXPECT_EQ(file.get_int_or("absent", 7, 0, 1).value(), 7);
    EXPECT_EQ(file.get_float_or("absent", 0.5).value(), 0.5);
    EXPECT_EQ(file.get_bool_or("absent", true).value(), true);
    EXPECT_EQ(file.get_string_or("absent", "x").value(), "x");
    EXPECT_EQ(file.get_int_or("u8", 7, 0, 255).value(), 200);
}

TEST_F(GgufReader, GetterErrorsNameKeyExpectationAndFinding) {
    const File file = open();
    const auto missing = file.get_int("absent", 1, 2).error();
    EXPECT_EQ(missing.code, ErrorCode::NotFound);
    EXPECT_EQ(missing.message, "every.gguf: key 'absent' is missing (expected an integer)");
    const auto range = file.get_int("u32", 1, 4096).error();
    EXPECT_EQ(range.code, ErrorCode::Malformed);
    EXPECT_EQ(range.message,
              "every.gguf: key 'u32': expected an integer from 1 to 4096, found u32 4000000000");
    EXPECT_EQ(file.get_int("u64", 0, INT64_MAX).error().message,
              "every.gguf: key 'u64': expected an integer of at least 0, found u64 9223372036854775808");
    EXPECT_EQ(file.get_int("strings", 0, 1).error().message,
              "every.gguf: key 'strings': expected an integer from 0 to 1, found an array of 3 string");
    EXPECT_EQ(file.get_float("bool").error().message,
              "every.gguf: key 'bool': expected a number, found bool true");
    EXPECT_EQ(file.get_bool("u8").error().message, "every.gguf: key 'u8': expected a bool, found u8 200");
    EXPECT_EQ(file.get_string("f32").error().message,
              "every.gguf: key 'f32': expected a string, found f32 0.1");
    EXPECT_EQ(file.get_array("array.5", ValueType::F32).error().message,
              "every.gguf: key 'array.5': expected an array of f32, found an array of 2 i32");
    EXPECT_EQ(file.get_array("empty", ValueType::F32).error().message,
              "every.gguf: key 'empty': expected an array of f32, found string \"\"");
    EXPECT_EQ(file.get_int_or("f32", 7, 0, 1).error().message,
              "every.gguf: key 'f32': expected an integer from 0 to 1, found f32 0.1");
}

TEST(GgufGetters, NonFiniteFloat) {
    RawGguf raw;
    const ExactBytes bytes(raw.key("eps", ValueType::F32, std::numeric_limits<float>::infinity()).bytes());
    const auto file = File::parse(bytes.span(), "f", {});
    ASSERT_TRUE(file);
    EXPECT_EQ(file->get_float("eps").error().message,
              "f: key 'eps': expected a finite number, found f32 inf");
}

TEST_F(GgufReader, OverridesReplaceAndAdd) {
    const File file =
        open(with_overrides({"u8=int:5", "+new.key=str:a=b:c", "f32=float:2.5", "bool=bool:false",
                             "strings=int:-1", "+new.flag=bool:true", "+u8=int:6"}));
    EXPECT_EQ(file.get_int("u8", 0, 10).value(), 6);
    EXPECT_EQ(file.get_float("u8").value(), 6.0);
    EXPECT_EQ(file.get_string("new.key").value(), "a=b:c");
    EXPECT_EQ(file.get_float("f32").value(), 2.5);
    EXPECT_EQ(file.get_bool("bool").value(), false);
    EXPECT_EQ(file.get_bool("new.flag").value(), true);
    EXPECT_EQ(file.get_int("strings", -1, -1).value(), -1);
    EXPECT_EQ(file.keys().size(), 30u);
    EXPECT_EQ(file.find("u16")->as_int(), 60000);
    EXPECT_GT(test::touch(file), 0u);
}

TEST_F(GgufReader, OverridesOfAbsentKeysAreRefused) {
    const auto file = File::parse(bytes_.span(), "f", with_overrides({"strimgs=int:5"}));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::NotFound);
    EXPECT_EQ(file.error().message,
              "f: override of key 'strimgs': the file has no such key; did you mean 'strings'? (+KEY=... "
              "adds one)");
}

TEST_F(GgufReader, OverridesOfTheContainerAreRefused) {
    const auto file = File::parse(bytes_.span(), "f", with_overrides({"general.alignment=int:64"}));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(file.error().message.find("'general.alignment'"), std::string::npos);
}

TEST_F(GgufReader, OverridesOfOtherTypesAreRefused) {
    File::Options options = with_overrides({"u8=int:5"});
    options.overrides[0].type = ValueType::F32;
    const auto file = File::parse(bytes_.span(), "f", options);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().message, "f: override of key 'u8': expected i64, f64, bool or string, found f32");
}

TEST(GgufOverride, Malformed) {
    const std::pair<std::string, const char*> cases[] = {
        {"", "expected KEY=TYPE:VALUE"},
        {"key", "expected KEY=TYPE:VALUE"},
        {"key=5", "expected KEY=TYPE:VALUE"},
        {"a:b", "expected KEY=TYPE:VALUE"},
        {"=int:5", "expected a key"},
        {"a\nb=int:5", "expected a key"},
        {"key=u32:5", "expected the type int, float, bool or str, found 'u32'"},
        {"key=int:", "expected an integer of 64 bits after 'int:', found ''"},
        {"key=int:5x", "found '5x'"},
        {"key=int:99999999999999999999", "expected an integer of 64 bits"},
        {"key=float:nan", "expected a finite number"},
        {"key=float:1e999", "expected a finite number"},
        {"key=bool:yes", "expected true or false after 'bool:', found 'yes'"},
    };
    for (const auto& [argument, expected] : cases) {
        const auto parsed = gguf::parse_override(argument);
        ASSERT_FALSE(parsed) << argument;
        EXPECT_EQ(parsed.error().code, ErrorCode::InvalidArgument);
        EXPECT_NE(parsed.error().message.find(expected), std::string::npos) << parsed.error().message;
    }
}

TEST(GgufLayout, AnyOrderAndGaps) {
    RawGguf raw;
    raw.raw_tensor("late", {4}, 0, 192).raw_tensor("early", {4}, 0, 64);
    raw.data = std::string(208, '\x03');
    const ExactBytes bytes(raw.bytes());
    const auto file = File::parse(bytes.span(), "f", {});
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_GT(file->find_tensor("late")->data.data(), file->find_tensor("early")->data.data());
}

TEST(GgufLayout, AlignmentOneAndVersionTwo) {
    RawGguf raw;
    raw.version = 2;
    raw.alignment = 1;
    raw.u32("general.alignment", 1).raw_tensor("odd", {3}, 24, 1);
    raw.data = "-abc";
    const ExactBytes bytes(raw.bytes());
    const auto file = File::parse(bytes.span(), "f", {});
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->version(), 2u);
    EXPECT_EQ(file->find_tensor("odd")->data[2], std::byte{'c'});
}

TEST(GgufLayout, NoTensorsNoPadding) {
    RawGguf raw;
    raw.alignment = 1;
    const ExactBytes bytes(raw.string("general.architecture", "llama").bytes());
    EXPECT_TRUE(File::parse(bytes.span(), "f", {}));
}

TEST(GgufNames, LongTensorNamesOpen) {
    RawGguf raw;
    const std::string name(255, 'n');
    const ExactBytes bytes(raw.f32(name, 1).bytes());
    const auto file = File::parse(bytes.span(), "f", {});
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_NE(file->find_tensor(name), nullptr);
}

TEST(GgufFiles, SystemErrorsNameThePath) {
    const test::TempFolder dir;
    const auto missing = File::open(dir.at("absent.gguf"));
    EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
    EXPECT_NE(missing.error().message.find(dir.at("absent.gguf")), std::string::npos);
    EXPECT_FALSE(File::open(dir.at("")));
    EXPECT_FALSE(File::open(dir.write("empty.gguf", "")));
}

TEST(GgufFiles, OpensFromDisk) {
    const test::TempFolder dir;
    auto file = File::open(dir.write("m.gguf", every_type_bytes()));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->mapping(0).bytes().size(), every_type_bytes().size());
    const File moved = std::move(*file);
    EXPECT_GT(test::touch(moved), 0u);
}

TEST(GgufReference, MalformedContainersAreNamed) {
    const std::pair<const char*, std::vector<const char*>> cases[] = {
        {"zerodim", {"zerodim.gguf", "'token_embd.weight'", "[0, 32]", "at least 1"}},
        {"alignstr", {"alignstr.gguf", "'general.alignment'", "expected u32", "found string \"x\""}},
        {"trunc", {"trunc.gguf", "'token_embd.weight'", "expected 128000000 bytes", "truncated"}},
    };
    for (const auto& [name, parts] : cases) {
        const auto file = File::open(test::model_file(std::string("bad/") + name));
        ASSERT_FALSE(file) << name;
        for (const char* part : parts) {
            EXPECT_NE(file.error().message.find(part), std::string::npos)
                << part << " in " << file.error().message;
        }
    }
}

TEST(GgufReference, SoundContainersOpen) {
    for (const char* name : {"ok", "keys80000", "hkv0", "hkv3", "hc0", "bosoob", "blkhuge", "ctx0", "eosneg",
                             "noscores", "ropezero", "dupbig"}) {
        const auto file = File::open(test::model_file(std::string("bad/") + name));
        ASSERT_TRUE(file) << file.error().message;
        EXPECT_GT(test::touch(*file), 0u);
    }
}

TEST(GgufReference, ManyKeysOpenInLinearTime) {
    const std::string path = test::model_file("bad/keys80000");
    // CPU time, so that other programs on the machine do not count. Unoptimised and sanitized builds get
    // more.
#ifdef NDEBUG
    constexpr double kLimit = 0.1;
#else
    constexpr double kLimit = 2.0;
#endif
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        const std::clock_t start = std::clock();
        const auto file = File::open(path);
        const std::clock_t end = std::clock();
        ASSERT_TRUE(file) << file.error().message;
        ASSERT_EQ(file->keys().size(), 80001u);
        EXPECT_EQ(file->get_int("k0079999", 0, 80000).value(), 79999);
        best = std::min(best, static_cast<double>(end - start) / CLOCKS_PER_SEC);
    }
    EXPECT_LT(best, kLimit);
}

TEST(GgufReference, EveryVocabularyAndModelOpens) {
    int n_files = 0;
    for (const std::string& folder :
         {std::string(TSR_BINARY_DIR "/test-models"), test::data_file("models"), test::shared("data/vocab"),
          test::shared("data/vocab/rebuilt"), test::shared("golden/models")}) {
        if (!std::filesystem::exists(folder)) continue;
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            if (entry.path().extension() != ".gguf") continue;
            const auto file = File::open(entry.path().string());
            ASSERT_TRUE(file) << file.error().message;
            EXPECT_GT(test::touch(*file), 0u);
            n_files++;
        }
    }
    EXPECT_GE(n_files, 10);
}

TEST(GgufNameIndex, SipHashOfThePaper) {
    // Appendix A of the paper: key 00 01 .. 0f, message 00 01 .. 0e.
    std::string message;
    for (char c = 0; c < 15; c++) message += c;
    EXPECT_EQ(gguf::siphash({0x0706050403020100u, 0x0f0e0d0c0b0a0908u}, message), 0xa129ca6149be45e5u);
}

TEST(GgufNameIndex, InsertAndFind) {
    constexpr uint32_t kNames = 5000;
    std::vector<std::string> names;
    for (uint32_t i = 0; i < kNames; i++) names.push_back("name" + std::to_string(i));
    const auto name_of = [&](uint32_t i) -> std::string_view { return names[i]; };
    gguf::NameIndex index(kNames);
    for (uint32_t i = 0; i < kNames; i++)
        EXPECT_EQ(index.insert(names[i], i, name_of), gguf::NameIndex::kNone);
    for (uint32_t i = 0; i < kNames; i++) EXPECT_EQ(index.find(names[i], name_of), i);
    EXPECT_EQ(index.insert("name17", 9, name_of), 17u);
    EXPECT_EQ(index.find("absent", name_of), gguf::NameIndex::kNone);
    EXPECT_EQ(gguf::NameIndex().find("absent", name_of), gguf::NameIndex::kNone);
}

}  // namespace
}  // namespace tessera
