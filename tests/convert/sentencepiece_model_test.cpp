// The reader of SentencePiece models, on a real model and on every prefix of it.
#include "src/convert/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "common/mapped_file.h"
#include "tests/support/data.h"

namespace tessera::convert {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

constexpr std::string_view kSmall{
    "\x0a\x0c\x0a\x03<s>\x15\x00\x00\x00\x00\x18\x03"       // piece "<s>", control
    "\x0a\x0b\x0a\x02\xe2\x96\x15\x00\x00\x80\xbf\x18\x01"  // piece of -1
    "\x12\x04\x18\x02\x48\x01"                              // trainer: BPE, and a field that is stepped over
    "\x1a\x02\x18\x00",                                     // normalizer: no dummy prefix
    14 + 13 + 6 + 4};

TEST(SentencePieceModel, Fields) {
    const auto model = parse_sentencepiece(bytes_of(kSmall));
    ASSERT_TRUE(model.has_value()) << model.error().message;
    ASSERT_EQ(model->pieces.size(), 2u);
    EXPECT_EQ(model->pieces[0].text, "<s>");
    EXPECT_EQ(model->pieces[0].type, 3);
    EXPECT_EQ(model->pieces[1].score, -1.0f);
    EXPECT_EQ(model->kind, SentencePieceModel::Kind::Bpe);
    EXPECT_FALSE(model->add_dummy_prefix);
}

TEST(SentencePieceModel, PrefixesAreReadWholeFieldsAtATime) {
    for (size_t n = 0; n < kSmall.size(); n++) {
        const auto copy = std::make_unique<std::byte[]>(n);
        std::copy_n(bytes_of(kSmall).begin(), n, copy.get());
        const bool ends_with_a_field = n == 14 || n == 27 || n == 33;
        EXPECT_EQ(parse_sentencepiece({copy.get(), n}).has_value(), ends_with_a_field) << n;
    }
}

TEST(SentencePieceModel, WrongOnes) {
    for (const std::string_view text :
         {std::string_view("IQ== 0\nIg== 1\n"),
          std::string_view("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
          std::string_view("\x0a\x02\x18\x07", 4), std::string_view("\x0a\x05\x15\x00\x00\xc0\x7f", 7),
          std::string_view("\x12\x02\x18\x09", 4), std::string_view("\x0b"), std::string_view("\x00\x00", 2)})
        EXPECT_FALSE(parse_sentencepiece(bytes_of(text)).has_value());
}

TEST(SentencePieceModel, TheOneOfTessera) {
    const auto file = MappedFile::open(test::data_file("tiny/tokenizer.model"));
    ASSERT_TRUE(file.has_value());
    const auto model = parse_sentencepiece(file->bytes());
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ(model->pieces.size(), 4096u);
    EXPECT_EQ(model->pieces[5].text, "<0x00>");
    EXPECT_EQ(model->pieces[5].type, 6);
    EXPECT_EQ(model->unk, 0);
    EXPECT_TRUE(model->add_dummy_prefix);
}

}  // namespace
}  // namespace tessera::convert
