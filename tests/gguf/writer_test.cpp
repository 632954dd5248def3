// The writer: byte-exact round trips, refused metadata, misuse, and full disks.
#include <algorithm>
#include <system_error>

#include <gtest/gtest.h>

#include "common/pages.h"
#include "ggml-like/gguf/output_file.h"
#include "ggml-like/gguf/writer.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/data.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using gguf::File;
using gguf::ValueType;
using gguf::Writer;
using test::FileSizeLimit;
using test::read_file;
using test::TempFolder;

/// Writes every value and tensor of `file`.
Result<void> copy(const File& file, const std::string& path, size_t chunk) {
    Writer writer(path, static_cast<uint32_t>(file.alignment()));
    for (const gguf::KeyValue& kv : file.keys()) writer.set_value(kv.key, kv.value);
    for (const gguf::TensorInfo& t : file.tensors()) {
        writer.add_tensor(t.name, {t.shape, static_cast<size_t>(t.n_dims)}, static_cast<uint32_t>(t.type),
                          t.data.size());
    }
    TSR_TRY_VOID(writer.begin_data());
    for (const gguf::TensorInfo& t : file.tensors()) {
        for (size_t at = 0; at < t.data.size(); at += chunk) {
            TSR_TRY_VOID(writer.write(t.data.subspan(at, std::min(chunk, t.data.size() - at))));
        }
    }
    TSR_TRY_VOID(writer.finish());
    if (writer.total_bytes() != std::filesystem::file_size(path)) {
        return fail(ErrorCode::Internal, "total_bytes() says %llu",
                    static_cast<unsigned long long>(writer.total_bytes()));
    }
    return {};
}

void expect_round_trip(const std::string& path, const TempFolder& dir, size_t chunk) {
    const auto file = File::open(path);
    ASSERT_TRUE(file) << file.error().message;
    const auto copied = copy(*file, dir.at("copy.gguf"), chunk);
    ASSERT_TRUE(copied) << copied.error().message;
    EXPECT_TRUE(read_file(path) == read_file(dir.at("copy.gguf"))) << path;
}

void expect_error(const Result<void>& result, std::initializer_list<std::string> parts) {
    ASSERT_FALSE(result);
    for (const std::string& part : parts) {
        EXPECT_NE(result.error().message.find(part), std::string::npos) << part << "\n"
                                                                        << result.error().message;
    }
}

TEST(GgufWriter, RoundTripOfEveryType) {
    const TempFolder dir;
    std::string bytes = test::every_type_bytes();
    bytes.resize((bytes.size() + 31) / 32 * 32);  // the writer pads the last tensor, as ggml does
    for (const size_t chunk : {1u, 7u, 1000u}) expect_round_trip(dir.write("every.gguf", bytes), dir, chunk);
    EXPECT_EQ(dir.n_files(), 2u);
}

TEST(GgufWriter, RoundTripOfReferenceFiles) {
    const TempFolder dir;
    for (const char* name : {"bad/ok", "bad/keys80000", "llama", "gptoss", "tiny/tiny-f16"})
        expect_round_trip(test::model_file(name), dir, 1 << 20);
}

TEST(GgufWriter, EverySetterReadsBack) {
    const TempFolder dir;
    Writer writer(dir.at("m.gguf"), 64);
    const std::string three[] = {"x", "", std::string("a\0b", 3)};
    const float floats[] = {1, 2, 3};
    const std::pair<ValueType, int64_t> integers[] = {
        {ValueType::U8, 255},        {ValueType::I8, -128},       {ValueType::U16, 65535},
        {ValueType::I16, -32768},    {ValueType::U32, 1ll << 31}, {ValueType::I32, INT32_MIN},
        {ValueType::U64, INT64_MAX}, {ValueType::I64, INT64_MIN},
    };
    for (const auto& [type, value] : integers) writer.set_int(gguf::value_type_name(type), type, value);
    writer.set_u32("n", 1);
    writer.set_float("f32", 0.5);
    writer.set_float("f64", 1e300, ValueType::F64);
    writer.set_bool("yes", true);
    writer.set_string("text", "later replaced");
    writer.set_strings("three", three);
    writer.set_array("floats", ValueType::F32, std::as_bytes(std::span(floats)));
    writer.set_string("text", "");
    const int64_t shape[] = {2, 3};
    writer.add_tensor("t", shape, static_cast<uint32_t>(Type::F32), 24);
    writer.add_tensor("u", std::span(shape).first(1), static_cast<uint32_t>(Type::I8), 2);
    ASSERT_TRUE(writer.begin_data());
    ASSERT_TRUE(writer.write(std::vector<std::byte>(24, std::byte{1})));
    ASSERT_TRUE(writer.write(std::vector<std::byte>(2, std::byte{9})));
    EXPECT_FALSE(std::filesystem::exists(dir.at("m.gguf")));
    const auto finished = writer.finish();
    ASSERT_TRUE(finished) << finished.error().message;
    EXPECT_EQ(std::filesystem::file_size(dir.at("m.gguf")), writer.total_bytes());

    const auto file = File::open(dir.at("m.gguf"));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->alignment(), 64u);
    EXPECT_EQ(file->version(), 3u);
    for (const auto& [type, value] : integers) {
        EXPECT_EQ(file->find(gguf::value_type_name(type))->type(), type);
        EXPECT_EQ(file->find(gguf::value_type_name(type))->as_int(), value);
    }
    EXPECT_EQ(file->get_float("f32").value(), 0.5);
    EXPECT_EQ(file->get_float("f64").value(), 1e300);
    EXPECT_EQ(file->get_bool("yes").value(), true);
    EXPECT_EQ(file->get_string("text").value(), "");
    EXPECT_EQ(file->find("three")->at(2).as_string(), three[2]);
    EXPECT_EQ(file->get_array("floats", ValueType::F32)->at(2).as_float(), 3.0);
    EXPECT_EQ(file->find_tensor("t")->shape_string(), "[2, 3]");
    EXPECT_EQ(file->find_tensor("u")->data[1], std::byte{9});
    EXPECT_EQ((file->find_tensor("u")->data.data() - file->mapping(0).bytes().data()) % 64, 0);
}

TEST(GgufWriter, PrivateTypesAreWritten) {
    const TempFolder dir;
    Writer writer(dir.at("m.gguf"));
    const int64_t shape[] = {32};
    writer.add_tensor("private", shape, 0x10008, 40);
    ASSERT_TRUE(writer.begin_data());
    ASSERT_TRUE(writer.write(std::vector<std::byte>(40)));
    ASSERT_TRUE(writer.finish());
    EXPECT_EQ(std::filesystem::file_size(dir.at("m.gguf")), writer.total_bytes());
}

TEST(GgufWriter, ReplacesAnExistingFile) {
    const TempFolder dir;
    const std::string path = dir.write("m.gguf", "old");
    Writer writer(path);
    ASSERT_TRUE(writer.begin_data());
    EXPECT_EQ(read_file(path), "old");
    ASSERT_TRUE(writer.finish());
    EXPECT_TRUE(File::open(path));
    EXPECT_EQ(dir.n_files(), 1u);
}

struct Refused {
    const char* name;
    void (*fill)(Writer&);
    const char* part;
};

const int64_t kShape[] = {2, 32};
const int64_t kZeroShape[] = {0};
const int64_t kOddShape[] = {33};

const Refused kRefused[] = {
    {"IntegerRange", [](Writer& w) { w.set_int("k", ValueType::U8, 256); },
     "key 'k': 256 does not fit the type u8"},
    {"NegativeU64", [](Writer& w) { w.set_int("k", ValueType::U64, -1); }, "-1 does not fit the type u64"},
    {"IntegerAsFloat", [](Writer& w) { w.set_int("k", ValueType::F32, 1); }, "does not fit the type f32"},
    {"FloatRange", [](Writer& w) { w.set_float("k", 1e300); }, "1e+300 does not fit the type f32"},
    {"FloatAsInteger", [](Writer& w) { w.set_float("k", 1, ValueType::U32); }, "does not fit the type u32"},
    {"EmptyKey", [](Writer& w) { w.set_bool("", true); }, "expected a name of 1 to 65535 bytes"},
    {"ControlInKey", [](Writer& w) { w.set_bool("a\n", true); }, "'a\\x0A'"},
    {"PartialElement", [](Writer& w) { w.set_array("k", ValueType::U32, std::vector<std::byte>(5)); },
     "5 bytes are no array of u32"},
    {"PackedStrings", [](Writer& w) { w.set_array("k", ValueType::String, {}); }, "no array of string"},
    {"Bools", [](Writer& w) { w.set_array("k", ValueType::Bool, std::vector<std::byte>(1, std::byte{2})); },
     "bools to be 0 or 1"},
    {"AlignmentDisagrees", [](Writer& w) { w.set_u32("general.alignment", 64); }, "expected u32 32"},
    {"EmptyTensorName", [](Writer& w) { w.add_tensor("", kShape, 0, 256); }, "1 to 255 bytes"},
    {"TwiceTheName",
     [](Writer& w) {
         w.add_tensor("t", kShape, 0, 256);
         w.add_tensor("t", kShape, 0, 256);
     },
     "tensor 't' occurs twice"},
    {"WrongSize", [](Writer& w) { w.add_tensor("t", kShape, 0, 255); }, "expected 256 bytes, found 255"},
    {"ZeroDimension", [](Writer& w) { w.add_tensor("t", kZeroShape, 0, 0); }, "at least 1"},
    {"NoDimension", [](Writer& w) { w.add_tensor("t", {}, 0, 4); }, "1 to 4 dimensions"},
    {"PartialBlock", [](Writer& w) { w.add_tensor("t", kOddShape, 8, 34); }, "multiple of 32"},
    {"RetiredType", [](Writer& w) { w.add_tensor("t", kShape, 4, 256); }, "tensor 't'"},
    {"PrivateEmpty", [](Writer& w) { w.add_tensor("t", kShape, 0x10008, 0); }, "found 0"},
};

class GgufWriterRefuses : public testing::TestWithParam<Refused> {};

TEST_P(GgufWriterRefuses, AtBeginData) {
    const TempFolder dir;
    Writer writer(dir.at("m.gguf"));
    GetParam().fill(writer);
    expect_error(writer.begin_data(), {"m.gguf", GetParam().part});
    expect_error(writer.finish(), {GetParam().part});  // the first error sticks
    EXPECT_EQ(dir.n_files(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Cases, GgufWriterRefuses, testing::ValuesIn(kRefused),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(GgufWriterMisuse, BadAlignment) {
    const TempFolder dir;
    Writer writer(dir.at("m.gguf"), 24);
    expect_error(writer.begin_data(), {"general.alignment", "power of two", "found 24"});
}

TEST(GgufWriterMisuse, WrongOrder) {
    const TempFolder dir;
    Writer early(dir.at("a.gguf"));
    expect_error(early.write({}), {"write() called before begin_data()"});
    Writer unbegun(dir.at("b.gguf"));
    expect_error(unbegun.finish(), {"finish() called before begin_data()"});
    Writer late(dir.at("c.gguf"));
    ASSERT_TRUE(late.begin_data());
    late.set_bool("k", true);
    expect_error(late.finish(), {"'k'", "after the metadata was written"});
    Writer twice(dir.at("d.gguf"));
    ASSERT_TRUE(twice.begin_data());
    ASSERT_TRUE(twice.finish());
    expect_error(twice.finish(), {"finish() called too late or twice"});
    Writer tensor_late(dir.at("e.gguf"));
    ASSERT_TRUE(tensor_late.begin_data());
    tensor_late.add_tensor("t", kShape, 0, 256);
    expect_error(tensor_late.finish(), {"tensor 't'", "after the metadata"});
}

TEST(GgufWriterMisuse, TooFewAndTooManyBytes) {
    const TempFolder dir;
    const std::vector<std::byte> bytes(300);
    Writer few(dir.at("few.gguf"));
    few.add_tensor("t", kShape, 0, 256);
    ASSERT_TRUE(few.begin_data());
    ASSERT_TRUE(few.write(std::span(bytes).first(255)));
    expect_error(few.finish(), {"few.gguf", "'t'", "255 of its 256"});
    Writer many(dir.at("many.gguf"));
    many.add_tensor("t", kShape, 0, 256);
    ASSERT_TRUE(many.begin_data());
    ASSERT_TRUE(many.write(std::span(bytes).first(250)));
    expect_error(many.write(std::span(bytes).first(7)), {"'t'", "7 bytes", "6 of its 256"});
    Writer after(dir.at("after.gguf"));
    ASSERT_TRUE(after.begin_data());
    expect_error(after.write(bytes), {"300 bytes", "after the last tensor"});
}

TEST(GgufWriterDisk, NothingIsLeftBehind) {
    const TempFolder dir;
    {
        Writer writer(dir.at("m.gguf"));
        ASSERT_TRUE(writer.begin_data());
        EXPECT_FALSE(std::filesystem::exists(dir.at("m.gguf")));
    }
    EXPECT_EQ(dir.n_files(), 0u);
}

TEST(GgufWriterDisk, MissingFolder) {
    const TempFolder dir;
    Writer writer(dir.at("absent/m.gguf"));
    const auto begun = writer.begin_data();
    expect_error(begun, {"cannot create '" + dir.at("absent/m.gguf"), "No such file"});
    EXPECT_EQ(begun.error().code, ErrorCode::Io);
}

TEST(GgufWriterDisk, TargetIsAFolder) {
    const TempFolder dir;
    std::filesystem::create_directory(dir.at("m.gguf"));
    dir.write("m.gguf/keep", "x");
    Writer writer(dir.at("m.gguf"));
    ASSERT_TRUE(writer.begin_data());
    expect_error(writer.finish(), {"cannot replace '" + dir.at("m.gguf")});
}

TEST(GgufWriterDisk, DiskFull) {
    const TempFolder dir;
    const std::string path = dir.write("m.gguf", "old");
    constexpr uint64_t kBytes = 5 << 20;  // more than is written at once
    const int64_t shape[] = {kBytes};
    for (const rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{500000}, rlim_t{3 << 20}, rlim_t{kBytes}}) {
        Result<void> failed;
        {
            const FileSizeLimit full(limit);
            Writer writer(path);
            writer.add_tensor("t", shape, static_cast<uint32_t>(Type::I8), kBytes);
            const std::vector<std::byte> part(kBytes / 64);
            failed = writer.begin_data();
            for (int i = 0; i < 64 && failed; i++) failed = writer.write(part);
            if (failed) failed = writer.finish();
            expect_error(writer.finish(), {"cannot write"});
        }
        expect_error(failed, {"cannot write '" + path, "File too large"});
        EXPECT_EQ(failed.error().code, ErrorCode::Io);
        EXPECT_EQ(read_file(path), "old");
        EXPECT_EQ(dir.n_files(), 1u);
    }
}

/// Bytes of the open file without a name that lies in `folder`, or of the file with a temporary name.
uintmax_t temporary_bytes(const std::string& folder) {
    namespace fs = std::filesystem;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) return entry.file_size();
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
        std::error_code ignored;
        if (fs::read_symlink(entry.path(), ignored).string().starts_with(folder))
            return fs::file_size(entry.path());
    }
    return UINTMAX_MAX;
}

using Temporary = gguf::OutputFile::Temporary;

TEST(OutputFile, WritesHugePagesUntilItIsComplete) {
    // Sizes above and below the rest of a huge page, and of several huge pages.
    const size_t sizes[] = {24,  kHugePage - 1000,     0,         5000, 3 * kHugePage,
                            100, 2 * kHugePage - 4124, kHugePage, 7};
    for (const Temporary kind : {Temporary::Nameless, Temporary::Named}) {
        const TempFolder dir;
        std::string expected;
        gguf::OutputFile out;
        ASSERT_TRUE(out.create(dir.at("out"), kind));
        for (const size_t n : sizes) {
            std::string part(n, '\0');
            for (size_t i = 0; i < n; i++) part[i] = static_cast<char>((expected.size() + i) * 7919 >> 8);
            ASSERT_TRUE(out.append(std::as_bytes(std::span(part))));
            expected += part;
            EXPECT_EQ(temporary_bytes(dir.path()), expected.size() / kHugePage * kHugePage);
        }
        ASSERT_TRUE(out.commit());
        EXPECT_TRUE(read_file(dir.at("out")) == expected);
        EXPECT_EQ(dir.n_files(), 1u);
    }
}

TEST(OutputFile, AppearsAtPublishInPlaceOfAnEarlierOne) {
    for (const Temporary kind : {Temporary::Nameless, Temporary::Named})
        for (const bool keep_open : {true, false})
            for (const bool replaces : {true, false}) {
                const TempFolder dir;
                if (replaces) std::ofstream(dir.at("out")) << "old";
                gguf::OutputFile out;
                ASSERT_TRUE(out.create(dir.at("out"), kind));
                ASSERT_TRUE(out.append(std::as_bytes(std::span("new", 3))));
                ASSERT_TRUE(out.complete(keep_open));
                EXPECT_EQ(std::filesystem::exists(dir.at("out")), replaces);
                ASSERT_TRUE(out.publish());
                EXPECT_EQ(read_file(dir.at("out")), "new");
                EXPECT_EQ(dir.n_files(), 1u);
            }
}

TEST(OutputFile, LeavesNothingWhenItIsNotPublished) {
    for (const Temporary kind : {Temporary::Nameless, Temporary::Named})
        for (const bool completes : {true, false}) {
            const TempFolder dir;
            {
                gguf::OutputFile out;
                ASSERT_TRUE(out.create(dir.at("out"), kind));
                ASSERT_TRUE(out.append(std::as_bytes(std::span("new", 3))));
                if (completes) {
                    EXPECT_TRUE(out.complete(false).has_value());
                }
            }
            EXPECT_EQ(dir.n_files(), 0u);
        }
}

TEST(OutputFile, CannotReplaceAFolder) {
    for (const Temporary kind : {Temporary::Nameless, Temporary::Named}) {
        const TempFolder dir;
        std::filesystem::create_directory(dir.at("out"));
        {
            gguf::OutputFile out;
            ASSERT_TRUE(out.create(dir.at("out"), kind));
            const auto done = out.commit();
            ASSERT_FALSE(done);
            EXPECT_NE(done.error().message.find("cannot replace '" + dir.at("out")), std::string::npos);
        }
        EXPECT_EQ(dir.n_files(), 1u);
    }
}

}  // namespace
}  // namespace tessera
