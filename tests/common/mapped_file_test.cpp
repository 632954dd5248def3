#include "common/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu.h"
#include "tests/support/mapping_flags.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

std::string text_of(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

Error error_of(const std::string& path) {
    auto file = MappedFile::open(path);
    EXPECT_FALSE(file) << path;
    return file ? Error{} : file.error();
}

TEST(MappedFile, MapsTheWholeFile) {
    const test::TempFolder folder;
    const std::string path = folder.write("a.bin", "tessera");
    auto file = MappedFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(text_of(*file), "tessera");
    EXPECT_EQ(file->path(), path);
}

TEST(MappedFile, ReadsFromTheFileItself) {
    const test::TempFolder folder;
    const std::string path = folder.write("a.bin", "0123456789");
    const MappedFile file = MappedFile::open(path).value();
    const auto read = [&](size_t offset, size_t n) {
        std::string text(n, '?');
        const auto done = file.read(offset, std::as_writable_bytes(std::span(text)));
        return done ? text : done.error().message;
    };
    EXPECT_EQ(read(0, 10), "0123456789");
    EXPECT_EQ(read(3, 4), "3456");
    EXPECT_EQ(read(10, 0), "");
    // The mapping reads the open file, even if another file has its name by now.
    ASSERT_EQ(rename(path.c_str(), folder.at("b.bin").c_str()), 0);
    EXPECT_EQ(read(9, 1), "9");
}

TEST(MappedFile, AFileThatWasShortenedIsAnError) {
    const test::TempFolder folder;
    const std::string path = folder.write("a.bin", std::string(10000, 'x'));
    const MappedFile file = MappedFile::open(path).value();
    ASSERT_EQ(truncate(path.c_str(), 6000), 0);
    std::vector<std::byte> room(5000);
    EXPECT_TRUE(file.read(1000, room));
    const auto read = file.read(5000, room);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::Io);
    EXPECT_NE(read.error().message.find("cannot read 4000 bytes from byte 6000 of '" + path + "'"),
              std::string::npos)
        << read.error().message;
    EXPECT_NE(read.error().message.find("it ends there"), std::string::npos);
}

TEST(MappedFile, TouchedPagesAreResident) {
    const test::TempFolder folder;
    const size_t n = 32 << 20;
    auto file = MappedFile::open(folder.write("large", std::string(n, 'x')));
    ASSERT_TRUE(file) << file.error().message;
    const size_t before = resident_set().file_bytes;
    if (before == 0) GTEST_SKIP() << "the system does not tell what is resident";
    file->touch(n, 1);
    file->touch(n / 2 + 1, 0);
    EXPECT_LT(resident_set().file_bytes, before + (1 << 20));
    file->touch(5, n);  // one page of 16 at least, where a fault maps no more
    EXPECT_GT(resident_set().file_bytes, before + n / 32);
}

TEST(MappedFile, AsksForHugePagesWhenTold) {
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) GTEST_SKIP() << "the system has none";
    const test::TempFolder folder;
    const std::string path = folder.write("a.bin", std::string(100000, 'x'));
    const MappedFile file = MappedFile::open(path).value();
    const std::string before = test::mapping_flags(path);
    if (before.empty()) GTEST_SKIP() << "the system does not tell how a mapping was asked for";
    EXPECT_EQ(before.find(" hg "), std::string::npos) << before;
    file.want_huge_pages();
    EXPECT_NE(test::mapping_flags(path).find(" hg "), std::string::npos) << test::mapping_flags(path);
    MappedFile().want_huge_pages();  // of nothing
}

TEST(MappedFile, MovesTheMapping) {
    const test::TempFolder folder;
    MappedFile a = MappedFile::open(folder.write("a", "first")).value();
    MappedFile b = MappedFile::open(folder.write("b", "second")).value();
    const std::byte* where = a.bytes().data();
    b = std::move(a);
    std::byte first_byte;
    EXPECT_TRUE(b.read(0, {&first_byte, 1}));
    EXPECT_EQ(first_byte, std::byte{'f'});
    EXPECT_EQ(b.bytes().data(), where);
    EXPECT_EQ(b.path(), folder.at("a"));
    EXPECT_TRUE(a.bytes().empty());
    const MappedFile c(std::move(b));
    EXPECT_EQ(text_of(c), "first");
    EXPECT_TRUE(b.bytes().empty());
}

TEST(MappedFile, ErrorsNameThePathAndTheReason) {
    const test::TempFolder folder;
    Error error = error_of(folder.at("absent.gguf"));
    EXPECT_EQ(error.code, ErrorCode::NotFound);
    EXPECT_NE(error.message.find("absent.gguf"), std::string::npos);
    EXPECT_NE(error.message.find(strerror(ENOENT)), std::string::npos);

    error = error_of(folder.path());
    EXPECT_EQ(error.code, ErrorCode::InvalidArgument);
    EXPECT_NE(error.message.find("is a directory"), std::string::npos);

    error = error_of(folder.write("empty.gguf", ""));
    EXPECT_EQ(error.code, ErrorCode::Malformed);
    EXPECT_NE(error.message.find("empty.gguf' is empty"), std::string::npos);

    EXPECT_EQ(error_of(folder.write("plain", "x") + "/inside").code, ErrorCode::NotFound);
    EXPECT_EQ(error_of("").code, ErrorCode::NotFound);
    EXPECT_EQ(error_of(std::string("a\0b", 3)).code, ErrorCode::InvalidArgument);
    EXPECT_EQ(error_of("/dev/null").code, ErrorCode::InvalidArgument);
    EXPECT_EQ(error_of("no\nsuch").message.find('\n'), std::string::npos);
}

TEST(MappedFile, AFifoIsRefusedWithoutWaiting) {
    const test::TempFolder folder;
    ASSERT_EQ(mkfifo(folder.at("pipe").c_str(), 0600), 0);
    const Error error = error_of(folder.at("pipe"));
    EXPECT_EQ(error.code, ErrorCode::InvalidArgument);
    EXPECT_NE(error.message.find("not a regular file"), std::string::npos);
}

TEST(MappedFile, UnreadableFile) {
    if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
    const test::TempFolder folder;
    const std::string path = folder.write("secret", "x");
    ASSERT_EQ(chmod(path.c_str(), 0), 0);
    EXPECT_EQ(error_of(path).code, ErrorCode::Io);
}

TEST(MappedFile, HintsLeaveTheBytesAlone) {
    const test::TempFolder folder;
    std::string text(5 * 4096 + 123, 'x');
    for (size_t i = 0; i < text.size(); i++) text[i] = static_cast<char>('a' + i % 23);
    const MappedFile file = MappedFile::open(folder.write("f", text)).value();
    for (const auto& [offset, n] : {std::pair<size_t, size_t>{0, text.size()},
                                    {1, 5000},
                                    {4095, 2},
                                    {4096, 4096},
                                    {text.size() - 1, 1},
                                    {text.size(), 10},
                                    {SIZE_MAX, SIZE_MAX},
                                    {100, SIZE_MAX},
                                    {5, 0}}) {
        file.touch(offset, n);
        file.release(offset, n);
        ASSERT_EQ(text_of(file), text);
    }
}

}  // namespace
}  // namespace tessera
