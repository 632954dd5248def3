// Split models: the reader finds and checks the other files from the first one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "ggml-like/gguf/format.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using gguf::File;
using gguf::ValueType;
using test::RawGguf;
using test::TempFolder;

RawGguf shard(uint16_t no, uint16_t count, int32_t n_tensors) {
    RawGguf raw;
    raw.key("split.no", ValueType::U16, no).key("split.count", ValueType::U16, count);
    return raw.key("split.tensors.count", ValueType::I32, n_tensors);
}

/// Three shards with 2, 1 and 0 tensors. `damage` may change one before it is written.
class GgufSplit : public testing::Test {
  protected:
    GgufSplit() : shards_{shard(0, 3, 3), shard(1, 3, 3), shard(2, 3, 3)} {
        shards_[0].string("general.architecture", "llama").f32("a", 4).f32("b", 5);
        shards_[1].string("only.second", "x").f32("c", 6);
    }

    std::string name(int number) const { return gguf::split_path(dir_.at("m"), number, 3); }

    Result<File> open() {
        for (int i = 0; i < 3; i++) dir_.write(gguf::split_path("m", i + 1, 3), shards_[i].bytes());
        return File::open(name(1));
    }

    void expect_error(const Result<File>& file, std::initializer_list<std::string> parts) {
        ASSERT_FALSE(file);
        for (const std::string& part : parts) {
            EXPECT_NE(file.error().message.find(part), std::string::npos) << part << "\n"
                                                                          << file.error().message;
        }
    }

    TempFolder dir_;
    RawGguf shards_[3];
};

TEST_F(GgufSplit, Opens) {
    const auto file = open();
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->n_files(), 3);
    ASSERT_EQ(file->tensors().size(), 3u);
    EXPECT_EQ(file->find_tensor("a")->file_index, 0);
    EXPECT_EQ(file->find_tensor("c")->file_index, 1);
    EXPECT_EQ(file->find("only.second"), nullptr);
    EXPECT_EQ(file->get_string("general.architecture").value(), "llama");
    EXPECT_EQ(file->mapping(2).path(), name(3));
    EXPECT_EQ(file->total_bytes(),
              shards_[0].bytes().size() + shards_[1].bytes().size() + shards_[2].bytes().size());
    const auto data = file->find_tensor("c")->data;
    const auto mapped = file->mapping(1).bytes();
    EXPECT_TRUE(data.data() > mapped.data() && data.data() + data.size() <= mapped.data() + mapped.size());
    EXPECT_GT(test::touch(*file), 0u);
}

TEST_F(GgufSplit, ReadsWhatLiesInAnyShard) {
    const auto file = open();
    ASSERT_TRUE(file) << file.error().message;
    for (const gguf::TensorInfo& tensor : file->tensors()) {
        std::vector<std::byte> room(tensor.data.size());
        const auto read = file->read(tensor.data, room.data());
        ASSERT_TRUE(read) << read.error().message;
        EXPECT_EQ(*read, room.data());
        EXPECT_TRUE(std::equal(room.begin(), room.end(), tensor.data.begin())) << tensor.name;
    }
    const std::span<const std::byte> data = file->find_tensor("c")->data;
    ASSERT_EQ(truncate(name(2).c_str(), 100), 0);
    std::vector<std::byte> room(data.size());
    const auto read = file->read(data, room.data());
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().message.find(name(2)), std::string::npos) << read.error().message;
}

TEST_F(GgufSplit, OtherShardNamesTheFirst) {
    ASSERT_TRUE(open());
    const auto file = File::open(name(2));
    expect_error(file, {name(2), "shard 2 of 3", "open its shard 1: '" + name(1) + "'"});
    EXPECT_EQ(file.error().code, ErrorCode::InvalidArgument);
}

TEST_F(GgufSplit, RenamedOtherShard) {
    expect_error(File::open(dir_.write("x.gguf", shards_[1].bytes())),
                 {"shard 2 of 3", "-00001-of-00003.gguf'"});
}

TEST_F(GgufSplit, RenamedFirstShard) {
    expect_error(File::open(dir_.write("x.gguf", shards_[0].bytes())),
                 {"x.gguf", "shard 1 of 3", "must end in '-00001-of-00003.gguf'"});
    expect_error(File::open(dir_.write("x-00001-of-00002.gguf", shards_[0].bytes())), {"must end in"});
}

TEST_F(GgufSplit, MissingSibling) {
    ASSERT_TRUE(open());
    std::filesystem::remove(name(3));
    const auto file = File::open(name(1));
    expect_error(file, {"shard 3 of 3", name(3)});
    EXPECT_EQ(file.error().code, ErrorCode::NotFound);
}

TEST_F(GgufSplit, TruncatedSibling) {
    ASSERT_TRUE(open());
    dir_.write(gguf::split_path("m", 2, 3), shards_[1].bytes().substr(0, 130));
    expect_error(File::open(name(1)), {"shard 2 of 3", name(2) + ": truncated", "key 'only.second'"});
}

TEST_F(GgufSplit, SiblingOfAnotherCount) {
    shards_[1] = shard(1, 4, 3).f32("c", 6);
    expect_error(open(), {name(2), "'split.count': expected the integer 3, found u16 4"});
}

TEST_F(GgufSplit, SiblingOfAnotherNumber) {
    shards_[2] = shard(1, 3, 3);
    expect_error(open(), {name(3), "'split.no': expected the integer 2, found u16 1"});
}

TEST_F(GgufSplit, SiblingOfAnotherModel) {
    shards_[2] = shard(2, 3, 7);
    expect_error(open(), {name(3), "'split.tensors.count': expected the integer 3, found i32 7"});
}

TEST_F(GgufSplit, SiblingWithoutKeys) {
    shards_[2] = RawGguf();
    expect_error(open(), {name(3), "'split.count' is missing"});
}

TEST_F(GgufSplit, WrongTotal) {
    shards_[1] = shard(1, 3, 3);
    expect_error(open(), {name(1), "'split.tensors.count'", "3 shards, 2", "found i32 3"});
}

TEST_F(GgufSplit, DuplicateAcrossShards) {
    shards_[1] = shard(1, 3, 3).f32("b", 6);
    expect_error(open(), {"tensor 'b' occurs twice", "number 2 and number 3"});
}

TEST_F(GgufSplit, DuplicateKeyInSibling) {
    shards_[1].u32("only.second", 1);
    expect_error(open(), {name(2), "key 'only.second' occurs twice"});
}

TEST_F(GgufSplit, BadTensorInSibling) {
    shards_[2].raw_tensor("z", {0}, 0, 0);
    expect_error(open(), {name(3), "'z'", "at least 1"});
}

TEST_F(GgufSplit, CountOutOfRange) {
    RawGguf raw;
    raw.key("split.count", ValueType::U32, 100000u).key("split.no", ValueType::U32, 0u);
    expect_error(File::open(dir_.write("x.gguf", raw.bytes())),
                 {"'split.count'", "from 0 to 99999", "u32 100000"});
}

TEST_F(GgufSplit, NumberIsMissingOrNoInteger) {
    RawGguf raw;
    raw.u32("split.count", 2);
    expect_error(File::open(dir_.write("x.gguf", raw.bytes())), {"'split.no' is missing"});
    raw.string("split.no", "0");
    expect_error(File::open(dir_.write("x.gguf", raw.bytes())), {"'split.no'", "found string \"0\""});
}

TEST_F(GgufSplit, CountOfOneIsWhole) {
    RawGguf raw = shard(0, 1, 1);
    EXPECT_TRUE(File::open(dir_.write("x.gguf", raw.f32("a", 1).bytes())));
    raw = shard(0, 1, 2);
    expect_error(File::open(dir_.write("y.gguf", raw.f32("a", 1).bytes())),
                 {"'split.tensors.count'", "integer 1"});
}

TEST(GgufSplitName, Parse) {
    const auto name = gguf::parse_split_name("dir/m-00002-of-00010.gguf");
    ASSERT_TRUE(name);
    EXPECT_EQ(name->prefix, "dir/m");
    EXPECT_EQ(name->number, 2);
    EXPECT_EQ(name->count, 10);
    EXPECT_EQ(gguf::split_path(name->prefix, name->number, name->count), "dir/m-00002-of-00010.gguf");
    for (const char* other : {"m.gguf", "-00001-of-00002.gguf", "m-00000-of-00002.gguf",
                              "m-00003-of-00002.gguf", "m-0001-of-00002.gguf", "m-00001-of-0000x.gguf",
                              "m-00001_of-00002.gguf", "m-00001-of-00002.bin", "m-+0001-of-00002.gguf", ""}) {
        EXPECT_FALSE(gguf::parse_split_name(other)) << other;
    }
}

}  // namespace
}  // namespace tessera
