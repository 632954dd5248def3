// Tokenizer over vocabularies built in memory: framing, special tokens, byte fallback, repairs.
#include "src/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "src/text/safe_cuts.h"
#include "tests/text/memory_gguf.h"

namespace tessera::text {
namespace {

using test::MemoryGguf;
using test::TokenList;
using Ids = std::vector<int32_t>;

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(MemoryGguf file) {
    auto parsed = file.parse();
    if (!parsed) return fail_in("parse", parsed.error());
    return Tokenizer::load(*parsed);
}

std::shared_ptr<const Tokenizer> must_load_tokenizer(MemoryGguf file) {
    auto tokenizer = load_tokenizer(std::move(file));
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return tokenizer ? *tokenizer : nullptr;
}

constexpr EncodeOptions kPlain{.add_special = false};
constexpr EncodeOptions kParse{.add_special = false, .parse_special = true};

/// "▁a" is made before "ab", which is made before "aa".
struct Letters {
    TokenList list = TokenList::with_bytes();
    int32_t space = list.add("▁", -20, 1), a = list.add("a", -21, 1), b = list.add("b", -22, 1);
    int32_t space_a = list.add("▁a", -1, 1), ab = list.add("ab", -2, 1), aa = list.add("aa", -3, 1);
    int32_t control = list.add("<c>", 0, 3), user = list.add("<u>", 0, 4), longer = list.add("<u>>", 0, 4);
};

int32_t spm_byte_id(uint8_t byte) { return 3 + byte; }

TEST(Tokenizer, MergesByScoreAndFallsBackToBytes) {
    const Letters v;
    const auto t = must_load_tokenizer(v.list.gguf());
    ASSERT_TRUE(t);
    EXPECT_EQ(*t->encode("ab", kPlain), (Ids{v.space_a, v.b}));
    EXPECT_EQ(*t->encode("bab", kPlain), (Ids{v.space, v.b, v.ab}));
    EXPECT_EQ(*t->encode("b\n", kPlain), (Ids{v.space, v.b, spm_byte_id('\n')}));
    EXPECT_EQ(*t->encode("é", kPlain), (Ids{v.space, spm_byte_id(0xC3), spm_byte_id(0xA9)}));
    EXPECT_EQ(*t->encode("", kPlain), Ids{});
    EXPECT_EQ(*t->encode(" ", kPlain), (Ids{v.space, v.space}));
    EXPECT_EQ(*t->encode(std::string_view("b\0", 2), kPlain), (Ids{v.space, v.b, spm_byte_id(0)}));
}

TEST(Tokenizer, InvalidUtf8BecomesItsBytes) {
    const Letters v;
    const auto t = must_load_tokenizer(v.list.gguf());
    ASSERT_TRUE(t);
    EXPECT_EQ(*t->encode("\xFF", kPlain), (Ids{v.space, spm_byte_id(0xFF)}));
    EXPECT_EQ(*t->encode("a\xE2\x96", kPlain), (Ids{v.space_a, spm_byte_id(0xE2), spm_byte_id(0x96)}));
    EXPECT_EQ(*t->encode("a\x80"
                         "ab",
                         kPlain),
              (Ids{v.space_a, spm_byte_id(0x80), v.ab}));
    std::string all;
    for (int i = 0; i < 256; i++) all += static_cast<char>(i);
    std::string bytes;
    const Ids ids = *t->encode(all, kPlain);
    for (const int32_t id : ids) bytes += t->token_bytes(id);
    EXPECT_EQ(bytes, " " + all);
}

TEST(Tokenizer, FramesWithBosAndEos) {
    const Letters v;
    EXPECT_EQ(*must_load_tokenizer(v.list.gguf())->encode("b"), (Ids{1, v.space, v.b}));
    EXPECT_EQ(*must_load_tokenizer(v.list.gguf())->encode(""), (Ids{1}));
    const auto t = must_load_tokenizer(v.list.gguf()
                                           .boolean("tokenizer.ggml.add_bos_token", false)
                                           .boolean("tokenizer.ggml.add_eos_token", true)
                                           .boolean("tokenizer.ggml.add_space_prefix", false));
    EXPECT_EQ(*t->encode("b"), (Ids{v.b, 2}));
}

TEST(Tokenizer, SpecialTokens) {
    const Letters v;
    const auto t = must_load_tokenizer(v.list.gguf());
    ASSERT_TRUE(t);
    EXPECT_EQ(*t->encode("b<u>b", kPlain), (Ids{v.space, v.b, v.user, v.space, v.b}));
    EXPECT_EQ(*t->encode("<u>>", kPlain), (Ids{v.longer}));
    EXPECT_EQ(*t->encode("<u><c>", kParse), (Ids{v.user, v.control}));
    EXPECT_EQ(*t->encode("<c>", kPlain),
              (Ids{v.space, spm_byte_id('<'), spm_byte_id('c'), spm_byte_id('>')}));
    EXPECT_EQ(*t->encode("</s", kParse),
              (Ids{v.space, spm_byte_id('<'), spm_byte_id('/'), spm_byte_id('s')}));
    EXPECT_EQ(*t->encode("<unk><s>", kParse), (Ids{0, 1}));
    EXPECT_EQ(*t->encode("<", kParse), (Ids{v.space, spm_byte_id('<')}));
}

TEST(Tokenizer, RemovesExtraSpacesWhereTheModelSays) {
    const Letters v;
    const auto t =
        must_load_tokenizer(v.list.gguf().boolean("tokenizer.ggml.remove_extra_whitespaces", true));
    ASSERT_TRUE(t);
    EXPECT_EQ(*t->encode("  b   b  ", kPlain), (Ids{v.space, v.b, v.space, v.b}));
    EXPECT_EQ(*t->encode("   ", kPlain), Ids{});
}

TEST(Tokenizer, PhiTokensSwallowTheSpaceAfterThem) {
    Letters v;
    const auto t = must_load_tokenizer(v.list.gguf().text("general.name", "Phi-3 mini"));
    ASSERT_TRUE(t);
    EXPECT_EQ(*t->encode("<c> \n\tb", kParse), (Ids{v.control, v.space, v.b}));
    EXPECT_EQ(*t->encode("<s> b", kParse), (Ids{1, v.space, v.space, v.b}));
    EXPECT_EQ(*t->encode("<c> \n", kParse), (Ids{v.control}));
}

TEST(Tokenizer, TokenBytes) {
    const Letters v;
    const auto t = must_load_tokenizer(v.list.gguf());
    ASSERT_TRUE(t);
    EXPECT_EQ(t->token_bytes(v.space_a), " a");
    EXPECT_EQ(t->token_bytes(spm_byte_id(0xE2)), "\xE2");
    EXPECT_EQ(t->token_bytes(v.control), "<c>");
    EXPECT_EQ(t->token_bytes(-1), "");
    EXPECT_EQ(t->token_bytes(t->vocab().size()), "");
}

TEST(Tokenizer, VocabulariesThatSentencePieceRefuses) {
    // Each of these would fail to load if it were not repaired.
    Letters twice;
    twice.list.add("ab", -2, 1);
    twice.list.add("<c>", 0, 3);
    twice.list.add("<0x41>", 0, 6);
    twice.list.add("", 0, 1);
    twice.list.add(std::string(10000, 'a'), 0, 1);
    twice.list.add("\xC3", 0, 1);
    twice.list.add("<unk2>", 0, 2);
    const auto t = must_load_tokenizer(twice.list.gguf());
    ASSERT_TRUE(t);
    EXPECT_EQ(*t->encode("bab", kPlain), (Ids{twice.space, twice.b, twice.ab}));
    EXPECT_EQ(*t->encode("A", kPlain), (Ids{twice.space, spm_byte_id('A')}));
    EXPECT_EQ(*t->encode("<c>", kParse), (Ids{twice.control}));

    TokenList no_unknown = Letters().list;
    no_unknown.texts[0] = "nothing";
    no_unknown.types[0] = 1;
    ASSERT_TRUE(must_load_tokenizer(no_unknown.gguf()));
    EXPECT_EQ(*must_load_tokenizer(no_unknown.gguf())->encode("\n", kPlain), (Ids{259, spm_byte_id('\n')}));
}

TEST(Tokenizer, MissingByteTokensBecomeUnknown) {
    TokenList list;
    const int32_t unk = list.add("<unk>", 0, 2), space = list.add("▁", -1, 1), x = list.add("x", -2, 1);
    const auto none = must_load_tokenizer(list.gguf());
    ASSERT_TRUE(none);
    EXPECT_EQ(*none->encode("xé\xFFx", kPlain), (Ids{space, x, unk, x}));  // as the library has it
    const int32_t c3 = list.add("<0xC3>", 0, 6);
    const auto one = must_load_tokenizer(list.gguf());
    ASSERT_TRUE(one);
    EXPECT_EQ(*one->encode("xé", kPlain), (Ids{space, x, c3, unk}));
}

TEST(Tokenizer, TextThatCannotBeExpressedIsAnErrorAtLoad) {
    TokenList list;
    list.add("x", 0, 1);
    const auto t = load_tokenizer(list.gguf());
    ASSERT_FALSE(t);
    EXPECT_NE(t.error().message.find("<0x00>"), std::string::npos) << t.error().message;
}

TEST(Tokenizer, UnsupportedKindNamesWhatExists) {
    for (const char* model : {"gpt9", "rwkv", ""}) {
        const auto t = load_tokenizer(Letters().list.gguf(model));
        ASSERT_FALSE(t);
        EXPECT_EQ(t.error().code, ErrorCode::Unsupported);
        EXPECT_NE(t.error().message.find("llama"), std::string::npos) << t.error().message;
        EXPECT_NE(t.error().message.find(std::string("'") + model + "'"), std::string::npos)
            << t.error().message;
    }
}

TEST(Tokenizer, UnusedPiecesAreSplitAgain) {
    Letters v;
    v.list.types[static_cast<size_t>(v.ab)] = 5;
    v.list.add("[PAD7]", 0, 5);
    const auto t = must_load_tokenizer(v.list.gguf());
    ASSERT_TRUE(t);
    EXPECT_EQ(*t->encode("bab", kPlain), (Ids{v.space, v.b, v.a, v.b}));
    std::string text;
    while (text.size() < 20000) text += "bab ";
    EXPECT_EQ(t->decode(*t->encode(text, kPlain)), text);
}

TEST(Tokenizer, LongTextsAreCutOnlyBetweenMerges) {
    const Letters v;
    const auto t = must_load_tokenizer(v.list.gguf());
    ASSERT_TRUE(t);
    // No piece contains "ba", so the ids of a long text are those of its parts.
    const Ids unit = {v.ab, v.b};
    std::string text = "b";
    Ids expected = {v.space, v.b};
    for (int i = 0; i < 30000; i++) {
        text += "abb";
        expected.insert(expected.end(), unit.begin(), unit.end());
    }
    EXPECT_EQ(*t->encode(text, kPlain), expected);
    // A run of a letter that merges with itself has no such place: pairs are merged from the left.
    EXPECT_EQ(t->encode("b" + std::string(100001, 'a'), kPlain)->back(), v.a);
}

/// The definition of BPE over one-byte characters: merge the pair of the best score, the leftmost among
/// equals, until there is none.
Ids spm_by_the_book(const TokenList& list, const std::string& text) {
    const auto find = [&](const std::string& piece) {
        for (size_t i = 259; i < list.texts.size(); i++)
            if (list.texts[i] == piece) return static_cast<int32_t>(i);
        return kNoToken;
    };
    std::vector<std::string> symbols;
    for (const char c : text) symbols.emplace_back(1, c);
    while (true) {
        int32_t best = kNoToken;
        size_t at = 0;
        for (size_t i = 0; i + 1 < symbols.size(); i++) {
            const int32_t id = find(symbols[i] + symbols[i + 1]);
            if (id == kNoToken) continue;
            if (best != kNoToken &&
                list.scores[static_cast<size_t>(id)] <= list.scores[static_cast<size_t>(best)])
                continue;
            best = id;
            at = i;
        }
        if (best == kNoToken) break;
        symbols[at] += symbols[at + 1];
        symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
    Ids ids;
    for (const std::string& symbol : symbols) ids.push_back(find(symbol));
    return ids;
}

TEST(Tokenizer, RandomVocabulariesEqualTheDefinition) {
    std::mt19937 random(3);
    const auto below = [&](unsigned n) { return random() % n; };
    const auto word = [&](size_t n) {
        std::string text(n, ' ');
        for (char& c : text) c = static_cast<char>('a' + below(4));
        return text;
    };
    for (int round = 0; round < 60; round++) {
        TokenList list = TokenList::with_bytes();
        for (const char* letter : {"a", "b", "c", "d"}) list.add(letter, -100, 1);
        for (int i = 0; i < 25; i++) {
            const std::string piece = word(2 + below(3));
            if (std::find(list.texts.begin(), list.texts.end(), piece) == list.texts.end())
                list.add(piece, -static_cast<float>(below(12)), 1);  // some scores are equal
        }
        const auto t = must_load_tokenizer(list.gguf().boolean("tokenizer.ggml.add_space_prefix", false));
        ASSERT_TRUE(t);
        for (int i = 0; i < 10; i++) {
            const std::string text = word(1 + below(60));
            ASSERT_EQ(*t->encode(text, kPlain), spm_by_the_book(list, text)) << text;
        }
    }
}

TEST(SafeCuts, FirstCutIsBetweenCharactersAdjacentInNoPiece) {
    SafeCuts cuts;
    for (const char* piece : {"ab", "▁a", "éa", "\xFF\xFE"}) cuts.add_piece(piece);
    cuts.finish();
    EXPECT_EQ(cuts.first("ab"), 2u);
    EXPECT_EQ(cuts.first("aab"), 1u);
    EXPECT_EQ(cuts.first(" ab b"), 3u);
    EXPECT_EQ(cuts.first("▁ab"), 5u);
    EXPECT_EQ(cuts.first("é"), 2u);
    EXPECT_EQ(cuts.first("éé"), 2u);
    EXPECT_EQ(cuts.first("éab"), 4u);
    EXPECT_EQ(cuts.first(std::string_view("\0a", 2)), 1u);
}

TEST(Tokenizer, ManyThreadsShareOne) {
    const Letters v;
    const auto t = must_load_tokenizer(v.list.gguf());
    ASSERT_TRUE(t);
    std::string text;
    for (int i = 0; i < 2000; i++) text += "ab <u> bé";
    const Ids expected = *t->encode(text);
    std::vector<std::thread> threads;
    std::vector<Ids> results(4);
    for (Ids& result : results) threads.emplace_back([&] { result = *t->encode(text); });
    for (std::thread& thread : threads) thread.join();
    for (const Ids& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace tessera::text
