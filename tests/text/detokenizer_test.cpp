// Streaming: whole characters only, and the same text as decoding at once.
#include "src/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "common/utf8.h"
#include "tests/support/data.h"
#include "tests/text/memory_gguf.h"

namespace tessera::text {
namespace {

using test::TokenList;
using Ids = std::vector<int32_t>;

int32_t byte_id(uint8_t byte) { return 3 + byte; }

class DetokenizerTest : public testing::Test {
  protected:
    void SetUp() override {
        auto file = list_.gguf();
        auto parsed = file.parse();
        ASSERT_TRUE(parsed) << parsed.error().message;
        auto tokenizer = Tokenizer::load(*parsed);
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        tokenizer_ = *tokenizer;
    }

    std::string stream(const Ids& ids, DecodeOptions options = {}) const {
        Detokenizer detokenizer(*tokenizer_, options);
        std::string text;
        for (const int32_t id : ids) {
            const std::string_view piece = detokenizer.push(id);
            EXPECT_TRUE(utf8::is_valid(piece));
            text += piece;
        }
        text += detokenizer.flush();
        return text;
    }

    TokenList list_ = TokenList::with_bytes();
    int32_t space_ = list_.add("▁", -3, 1), hi_ = list_.add("▁hi", -1, 1), x_ = list_.add("x", -4, 1);
    int32_t half_ = list_.add("x\xE2\x82", -9, 1);  // ends inside a character
    int32_t control_ = list_.add("<c>", 0, 3), user_ = list_.add("<u>", 0, 4);
    std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(DetokenizerTest, DropsTheSpaceThatEncodingAdded) {
    EXPECT_EQ(stream({hi_, hi_}), "hi hi");
    EXPECT_EQ(stream({1, hi_, hi_}), "hi hi");
    EXPECT_EQ(stream({space_, hi_}), " hi");
    EXPECT_EQ(stream({hi_, user_, hi_, x_}), "hi<u>hix");
    EXPECT_EQ(stream({hi_, control_, hi_}), "hihi");
    EXPECT_EQ(stream({x_, hi_}), "x hi");
    EXPECT_EQ(stream({byte_id(' '), x_}), "x");
}

TEST_F(DetokenizerTest, AContinuationKeepsItsSpace) {
    EXPECT_EQ(stream({hi_, hi_}, {.at_text_start = false}), " hi hi");
}

TEST_F(DetokenizerTest, SpecialTokensShowOnRequest) {
    EXPECT_EQ(stream({1, hi_, control_, 2}), "hi");
    EXPECT_EQ(stream({1, hi_, control_, 2}, {.show_special = true}), "<s>hi<c></s>");
    EXPECT_EQ(stream({0, x_}, {.show_special = true}), "<unk>x");
}

TEST_F(DetokenizerTest, HoldsIncompleteCharacters) {
    Detokenizer detokenizer(*tokenizer_);
    EXPECT_EQ(detokenizer.push(x_), "x");
    for (const char byte : {'\xF0', '\x9F', '\xA6'})
        EXPECT_EQ(detokenizer.push(byte_id(static_cast<uint8_t>(byte))), "");
    EXPECT_EQ(detokenizer.push(byte_id(0x99)), "🦙");
    EXPECT_EQ(detokenizer.push(byte_id(0xE2)), "");
    EXPECT_EQ(detokenizer.push(x_), "\uFFFDx");
    EXPECT_EQ(detokenizer.push(byte_id(0x80)), "\uFFFD");
    EXPECT_EQ(detokenizer.push(half_), "x");
    EXPECT_EQ(detokenizer.push(byte_id(0xAC)), "€");
    EXPECT_EQ(detokenizer.push(byte_id(0xE2)), "");
    EXPECT_EQ(detokenizer.push(control_), "\uFFFD");
    EXPECT_EQ(detokenizer.push(byte_id(0xC3)), "");
    EXPECT_EQ(detokenizer.flush(), "\uFFFD");
    EXPECT_EQ(detokenizer.flush(), "");
    EXPECT_EQ(detokenizer.push(hi_), "hi");  // a new text
}

TEST_F(DetokenizerTest, IgnoresIdsOutsideTheVocabulary) { EXPECT_EQ(stream({-1, x_, 100000, x_}), "xx"); }

TEST_F(DetokenizerTest, StreamEqualsDecodeForAnyIds) {
    std::mt19937 random(7);
    for (int round = 0; round < 300; round++) {
        Ids ids(round % 60);
        for (int32_t& id : ids)
            id = static_cast<int32_t>(random() % static_cast<unsigned>(list_.texts.size() + 1)) - 1;
        for (const bool show : {false, true}) {
            const DecodeOptions options{.at_text_start = round % 2 == 0, .show_special = show};
            EXPECT_EQ(stream(ids, options), tokenizer_->decode(ids, options));
        }
    }
}

TEST_F(DetokenizerTest, EncodedTextComesBack) {
    for (const std::string_view text :
         {"", " ", "x", " x", "  hi  x ", "hi\n\thi", "é 🦙 汉字", "<u>", "<u> x<u>", "x <u>  x"}) {
        const auto ids = tokenizer_->encode(text);
        ASSERT_TRUE(ids);
        EXPECT_EQ(tokenizer_->decode(*ids), text);
    }
    const auto ids = tokenizer_->encode("<s> x<c>hi<u>", {.add_special = false, .parse_special = true});
    ASSERT_TRUE(ids);
    EXPECT_EQ(tokenizer_->decode(*ids, {.show_special = true}), "<s> x<c>hi<u>");
}

}  // namespace
}  // namespace tessera::text
