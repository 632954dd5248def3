// Pre-tokenizers: the splits of each table row, and linear time for every text.
#include "src/text/splitter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>

#include "common/utf8.h"
#include "src/text/pretokenizers.h"
#include "tests/support/data.h"

namespace tessera::text {
namespace {

using Pieces = std::vector<std::string>;

Splitter must_create(std::span<const std::string_view> patterns) {
    auto splitter = Splitter::create(patterns);
    if (!splitter) ADD_FAILURE() << splitter.error().message;
    return std::move(*splitter);
}

Pieces pieces_of(const Splitter& splitter, std::string_view text) {
    Splitter::Scratch scratch;
    std::vector<size_t> ends;
    const auto split = splitter.split(text, scratch, ends);
    EXPECT_TRUE(split) << split.error().message;
    Pieces pieces;
    size_t begin = 0;
    for (const size_t end : ends) {
        EXPECT_GT(end, begin);
        pieces.emplace_back(text.substr(begin, end - begin));
        begin = end;
    }
    EXPECT_EQ(begin, text.size());
    return pieces;
}

Pieces pieces_of(const char* name, std::string_view text) {
    const PreTokenizer* row = find_pre_tokenizer(name);
    if (!row) {
        ADD_FAILURE() << name << " is in no row";
        return {};
    }
    return pieces_of(must_create(row->patterns), text);
}

TEST(Splitter, CutsAtMatchesAndBetweenThemStageByStage) {
    constexpr std::string_view kStages[] = {"b+", "[xy]", "(?=z)"};
    EXPECT_EQ(pieces_of(must_create(kStages), "abbxcyzzb"),
              (Pieces{"a", "bb", "x", "c", "y", "z", "z", "b"}));
    EXPECT_EQ(pieces_of(must_create(kStages), ""), Pieces{});
    EXPECT_EQ(pieces_of(must_create(std::span(kStages).last(1)), "zéz"), (Pieces{"zé", "z"}));
    EXPECT_EQ(pieces_of(must_create({}), "ab"), (Pieces{"ab"}));
}

TEST(Splitter, SpacesAreUnicodesOwn) {
    constexpr std::string_view kSpaces[] = {R"(\s+)"}, kOthers[] = {R"([^\s]+)"}, kNot[] = {R"(\S+)"};
    // U+180E is no White_Space, though PCRE2 takes it for one; U+0085 is.
    const std::string text = "a\u0085\u2003 \u3000\t\u180Eb";
    const Pieces expected = {"a", "\u0085\u2003 \u3000\t", "\u180Eb"};
    EXPECT_EQ(pieces_of(must_create(kSpaces), text), expected);
    EXPECT_EQ(pieces_of(must_create(kOthers), text), expected);
    EXPECT_EQ(pieces_of(must_create(kNot), text), expected);
    EXPECT_EQ(spell_out_spaces(R"(\\s[\]\s])"), R"(\\s[\]\p{Z}\t-\r\x{85}])");
}

TEST(Splitter, APatternThatDoesNotCompileIsAnError) {
    constexpr std::string_view kBad[] = {"a(b"};
    const auto splitter = Splitter::create(kBad);
    ASSERT_FALSE(splitter);
    EXPECT_NE(splitter.error().message.find("a(b"), std::string::npos) << splitter.error().message;
}

TEST(PreTokenizers, NamesAreUnique) {
    std::set<std::string_view> names;
    for (const PreTokenizer& row : pre_tokenizers()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(find_pre_tokenizer("no such"), nullptr);
}

TEST(PreTokenizers, TheDocumentNamesEveryRow) {
    const std::string document = test::read_file(TSR_SOURCE_DIR "/docs/reference/tokenizers.md");
    for (const PreTokenizer& row : pre_tokenizers())
        EXPECT_NE(document.find("`" + std::string(row.name) + "`"), std::string::npos) << row.name;
}

struct Case {
    const char* name;
    std::string_view text;
    Pieces pieces;
};

TEST(PreTokenizers, SplitAsTheirModelsLearnt) {
    const Case cases[] = {
        {"gpt-2",
         "I'll go  home,\n\n2024 it'S!?",
         {"I", "'ll", " go", " ", " home", ",", "\n", "\n", "2024", " it", "'", "S", "!?"}},
        {"starcoder", "x = 123\n", {"x", " =", " ", "1", "2", "3", "\n"}},
        {"default", "a+=b;$1234 x", {"a", "+=", "b", ";$", "123", "4", " x"}},
        {"falcon", "12345 a`b", {"123", "45", " a", "`", "b"}},
        {"llama-bpe",
         "It'S 12345.\n\n  x\t\ty",
         {"It", "'S", " ", "123", "45", ".\n\n", " ", " x", "\t", "\ty"}},
        {"qwen2", "It's 123", {"It", "'s", " ", "1", "2", "3"}},
        {"qwen35", "e\u0301a हिन्दी 12", {"e\u0301a", " हिन्दी", " ", "1", "2"}},
        {"gpt-4o",
         "HelloWorld FOO's e\u0301 1234/\n",
         {"Hello", "World", " FOO's", " e\u0301", " ", "123", "4", "/\n"}},
        {"tekken", "HelloWorld FOO's 12", {"Hello", "World", " FOO", "'s", " ", "1", "2"}},
        {"kimi-k2", "我们Hello世界 ABc's 1234", {"我们", "Hello", "世界", " ABc's", " ", "123", "4"}},
        {"deepseek-llm",
         "Hello 世界abc 123!? \n x  ",
         {"Hello", " ", "世界", "abc", " ", "123", "!?", " ", "\n", " x", "  "}},
        {"deepseek-coder", "int x1 = 23;\n世", {"int", " x", "1", " = ", "2", "3", ";", "\n", "世"}},
        {"deepseek-v3",
         "abc 12345 世界かな .foo(x)\n",
         {"abc", " ", "123", "45", " ", "世界かな", " .", "foo", "(x", ")\n"}},
        {"bloom", "Hello, wörld. (x)", {"Hello", ",", " wörld", ". (", "x", ")"}},
        {"viking", "a1 22", {"a", "1", " ", "2", "2"}},
        {"seed-coder", "x!\n12", {"x", "!", "\n", "1", "2"}},
        {"bailingmoe", "x\n\n y", {"x", "\n\n", " y"}},
        {"minicpm5", "x 12345", {"x", " ", "123", "45"}},
        {"laguna", "a \nb", {"a", " ", "\n", "b"}},
        {"jais-2",
         "a"
         "     b",
         {"a", "    ", " b"}},
        {"youtu", "한국어x你好，a1", {"한국어", "x", "你好", "，", "a", "1"}},
        {"ufakzeka", "Ali'nin", {"Ali", "'nin"}},
    };
    for (const Case& c : cases) EXPECT_EQ(pieces_of(c.name, c.text), c.pieces) << c.name;
}

TEST(PreTokenizers, ClassesWithoutHanAreTheIntersection) {
    // PCRE2 lacks intersections of classes, so the table spells them as complements.
    constexpr std::string_view kComplement[] = {R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+)"};
    constexpr std::string_view kMeant[] = {R"((?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])++)"};
    const Splitter complement = must_create(kComplement), meant = must_create(kMeant);
    for (uint32_t begin = 0; begin < 0x110000; begin += 0x1000) {
        std::string text;
        for (uint32_t c = begin; c < begin + 0x1000; c++)
            if (c < 0xD800 || c > 0xDFFF) utf8::append(text, c);
        if (text.empty()) continue;
        ASSERT_EQ(pieces_of(complement, text), pieces_of(meant, text)) << begin;
    }
}

TEST(PreTokenizers, LongRunsTakeLinearTime) {
    std::set<const std::string_view*> seen;
    for (const PreTokenizer& row : pre_tokenizers()) {
        if (!seen.insert(row.patterns.data()).second) continue;
        const Splitter splitter = must_create(row.patterns);
        for (const std::string_view unit : {" ", "\n", "\t ", "a", "A", "aB", "1", "!", "'", "\u0301", "的",
                                            "\u0e01", " a", "\r\n", "a\u0301", "...\n "}) {
            std::string run;
            while (run.size() < (size_t{1} << 17)) run += unit;
            for (const char* end : {"", "x"}) {
                const auto start = std::chrono::steady_clock::now();
                pieces_of(splitter, run + end);
                const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
                // This takes milliseconds; a quadratic algorithm would take minutes.
                EXPECT_LT(seconds.count(), 5) << row.name << " '" << unit << "'";
            }
        }
    }
}

}  // namespace
}  // namespace tessera::text
