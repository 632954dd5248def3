// SentencePiece vocabularies against libsentencepiece with the model file they came from.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <random>
#include <span>

#include "common/strings.h"
#include "common/utf8.h"
#include "src/text/tokenizer.h"
#include "tests/support/data.h"
#include "tests/text/load_shared.h"
#include "tests/text/sentencepiece_model.h"

namespace tessera::text {
namespace {

using test::encode;
using test::Ids;
using test::TokenList;

Ids library_ids(const sentencepiece::SentencePieceProcessor& library, std::string_view text) {
    std::vector<int> ids;
    EXPECT_TRUE(library.Encode(text, &ids).ok());
    return {ids.begin(), ids.end()};
}

/// Prose mixed with other scripts, runs of spaces and unusual characters.
std::string mixed(const std::string& prose) {
    std::string text;
    for (size_t i = 0; i + 64 < prose.size() && text.size() < 60000; i += 61)
        text += std::string(i % 7, ' ') + prose.substr(i, i % 64) +
                "汉字のかな\n\t…🦙 Привет мир é";
    return utf8::sanitize(text);
}

/// The tiny model's GGUF vocabulary against its own tokenizer.model, over text it was not trained on.
class TinyModel : public testing::Test {
  protected:
    void SetUp() override {
        tokenizer_ = test::load(test::model_file("tiny/tiny-f16"));
        ASSERT_TRUE(tokenizer_);
        ASSERT_TRUE(reference_.Load(test::data_file("tiny/tokenizer.model")).ok());
        text_ = test::read_file(test::data_file("tiny/heldout.txt"));
        ASSERT_GT(text_.size(), 100000u);
    }

    std::shared_ptr<const Tokenizer> tokenizer_;
    sentencepiece::SentencePieceProcessor reference_;
    std::string text_;
};

TEST_F(TinyModel, EncodesLikeItsModelFile) {
    for (const std::string_view line : split(text_, '\n')) {
        const Ids ids = encode(*tokenizer_, line);
        ASSERT_EQ(ids, library_ids(reference_, line)) << printable(line, 200);
        ASSERT_EQ(tokenizer_->decode(ids), line);
    }
}

TEST_F(TinyModel, CutsOfLongTextsChangeNothing) {
    // The reference takes all of it at once.
    EXPECT_EQ(encode(*tokenizer_, text_), library_ids(reference_, text_));
    EXPECT_EQ(tokenizer_->decode(encode(*tokenizer_, text_)), text_);
    EXPECT_EQ(encode(*tokenizer_, mixed(text_)), library_ids(reference_, mixed(text_)));
}

TEST_F(TinyModel, ChatMarkersAreTokensOnlyWhenAsked) {
    const std::string turn = "<|im_start|>user\nHello<|im_end|>\n";
    const Ids parsed = encode(*tokenizer_, turn, true);
    EXPECT_EQ(parsed.front(), 3);
    EXPECT_EQ(std::count(parsed.begin(), parsed.end(), 4), 1);
    const Ids plain = encode(*tokenizer_, turn);
    EXPECT_EQ(std::count(plain.begin(), plain.end(), 4), 0);
    EXPECT_EQ(tokenizer_->decode(plain), turn);
    EXPECT_EQ(tokenizer_->decode(parsed, {.show_special = true}), turn);
    EXPECT_EQ(tokenizer_->decode(parsed), "user\nHello\n");
    EXPECT_TRUE(tokenizer_->vocab().is_end(4));
}

TEST(Llama2, EncodesLikeItsModelFile) {
    const std::string model = "data/hf/Llama-2_TinyLlama/tokenizer.model", prose = "data/text/wiki.test.raw";
    TSR_NEED_SHARED(model);
    sentencepiece::SentencePieceProcessor reference;
    ASSERT_TRUE(reference.Load(test::shared(model)).ok());
    const auto tokenizer = test::load(test::shared("data/vocab/ggml-vocab-llama-spm.gguf"));
    ASSERT_TRUE(tokenizer);
    const std::string text = test::read_file(test::shared(prose));
    EXPECT_EQ(encode(*tokenizer, text), library_ids(reference, text));
    EXPECT_EQ(encode(*tokenizer, mixed(text)), library_ids(reference, mixed(text)));
    for (const std::string_view unit : {" ", "a", "=", "的", "ab"}) {
        std::string run;
        while (run.size() < 20000) run += unit;
        EXPECT_EQ(encode(*tokenizer, run), library_ids(reference, run)) << unit;
    }
}

TEST(RandomBpe, EncodesLikeTheLibrary) {
    std::mt19937 random(5);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const std::string_view letters[] = {"a", "b", "c", "▁", "é", "汉"};
    const auto word = [&](size_t n, std::string_view space) {
        std::string text;
        for (; n > 0; n--) {
            const std::string_view letter = letters[below(std::size(letters))];
            text += letter == "▁" ? space : letter;
        }
        return text;
    };
    for (int round = 0; round < 200; round++) {
        const bool has_bytes = round % 2 == 0, has_unused = round % 3 == 0;
        TokenList list = has_bytes ? TokenList::with_bytes() : TokenList{};
        if (!has_bytes) list.add("<unk>", 0, 2);
        for (int i = 0; i < 40; i++) {
            const std::string piece = word(1 + below(5), "▁");
            if (std::find(list.texts.begin(), list.texts.end(), piece) == list.texts.end())
                list.add(piece, -static_cast<float>(below(15)), has_unused && below(4) == 0 ? 5 : 1);
        }
        sentencepiece::SentencePieceProcessor library;
        ASSERT_TRUE(library.LoadFromSerializedProto(test::bpe_model(list, has_bytes)).ok());
        test::MemoryGguf file = list.gguf();
        const auto parsed = file.parse();
        ASSERT_TRUE(parsed);
        const auto tokenizer = Tokenizer::load(*parsed);
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        for (int i = 0; i < 12; i++) {
            // Some words are longer than the merge loop's limit for a whole word.
            const std::string text = word(1 + below(i == 0 ? 3000 : 60), " ");
            ASSERT_EQ(encode(**tokenizer, text), library_ids(library, text)) << round << ": " << text;
        }
    }
}

class Lines : public sentencepiece::SentenceIterator {
  public:
    explicit Lines(std::span<const std::string> lines) : lines_(lines) {}
    bool done() const override { return at_ == lines_.size(); }
    void Next() override { at_++; }
    const std::string& value() const override { return lines_[at_]; }
    sentencepiece::util::Status status() const override { return {}; }

  private:
    std::span<const std::string> lines_;
    size_t at_ = 0;
};

TEST(Unigram, EncodesLikeTheLibrary) {
    const std::string prose = test::read_file(test::data_file("tiny/heldout.txt"));
    std::vector<std::string> lines;
    for (const std::string_view line : split(prose, '\n')) lines.emplace_back(line);
    for (const char* options :
         {"--byte_fallback=true --remove_extra_whitespaces=false --normalization_rule_name=identity",
          "--normalization_rule_name=nmt_nfkc", "--normalization_rule_name=nfkc_cf"}) {
        std::string serialized;
        Lines sentences(lines);
        ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train(
                        std::string("--model_type=unigram --vocab_size=1500 --hard_vocab_limit=false "
                                    "--minloglevel=2 --character_coverage=0.9995 ") +
                            options,
                        &sentences, &serialized)
                        .ok());
        sentencepiece::SentencePieceProcessor library;
        ASSERT_TRUE(library.LoadFromSerializedProto(serialized).ok());
        const std::string_view map = test::proto_field(test::proto_field(serialized, 3), 2);
        test::MemoryGguf file = test::pieces_of(library).gguf("t5");
        const bool is_identity = std::string_view(options).find("identity") != std::string_view::npos;
        file.boolean("tokenizer.ggml.remove_extra_whitespaces", !is_identity);
        file.u32("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(library.unk_id()));
        file.u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(library.eos_id()));
        EXPECT_EQ(map.empty(), is_identity);
        if (!map.empty()) file.bytes_array("tokenizer.ggml.precompiled_charsmap", map);
        const auto parsed = file.parse();
        ASSERT_TRUE(parsed);
        const auto tokenizer = Tokenizer::load(*parsed);
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        std::vector<std::string> texts(lines.begin(), lines.begin() + 300);
        texts.push_back(prose);
        texts.push_back(mixed(prose));
        texts.push_back("ﬁne ①②  ｆｕｌｌ　ｗｉｄｔｈ \xFF ÄÖÜ \xE2\x96");
        for (const std::string& text : texts) {
            const Ids ids = encode(**tokenizer, text);
            ASSERT_EQ(ids, library_ids(library, text)) << printable(text, 200);
            if (!is_identity || !utf8::is_valid(text)) continue;
            ASSERT_EQ((*tokenizer)->decode(ids), text);
        }
        EXPECT_EQ((*tokenizer)->encode("x")->back(), library.eos_id());
    }
}

}  // namespace
}  // namespace tessera::text
