// The parts of a model that are loaded before the weights, while another thread touches the weights of a
// packed container.
#include "src/engine/load.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "common/cpu.h"
#include "src/model/packed_file.h"
#include "tests/engine/support.h"
#include "tests/model/support.h"
#include "tests/support/mapping_flags.h"
#include "tests/support/temp_folder.h"

namespace tessera::engine {
namespace {

void pack_model(const std::string& to, ThreadPool& pool) {
    auto in = gguf::File::open(kModelPath);
    ASSERT_TRUE(in) << in.error().message;
    const auto done = pack_file(std::move(*in), to, {.pool = pool, .kernels = test::kernel_table()});
    ASSERT_TRUE(done) << done.error().message;
}

TEST(StartLoad, GivesTheTokenizerWhateverIsTouchedMeanwhile) {
    const test::TempFolder folder;
    const std::string packed = folder.at("packed.gguf");
    {
        ThreadPool pool(2);
        pack_model(packed, pool);
    }
    const std::string text = "Once there was a small boat.";
    for (const std::string& path : {kModelPath, packed}) {
        const auto file = gguf::File::open(path);
        ASSERT_TRUE(file) << file.error().message;
        const auto alone = load_tokenizer(*file);
        ASSERT_TRUE(alone) << alone.error().message;
        for (const int n_threads : {1, 2, 5}) {
            ThreadPool pool(n_threads);
            const auto start = start_load(*file, pool);
            ASSERT_TRUE(start) << start.error().message;
            EXPECT_EQ(*start->tokenizer->encode(text), *(*alone)->encode(text));
            if (n_threads == 1 || path == kModelPath) {
                EXPECT_EQ(start->resident, 0u);
            }
        }
        // If the pool's work is skipped, the caller loads the tokenizer.
        ThreadPool pool(2);
        const std::atomic<bool> abort{true};
        pool.set_abort_flag(&abort);
        const auto start = start_load(*file, pool);
        ASSERT_TRUE(start) << start.error().message;
        EXPECT_EQ(*start->tokenizer->encode(text), *(*alone)->encode(text));
    }
}

/// The touching thread is in time in at least some attempts if there is a processor for it.
TEST(StartLoad, TouchesTheWeightsOfAPackedContainer) {
    const size_t known = resident_set().file_bytes;
    if (known == 0 || default_thread_count() < 2)
        GTEST_SKIP() << "needs two processors, and a system that tells what is resident";
    const test::TempFolder folder;
    const std::string path = folder.at("packed.gguf");
    ThreadPool pool(2);
    pack_model(path, pool);
    ASSERT_TRUE(load_tokenizer(*gguf::File::open(path)));  // its code is resident then
    uint64_t most = 0;
    for (int i = 0; i < 500 && most < (256 << 10); i++) {
        const auto file = gguf::File::open(path);
        ASSERT_TRUE(file) << file.error().message;
        const auto start = start_load(*file, pool);
        ASSERT_TRUE(start) << start.error().message;
        most = std::max(most, start->resident);
    }
    EXPECT_GE(most, uint64_t{256} << 10);
}

/// A stock file is read, except for some rows of the embedding table.
TEST(StartLoad, AsksForHugePagesOfAPackedContainerAlone) {
    const test::TempFolder folder;
    const std::string packed = folder.at("packed.gguf");
    ThreadPool pool(1);
    pack_model(packed, pool);
    for (const std::string& path : {kModelPath, packed}) {
        const auto file = gguf::File::open(path);
        ASSERT_TRUE(file) << file.error().message;
        ASSERT_TRUE(start_load(*file, pool));
        const std::string flags = test::mapping_flags(path);
        if (flags.empty() || access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0)
            GTEST_SKIP() << "needs a system with huge pages that tells how a mapping was asked for";
        EXPECT_EQ(flags.find(" hg ") != std::string::npos, path == packed) << path << flags;
    }
}

TEST(ReleaseWeights, TheyAreReadAgain) {
    const test::TempFolder folder;
    const std::string path = folder.at("packed.gguf");
    ThreadPool pool(2);
    pack_model(path, pool);
    const auto file = gguf::File::open(path);
    ASSERT_TRUE(file) << file.error().message;
    const auto sum = [&] {
        uint64_t of_all = 0;
        for (const std::byte byte : file->mapping(0).bytes()) of_all += static_cast<uint64_t>(byte);
        return of_all;
    };
    const uint64_t before = sum();
    const size_t resident = resident_set().file_bytes;
    release_weights(*file, pool);
    if (resident == 0) GTEST_SKIP() << "the system does not tell what is resident";
    EXPECT_LT(resident_set().file_bytes, resident - (1 << 20));
    EXPECT_EQ(sum(), before);
}

TEST(StartLoad, ErrorsAreTheTokenizers) {
    const auto parsed = gguf::parse_override("tokenizer.ggml.model=str:none");
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto file = gguf::File::open(kModelPath, {.overrides = {*parsed}});
    ASSERT_TRUE(file) << file.error().message;
    const auto alone = load_tokenizer(*file);
    ASSERT_FALSE(alone);
    ThreadPool pool(2);
    const auto start = start_load(*file, pool);
    ASSERT_FALSE(start);
    EXPECT_EQ(start.error().message, alone.error().message);
}

}  // namespace
}  // namespace tessera::engine
