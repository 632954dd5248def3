// Byte-level BPE over vocabularies built in memory: merging by rank, repairs, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "src/text/detokenizer.h"
#include "src/text/merge_loop.h"
#include "src/text/tokenizer.h"
#include "tests/text/byte_vocabulary.h"
#include "tests/text/load_shared.h"
#include "tests/text/warnings.h"

namespace tessera::text {
namespace {

using test::ByteVocabulary;
using test::encode;
using test::Ids;
using test::MemoryGguf;
using test::TokenList;
using test::Warnings;

Result<std::shared_ptr<const Tokenizer>> load_bpe(MemoryGguf file) {
    auto parsed = file.parse();
    if (!parsed) return fail_in("parse", parsed.error());
    return Tokenizer::load(*parsed);
}

std::shared_ptr<const Tokenizer> must_load_bpe(MemoryGguf file) {
    auto tokenizer = load_bpe(std::move(file));
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return tokenizer ? *tokenizer : nullptr;
}

std::string bpe_error(MemoryGguf file) {
    const auto tokenizer = load_bpe(std::move(file));
    return tokenizer ? "" : tokenizer.error().message;
}

std::string bytes_of(const Tokenizer& tokenizer, const Ids& ids) {
    std::string bytes;
    for (const int32_t id : ids) bytes += tokenizer.token_bytes(id);
    return bytes;
}

TEST(Bpe, MergesByRankTheLeftmostFirst) {
    ByteVocabulary v = ByteVocabulary::with_bytes();
    const int32_t bc = v.merge("b", "c"), ab = v.merge("a", "b"), aa = v.merge("a", "a"),
                  the = v.merge(" ", "bc");
    const auto t = must_load_bpe(v.gguf("gpt-2"));
    ASSERT_TRUE(t);
    EXPECT_EQ(encode(*t, "abc"), (Ids{'a', bc}));
    EXPECT_EQ(encode(*t, "ab"), (Ids{ab}));
    EXPECT_EQ(encode(*t, "aaab"), (Ids{aa, ab}));
    EXPECT_EQ(encode(*t, "aaa"), (Ids{aa, 'a'}));
    EXPECT_EQ(encode(*t, "a bc"), (Ids{'a', the}));
    EXPECT_EQ(encode(*t, ""), Ids{});
    EXPECT_EQ(t->token_bytes(the), " bc");
    EXPECT_EQ(t->token_bytes(0x80), "\x80");
    EXPECT_EQ(t->decode(encode(*t, " é bc\n")), " é bc\n");
}

TEST(Bpe, WholeWordsWhereThePreTokenizerSaysSo) {
    ByteVocabulary v = ByteVocabulary::with_bytes();
    const int32_t ab = v.merge("a", "b");
    const int32_t word = v.add("xyz");  // no merges lead to it
    EXPECT_EQ(encode(*must_load_bpe(v.gguf("llama-bpe")), "xyz ab"), (Ids{word, ' ', ab}));
    EXPECT_EQ(encode(*must_load_bpe(v.gguf("qwen2")), "xyz"), (Ids{'x', 'y', 'z'}));
}

TEST(Bpe, BosAndEosFollowThePreTokenizerUnlessTheFileSetsThem) {
    ByteVocabulary v = ByteVocabulary::with_bytes();
    const int32_t bos = v.list.add("<|bos|>", 0, 3), sep = v.list.add("<|sep|>", 0, 3);
    const auto file = [&](const char* pre) {
        return v.gguf(pre)
            .u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(bos))
            .u32("tokenizer.ggml.seperator_token_id", static_cast<uint32_t>(sep));
    };
    EXPECT_EQ(*must_load_bpe(file("llama-bpe"))->encode("a"), (Ids{bos, 'a'}));
    EXPECT_EQ(*must_load_bpe(file("gpt-2"))->encode("a"), (Ids{'a'}));
    EXPECT_EQ(*must_load_bpe(file("roberta-bpe").boolean("tokenizer.ggml.add_bos_token", true))->encode("a"),
              (Ids{bos, 'a', sep}));
    EXPECT_EQ(*must_load_bpe(file("llama-bpe").boolean("tokenizer.ggml.add_bos_token", false))->encode("a"),
              (Ids{'a'}));
}

TEST(Bpe, InvalidUtf8KeepsItsBytes) {
    ByteVocabulary v = ByteVocabulary::with_bytes();
    v.merge("\xE2", "\x82");
    const auto t = must_load_bpe(v.gguf());
    ASSERT_TRUE(t);
    std::string all;
    for (int i = 0; i < 256; i++) all += static_cast<char>(i);
    for (const std::string& text :
         {std::string("\xFF"), std::string("a\xE2\x82"), "\x80" + all + "\xF0\x9F", all + all})
        EXPECT_EQ(bytes_of(*t, encode(*t, text)), text);
    EXPECT_EQ(t->decode(encode(*t, "a\xE2\x82")), "a\uFFFD");
}

TEST(Bpe, SpecialTokens) {
    ByteVocabulary v = ByteVocabulary::with_bytes();
    const int32_t control = v.list.add("<c>", 0, 3), user = v.list.add("  ", 0, 4);
    v.merge("<", "c");
    v.merges.push_back("<c >");                     // would make a control token of plain text
    const auto t = must_load_bpe(v.gguf("bloom"));  // which does not cut at the brackets
    ASSERT_TRUE(t);
    EXPECT_EQ(encode(*t, "<c>  x", true), (Ids{control, user, 'x'}));
    EXPECT_EQ(encode(*t, "<c>"), (Ids{'<', 'c', '>'}));
    EXPECT_EQ(t->decode(encode(*t, "a   b")), "a   b");
    EXPECT_EQ(t->decode(encode(*t, "<c>x", true)), "x");
    EXPECT_EQ(t->decode(encode(*t, "<c>x", true), {.show_special = true}), "<c>x");
}

TEST(Bpe, UnknownPreTokenizerErrorNamesTheNearestAndTheOption) {
    const std::string message = bpe_error(ByteVocabulary::with_bytes().gguf("lama-bpe"));
    for (const char* part : {"tokenizer.ggml.pre", "'lama-bpe'", "nearest: 'llama-bpe'",
                             "--override-kv tokenizer.ggml.pre=str:llama-bpe"})
        EXPECT_NE(message.find(part), std::string::npos) << message;
    const std::string far = bpe_error(ByteVocabulary::with_bytes().gguf("completely different"));
    EXPECT_NE(far.find("--override-kv tokenizer.ggml.pre=str:NAME"), std::string::npos) << far;
    EXPECT_EQ(far.find("nearest"), std::string::npos) << far;
}

TEST(Bpe, MissingPreTokenizerIsTheDefaultWithAWarning) {
    Warnings warnings;
    ASSERT_TRUE(must_load_bpe(ByteVocabulary::with_bytes().gguf("")));
    EXPECT_TRUE(warnings.mention("tokenizer.ggml.pre"));
}

TEST(Bpe, BrokenMergesAreErrors) {
    for (const char* merge : {"", " ", "a", "a ", " a", "a b c", "ab  c", "a  ", "  b"}) {
        ByteVocabulary v = ByteVocabulary::with_bytes();
        v.merge("a", "b");
        v.merges.emplace_back(merge);
        const std::string message = bpe_error(v.gguf());
        EXPECT_NE(message.find("merge 1 "), std::string::npos) << "'" << merge << "': " << message;
        // Merges are read in batches, and the error still names the first broken one.
        for (int i = 0; i < 70; i++) v.merges.insert(v.merges.begin(), "a b");
        v.merges.emplace_back("a");
        const std::string later = bpe_error(v.gguf());
        EXPECT_NE(later.find("merge 71 "), std::string::npos) << "'" << merge << "': " << later;
    }
    const std::vector<int32_t> numbers = {1, 2};
    const ByteVocabulary v = ByteVocabulary::with_bytes();
    MemoryGguf none;
    none.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "gpt-2")
        .texts("tokenizer.ggml.tokens", v.list.texts);
    EXPECT_NE(bpe_error(none).find("tokenizer.ggml.merges"), std::string::npos);
    EXPECT_NE(bpe_error(none.ints("tokenizer.ggml.merges", numbers)).find("array of strings"),
              std::string::npos);
}

TEST(Bpe, MergesMayPassThroughTextsThatAreNotTokens) {
    Warnings warnings;
    ByteVocabulary v = ByteVocabulary::with_bytes();
    v.merges = {"a b", "ab c", "x y"};
    const int32_t abc = v.add("abc");
    const auto t = must_load_bpe(v.gguf("qwen2"));
    ASSERT_TRUE(t);
    EXPECT_TRUE(warnings.mention("2 texts are not tokens")) << warnings.text();
    EXPECT_EQ(encode(*t, "abc"), (Ids{abc}));
    EXPECT_EQ(encode(*t, "abxy"), (Ids{'a', 'b', 'x', 'y'}));
}

TEST(Bpe, DuplicatesTakeTheFirst) {
    ByteVocabulary v = ByteVocabulary::with_bytes();
    const int32_t ab = v.merge("a", "b");
    v.merge("a", "b");
    v.merges.push_back("b c");
    v.merges.push_back("a b");
    v.add("bc");
    EXPECT_EQ(encode(*must_load_bpe(v.gguf()), "abc"), (Ids{ab, 'c'}));
}

TEST(Bpe, BytesWithoutATokenAreLeftOutOrUnknown) {
    Warnings warnings;
    ByteVocabulary v;
    v.list.add("a", 0, 1);
    v.list.add("b", 0, 1);
    const int32_t ab = v.merge("a", "b");
    EXPECT_EQ(encode(*must_load_bpe(v.gguf()), "ab\nxabé\xFF"), (Ids{ab, ab}));
    EXPECT_TRUE(warnings.mention(" of the bytes that occur in text")) << warnings.text();
    const int32_t unk = v.list.add("<unk>", 0, 2);
    const auto t = must_load_bpe(v.gguf().u32("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(unk)));
    EXPECT_EQ(encode(*t, "ab\nx"), (Ids{ab, unk, unk}));
}

TEST(Bpe, RanksMayBeTheIds) {
    ByteVocabulary v = ByteVocabulary::with_bytes();
    const int32_t bc = v.add("bc");
    const int32_t ab = v.add("ab"), abc = v.add("abc");
    EXPECT_EQ(encode(*must_load_bpe(v.gguf("kimi-k2")), "abcab"), (Ids{abc, ab}));
    EXPECT_EQ(encode(*must_load_bpe(v.gguf("kimi-k2")), "bcx"), (Ids{bc, 'x'}));
}

TEST(Bpe, HugeAndEmptyTokensAreHandled) {
    ByteVocabulary v = ByteVocabulary::with_bytes();
    v.add(std::string(size_t{1} << 20, 'a'));
    v.list.add("", 0, 1);
    v.list.add("\xFF\xFE", 0, 1);
    v.list.add("not the alphabet: \u4E00 ", 0, 1);
    v.list.add(std::string(size_t{1} << 20, '<'), 0, 3);  // too long to be looked for
    const auto t = must_load_bpe(v.gguf());
    ASSERT_TRUE(t);
    const std::string run(size_t{1} << 20, '<');
    EXPECT_EQ(encode(*t, run.substr(1), true).size(), run.size() - 1);
    for (int32_t id = 0; id < t->vocab().size(); id++) t->decode(Ids{id});
}

/// The definition: merge the pair of the lowest rank, the leftmost among equals, until there is none.
Ids bpe_by_the_book(const ByteVocabulary& v, const std::string& text) {
    std::vector<std::string> symbols;
    for (const char c : text) symbols.push_back(ByteVocabulary::spell({&c, 1}));
    while (true) {
        size_t best = v.merges.size(), at = 0;
        for (size_t i = 0; i + 1 < symbols.size(); i++) {
            const auto found = std::find(v.merges.begin(), v.merges.end(), symbols[i] + " " + symbols[i + 1]);
            const auto rank = static_cast<size_t>(found - v.merges.begin());
            if (rank >= best) continue;
            best = rank;
            at = i;
        }
        if (best == v.merges.size()) break;
        symbols[at] += symbols[at + 1];
        symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
    Ids ids;
    for (const std::string& symbol : symbols) {
        const auto at = std::find(v.list.texts.begin(), v.list.texts.end(), symbol);
        ids.push_back(static_cast<int32_t>(at - v.list.texts.begin()));
    }
    return ids;
}

TEST(Bpe, RandomVocabulariesEqualTheDefinition) {
    std::mt19937 random(3);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    for (int round = 0; round < 60; round++) {
        ByteVocabulary v = ByteVocabulary::with_bytes();
        std::vector<std::string> symbols = {"a", "b", "c"};
        for (int i = 0; i < (round % 3 == 0 ? 150 : 20); i++) {
            const std::string left = symbols[below(symbols.size())], right = symbols[below(symbols.size())];
            const bool is_known = std::find(symbols.begin(), symbols.end(), left + right) != symbols.end();
            if (left.size() + right.size() > 6) continue;
            if (is_known)
                v.merges.push_back(left + " " + right);  // a second way to the same token
            else
                v.merge(left, right);
            symbols.push_back(left + right);
        }
        // Ranks need not follow the order in which tokens can be formed.
        if (round % 2) std::shuffle(v.merges.begin(), v.merges.end(), random);
        const auto t = must_load_bpe(v.gguf("qwen2"));
        ASSERT_TRUE(t);
        for (int i = 0; i < 8; i++) {
            std::string text(1 + below(i == 0 ? 500 : 40), 'a');
            for (char& c : text) c = static_cast<char>('a' + below(3));
            ASSERT_EQ(encode(*t, text), bpe_by_the_book(v, text)) << round << ": " << text;
        }
    }
}

TEST(MergeQueue, PopsByOrderThenPosition) {
    std::mt19937 random(9);
    for (int round = 0; round < 200; round++) {
        MergeQueue queue;
        queue.clear();
        std::vector<std::pair<uint32_t, uint32_t>> expected;  // kept sorted, the next one last
        for (int i = 0; i < 300; i++) {
            if (random() % 3 && !expected.empty()) {
                MergeQueue::Entry entry{};
                ASSERT_TRUE(queue.pop(entry));
                ASSERT_EQ(std::make_pair(entry.order, entry.at), expected.back());
                expected.pop_back();
            }
            for (size_t n = random() % 4; n > 0; n--) {
                const auto item =
                    std::make_pair(static_cast<uint32_t>(random() % 6), static_cast<uint32_t>(random() % 50));
                queue.push(item.first, item.second);
                expected.insert(std::upper_bound(expected.begin(), expected.end(), item, std::greater<>()),
                                item);
            }
        }
        MergeQueue::Entry entry{};
        while (!expected.empty()) {
            ASSERT_TRUE(queue.pop(entry));
            ASSERT_EQ(std::make_pair(entry.order, entry.at), expected.back());
            expected.pop_back();
        }
        EXPECT_FALSE(queue.pop(entry));
    }
}

TEST(Bpe, ManyThreadsShareOne) {
    ByteVocabulary v = ByteVocabulary::with_bytes();
    v.merge("a", "b");
    v.merge(" ", "ab");
    v.list.add("<u>", 0, 4);
    const auto t = must_load_bpe(v.gguf());
    ASSERT_TRUE(t);
    std::string text;
    for (int i = 0; i < 3000; i++)
        text += "ab" + std::to_string(i) + " ab <u>é" + std::string(static_cast<size_t>(i) % 5, 'b');
    text += std::string(5000, 'a');
    const Ids expected = *t->encode(text);
    std::vector<std::thread> threads;
    std::vector<Ids> results(6);
    for (Ids& result : results)
        threads.emplace_back([&] {
            for (int i = 0; i < 3; i++) result = *t->encode(text);
        });
    for (std::thread& thread : threads) thread.join();
    for (const Ids& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace tessera::text
