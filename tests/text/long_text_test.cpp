// Texts of millions of bytes without a place to split: time is linear for every kind of vocabulary.
#include <gtest/gtest.h>

#include <chrono>

#include "common/strings.h"
#include "tests/support/data.h"
#include "tests/text/byte_vocabulary.h"
#include "tests/text/load_shared.h"

namespace tessera::text {
namespace {

using test::Ids;
using test::TokenList;

/// Spaces and letters repeated to 4 MiB, other units to 1 MiB. A quadratic algorithm would take hours.
void check_runs(const Tokenizer& tokenizer, const char* name, bool gives_bytes_back) {
    for (const std::string_view unit : {" ", "a", "=", "的", "\xFF", "ab"}) {
        std::string run;
        const size_t length = unit == " " || unit == "a" ? size_t{4} << 20 : size_t{1} << 20;
        while (run.size() < length) run += unit;
        const auto start = std::chrono::steady_clock::now();
        const Ids ids = test::encode(tokenizer, run);
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        EXPECT_LT(seconds.count(), 60) << name << " '" << printable(unit) << "'";
        for (const int32_t id : ids) ASSERT_TRUE(tokenizer.vocab().contains(id));
        // Some byte-level vocabularies have no token for some bytes.
        if (!gives_bytes_back || test::encode(tokenizer, unit).empty()) continue;
        std::string bytes;
        for (const int32_t id : ids) bytes += tokenizer.token_bytes(id);
        EXPECT_TRUE(bytes == (tokenizer.vocab().add_space_prefix() ? " " + run : run))
            << name << " " << printable(unit);
    }
}

TEST(LongRuns, VocabulariesOfTheReferenceSet) {
    TSR_NEED_SHARED("data/vocab/ggml-vocab-llama-spm.gguf");
    for (const char* name : {"ggml-vocab-llama-spm", "rebuilt/ggml-vocab-llama-bpe",
                             "ggml-vocab-deepseek-llm", "ggml-vocab-bert-bge"}) {
        const std::string path = std::string("data/vocab/") + name + ".gguf";
        const auto tokenizer = test::load(test::shared(path));
        ASSERT_TRUE(tokenizer);
        check_runs(*tokenizer, name, tokenizer->vocab().model() != "bert");
    }
}

/// Pieces of 1, 2, 3, ... times the same character, with and without the space marker.
TEST(LongRuns, PiecesThatMergeWithThemselves) {
    for (const bool has_marker : {true, false}) {
        TokenList list = TokenList::with_bytes();
        for (size_t n = 1; n <= 40; n++) {
            list.add(std::string(n, 'a'), -static_cast<float>(n % 7), 1);
            std::string spaces;
            for (size_t i = 0; i < n; i++) spaces += "▁";
            if (has_marker) list.add(spaces, -static_cast<float>(n % 5), 1);
        }
        test::MemoryGguf file = list.gguf();
        const auto parsed = file.parse();
        ASSERT_TRUE(parsed);
        const auto tokenizer = Tokenizer::load(*parsed);
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        check_runs(**tokenizer, has_marker ? "with marker" : "without marker", has_marker);
    }
}

TEST(LongRuns, Unigram) {
    TokenList list;
    list.add("<pad>", 0, 3);
    list.add("</s>", 0, 3);
    list.add("<unk>", 0, 2);
    for (size_t n = 1; n <= 30; n++) list.add(std::string(n, 'a'), -static_cast<float>(n % 7) - 1, 1);
    list.add("▁", -2, 1);
    list.add("▁▁▁▁", -2, 1);
    test::MemoryGguf file = list.gguf("t5");
    const auto parsed = file.parse();
    ASSERT_TRUE(parsed);
    const auto tokenizer = Tokenizer::load(*parsed);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    check_runs(**tokenizer, "unigram", false);
}

}  // namespace
}  // namespace tessera::text
