// Reading vocabulary metadata: repairs and refusals.
#include "src/text/vocab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/data.h"
#include "tests/text/memory_gguf.h"
#include "tests/text/warnings.h"

namespace tessera::text {
namespace {

using test::MemoryGguf;
using test::TokenList;
using test::Warnings;

Result<Vocab> load_vocab(MemoryGguf file) {
    auto parsed = file.parse();
    if (!parsed) return fail_in("parse", parsed.error());
    return Vocab::load(*parsed);
}

std::string vocab_error(MemoryGguf file) {
    const auto vocab = load_vocab(std::move(file));
    return vocab ? "" : vocab.error().message;
}

TokenList small_list() {
    TokenList list = TokenList::with_bytes();
    list.add("▁", -3, 1);
    list.add("a", -4, 1);
    list.add("▁a", -1, 1);
    return list;
}

TEST(Vocab, ReadsTokensScoresTypesAndDefaults) {
    const auto vocab = load_vocab(small_list().gguf());
    ASSERT_TRUE(vocab) << vocab.error().message;
    EXPECT_EQ(vocab->size(), 262);
    EXPECT_EQ(vocab->text(261), "▁a");
    EXPECT_EQ(vocab->score(261), -1.0f);
    EXPECT_EQ(vocab->type(3), TokenType::Byte);
    EXPECT_EQ(vocab->byte_of(3 + 0xAB), 0xAB);
    EXPECT_EQ(vocab->find("▁a"), 261);
    EXPECT_EQ(vocab->find("absent"), kNoToken);
    EXPECT_FALSE(vocab->contains(262));
    EXPECT_FALSE(vocab->contains(-1));
    EXPECT_EQ(vocab->special().unk, 0);
    EXPECT_EQ(vocab->special().bos, 1);
    EXPECT_EQ(vocab->special().eos, 2);
    EXPECT_EQ(vocab->special().pad, kNoToken);
    EXPECT_TRUE(vocab->add_bos());
    EXPECT_FALSE(vocab->add_eos());
    EXPECT_TRUE(vocab->add_space_prefix());
    EXPECT_FALSE(vocab->remove_extra_whitespaces());
    EXPECT_TRUE(vocab->is_hidden(0) && vocab->is_hidden(1) && !vocab->is_hidden(3));
}

TEST(Vocab, SurvivesMoves) {
    auto first = load_vocab(small_list().gguf());
    ASSERT_TRUE(first);
    Vocab moved = std::move(*first);
    const Vocab again = std::move(moved);
    EXPECT_EQ(again.find("▁a"), 261);
    EXPECT_EQ(again.text(1), "<s>");
}

TEST(Vocab, NoImpliedSpecialIdsWhereThoseTokensAreText) {
    TokenList list;
    for (const char* text : {"x", "y", "z"}) list.add(text, 0, 1);
    const auto vocab = load_vocab(list.gguf());
    ASSERT_TRUE(vocab);
    EXPECT_EQ(vocab->special().bos, kNoToken);
    EXPECT_FALSE(vocab->add_bos());
}

TEST(Vocab, FlagsAndIdsComeFromTheFile) {
    const auto vocab = load_vocab(small_list()
                                      .gguf()
                                      .u32("tokenizer.ggml.bos_token_id", 260)
                                      .u32("tokenizer.ggml.seperator_token_id", 5)
                                      .u32("tokenizer.ggml.middle_token_id", 6)
                                      .u32("tokenizer.ggml.fim_mid_token_id", 7)
                                      .boolean("tokenizer.ggml.add_bos_token", false)
                                      .boolean("tokenizer.ggml.add_eos_token", true)
                                      .boolean("tokenizer.ggml.add_space_prefix", false)
                                      .boolean("tokenizer.ggml.remove_extra_whitespaces", true));
    ASSERT_TRUE(vocab) << vocab.error().message;
    EXPECT_EQ(vocab->special().bos, 260);
    EXPECT_EQ(vocab->special().sep, 5);
    EXPECT_EQ(vocab->special().fim_middle, 7);
    EXPECT_FALSE(vocab->add_bos());
    EXPECT_TRUE(vocab->add_eos());
    EXPECT_FALSE(vocab->add_space_prefix());
    EXPECT_TRUE(vocab->remove_extra_whitespaces());
}

TEST(Vocab, SpecialIdOutsideIsAnErrorWithKeyRangeAndFinding) {
    const std::string message = vocab_error(small_list().gguf().u32("tokenizer.ggml.bos_token_id", 262));
    EXPECT_NE(message.find("tokenizer.ggml.bos_token_id"), std::string::npos) << message;
    EXPECT_NE(message.find("0..261"), std::string::npos) << message;
    EXPECT_NE(message.find("262"), std::string::npos) << message;
    EXPECT_NE(vocab_error(small_list().gguf().i32("tokenizer.ggml.eos_token_id", -2)), "");
    EXPECT_NE(vocab_error(small_list().gguf().text("tokenizer.ggml.eos_token_id", "2")), "");
}

TEST(Vocab, AllOnesAndMinusOneMeanNone) {
    for (const bool as_signed : {false, true}) {
        Warnings warnings;
        MemoryGguf file = small_list().gguf();
        if (as_signed)
            file.i32("tokenizer.ggml.eos_token_id", -1);
        else
            file.u32("tokenizer.ggml.eos_token_id", 0xFFFFFFFFu);
        const auto vocab = load_vocab(file);
        ASSERT_TRUE(vocab);
        EXPECT_EQ(vocab->special().eos, kNoToken);
        EXPECT_TRUE(warnings.mention("tokenizer.ggml.eos_token_id")) << warnings.text();
    }
}

TEST(Vocab, LengthMismatchesAreErrors) {
    TokenList list = small_list();
    list.scores.pop_back();
    EXPECT_NE(vocab_error(list.gguf()).find("expected 262 elements"), std::string::npos)
        << vocab_error(list.gguf());
    list = small_list();
    list.types.push_back(1);
    EXPECT_NE(vocab_error(list.gguf()).find("token_type"), std::string::npos);
}

TEST(Vocab, NoTokensIsAnError) {
    EXPECT_NE(vocab_error(TokenList{}.gguf()).find("tokenizer.ggml.tokens"), std::string::npos);
    EXPECT_NE(vocab_error(MemoryGguf().text("tokenizer.ggml.model", "llama")).find("tokenizer.ggml.tokens"),
              std::string::npos);
    EXPECT_NE(vocab_error(MemoryGguf().text("general.architecture", "llama")).find("tokenizer.ggml.model"),
              std::string::npos);
}

TEST(Vocab, AScoreThatIsNoNumberIsAnError) {
    TokenList list = small_list();
    list.scores[260] = std::nanf("");
    EXPECT_NE(vocab_error(list.gguf()).find("token 260"), std::string::npos);
    list.scores[260] = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(vocab_error(list.gguf()), "");
}

TEST(Vocab, MissingScoresAreRepairedInOrderOfTheTokens) {
    Warnings warnings;
    const TokenList list = small_list();
    MemoryGguf file;
    file.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", list.texts);
    const auto vocab = load_vocab(file.ints("tokenizer.ggml.token_type", list.types));
    ASSERT_TRUE(vocab);
    EXPECT_TRUE(warnings.mention("tokenizer.ggml.scores"));
    EXPECT_GT(vocab->score(259), vocab->score(260));
}

TEST(Vocab, OddTypesBecomeNormalWithAWarning) {
    Warnings warnings;
    TokenList list = small_list();
    list.types[260] = 0;
    list.types[261] = 77;
    list.texts[5] = "<0xZZ>";
    const auto vocab = load_vocab(list.gguf());
    ASSERT_TRUE(vocab);
    EXPECT_EQ(vocab->type(260), TokenType::Normal);
    EXPECT_EQ(vocab->type(261), TokenType::Normal);
    EXPECT_EQ(vocab->type(5), TokenType::Normal);
    EXPECT_TRUE(warnings.mention("2 types outside 1..6")) << warnings.text();
    EXPECT_TRUE(warnings.mention("1 byte tokens")) << warnings.text();
}

TEST(Vocab, DuplicateSpellingsFindTheLowestId) {
    TokenList list = small_list();
    list.add("a", -9, 1);
    const auto vocab = load_vocab(list.gguf());
    ASSERT_TRUE(vocab);
    EXPECT_EQ(vocab->find("a"), 260);
}

TEST(Vocab, CollectsEndMarkersAndSettlesTheirType) {
    Warnings warnings;
    TokenList list = small_list();
    const int32_t im_end = list.add("<|im_end|>", 0, 3);
    const int32_t eot = list.add("<end_of_turn>", 0, 1);  // as old converters wrote it
    const int32_t text_end = list.add("<|endoftext|>", 0, 4);
    const int32_t plain = list.add("[EOS]", 0, 1);  // may be plain text
    const int32_t fim = list.add("<fim_prefix>", 0, 3);
    const auto vocab = load_vocab(list.gguf());
    ASSERT_TRUE(vocab);
    for (const int32_t id : {2, im_end, eot, text_end}) EXPECT_TRUE(vocab->is_end(id)) << id;
    for (const int32_t id : {0, 1, 3, plain, fim, -1, 100000}) EXPECT_FALSE(vocab->is_end(id)) << id;
    EXPECT_EQ(vocab->type(eot), TokenType::Control);
    EXPECT_EQ(vocab->type(text_end), TokenType::Control);
    EXPECT_EQ(vocab->type(plain), TokenType::Normal);
    EXPECT_EQ(vocab->special().eot, im_end);
    EXPECT_EQ(vocab->special().fim_prefix, fim);
    EXPECT_TRUE(warnings.mention("<end_of_turn>"));
    EXPECT_TRUE(std::is_sorted(vocab->end_ids().begin(), vocab->end_ids().end()));
}

TEST(Vocab, HarmonyEndSeparatesChannelsOnly) {
    TokenList list = small_list();
    const int32_t end = list.add("<|end|>", 0, 3);
    ASSERT_TRUE(load_vocab(list.gguf()));
    EXPECT_TRUE(load_vocab(list.gguf())->is_end(end));
    const int32_t done = list.add("<|return|>", 0, 3);
    const int32_t call = list.add("<|call|>", 0, 3);
    const auto vocab = load_vocab(list.gguf());
    ASSERT_TRUE(vocab);
    EXPECT_FALSE(vocab->is_end(end));
    EXPECT_TRUE(vocab->is_end(done) && vocab->is_end(call));
}

TEST(Vocab, BrokenFilesOfTheReferenceSet) {
    const auto load_file = [](const char* name) -> Result<Vocab> {
        auto file = gguf::File::open(test::model_file(std::string("bad/") + name));
        if (!file) return fail_in("open", file.error());
        return Vocab::load(*file);
    };
    EXPECT_TRUE(load_file("ok"));
    const auto outside = load_file("bosoob");
    ASSERT_FALSE(outside);
    EXPECT_NE(outside.error().message.find("999999"), std::string::npos) << outside.error().message;
    EXPECT_NE(outside.error().message.find("0..319"), std::string::npos) << outside.error().message;
    const auto no_eos = load_file("eosneg");
    ASSERT_TRUE(no_eos) << no_eos.error().message;
    EXPECT_EQ(no_eos->special().eos, kNoToken);
    EXPECT_TRUE(load_file("noscores"));
}

}  // namespace
}  // namespace tessera::text
