// SentencePiece vocabularies against the ids of other implementations, and against libsentencepiece with the
// model file a vocabulary came from.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "common/strings.h"
#include "src/text/tokenizer.h"
#include "tests/support/shared.h"

namespace tessera::text {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> load(const std::string& path) {
    const auto file = gguf::File::open(path);
    if (!file) {
        ADD_FAILURE() << file.error().message;
        return nullptr;
    }
    auto tokenizer = Tokenizer::load(*file);
    if (!tokenizer) {
        ADD_FAILURE() << tokenizer.error().message;
        return nullptr;
    }
    return std::move(*tokenizer);
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
    auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = parse_special});
    if (!ids) {
        ADD_FAILURE() << ids.error().message;
        return {};
    }
    return std::move(*ids);
}

std::string from_hex(const std::string& hex) {
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
}

class SpmGolden : public testing::TestWithParam<const char*> {};

TEST_P(SpmGolden, EveryCase) {
    const std::string golden = std::string("golden/tokenizer/") + GetParam() + ".json";
    TSR_NEED_SHARED(golden);
    const auto doc = nlohmann::json::parse(test::read_file(test::shared(golden)));
    const auto tokenizer = load(test::shared("data/vocab/" + doc.at("vocab").get<std::string>()));
    ASSERT_TRUE(tokenizer);
    int n_exact = 0;
    for (const auto& c : doc.at("cases")) {
        const bool has_text = c.contains("text_utf8");
        const std::string text =
            has_text ? c.at("text_utf8").get<std::string>() : from_hex(c.at("bytes_hex"));
        const bool parse_special = c.at("parse_special");
        const Ids ids = encode(*tokenizer, text, parse_special);
        for (const int32_t id : ids) ASSERT_TRUE(tokenizer->vocab().contains(id));
        if (c.value("advisory", false)) continue;
        n_exact++;
        if (c.contains("other_ids") && ids == c.at("other_ids").get<Ids>()) continue;
        EXPECT_EQ(ids, c.at("ids").get<Ids>()) << printable(text, 200) << " parse_special=" << parse_special;
        // U+2581 itself is the scheme's spelling of a space and comes back as one.
        const bool reversible = !parse_special && text.find("▁") == text.npos;
        EXPECT_EQ(reversible ? tokenizer->decode(ids) : text, text);
    }
    EXPECT_GT(n_exact, 300);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, SpmGolden, testing::Values("llama-spm", "phi-3", "baichuan"),
                         [](const auto& vocabulary) {
                             std::string name = vocabulary.param;
                             std::erase(name, '-');
                             return name;
                         });

class SpmInpOut : public testing::TestWithParam<const char*> {};

TEST_P(SpmInpOut, EveryCase) {
    const std::string path = test::shared(std::string("data/vocab/ggml-vocab-") + GetParam() + ".gguf");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "reference data not present: " << path;
    const auto tokenizer = load(path);
    ASSERT_TRUE(tokenizer);
    const std::string inputs = test::read_file(path + ".inp"), separator = "\n__ggml_vocab_test__\n";
    std::istringstream outputs(test::read_file(path + ".out"));
    int n = 0;
    for (size_t pos = 0, end; (end = inputs.find(separator, pos)) != inputs.npos;
         pos = end + separator.size()) {
        const std::string text = inputs.substr(pos, end - pos);
        std::string line;
        ASSERT_TRUE(std::getline(outputs, line));
        Ids expected;
        std::istringstream numbers(line);
        for (int32_t id; numbers >> id;) expected.push_back(id);
        const Ids ids = encode(*tokenizer, text);
        EXPECT_EQ(ids, expected) << printable(text, 200);
        EXPECT_EQ(tokenizer->decode(ids), text);
        n++;
    }
    EXPECT_GT(n, 40);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, SpmInpOut, testing::Values("llama-spm", "phi-3"),
                         [](const auto& vocabulary) { return vocabulary.index == 0 ? "llamaspm" : "phi3"; });

TEST(SpmLongRuns, StayNearLinear) {
    // These merge with themselves, so that there is no place to cut and the library gets a run as a whole.
    const std::string path = "data/vocab/ggml-vocab-llama-spm.gguf";
    TSR_NEED_SHARED(path);
    const auto tokenizer = load(test::shared(path));
    ASSERT_TRUE(tokenizer);
    for (const std::string_view unit : {" ", "a", "=", "的", "\xFF"}) {
        std::string run;
        while (run.size() < (size_t{1} << 18)) run += unit;
        std::string bytes;
        const Ids ids = encode(*tokenizer, run);
        for (const int32_t id : ids) bytes += tokenizer->token_bytes(id);
        EXPECT_EQ(bytes, " " + run) << printable(unit);
    }
    const auto too_long = tokenizer->encode(std::string(size_t{17} << 20, 'a'));
    ASSERT_FALSE(too_long);
    EXPECT_EQ(too_long.error().code, ErrorCode::InvalidArgument);
}

/// The tiny model's GGUF vocabulary against its own tokenizer.model, over text it was not trained on.
class TinyModel : public testing::Test {
  protected:
    void SetUp() override {
        TSR_NEED_SHARED("models/tiny/tiny-f16.gguf");
        tokenizer_ = load(test::shared("models/tiny/tiny-f16.gguf"));
        ASSERT_TRUE(tokenizer_);
        ASSERT_TRUE(reference_.Load(test::shared("models/tiny/hf/tokenizer.model")).ok());
        text_ = test::read_file(test::shared("models/tiny/heldout.txt"));
        ASSERT_GT(text_.size(), 100000u);
    }

    Ids reference_ids(std::string_view text) const {
        std::vector<int> ids;
        EXPECT_TRUE(reference_.Encode(text, &ids).ok());
        return {ids.begin(), ids.end()};
    }

    std::shared_ptr<const Tokenizer> tokenizer_;
    sentencepiece::SentencePieceProcessor reference_;
    std::string text_;
};

TEST_F(TinyModel, EncodesLikeItsModelFile) {
    for (const std::string_view line : split(text_, '\n')) {
        const Ids ids = encode(*tokenizer_, line);
        ASSERT_EQ(ids, reference_ids(line)) << printable(line, 200);
        ASSERT_EQ(tokenizer_->decode(ids), line);
    }
}

TEST_F(TinyModel, CutsOfLongTextsChangeNothing) {
    // The reference takes all of it at once.
    EXPECT_EQ(encode(*tokenizer_, text_), reference_ids(text_));
    EXPECT_EQ(tokenizer_->decode(encode(*tokenizer_, text_)), text_);
    std::string mixed;
    for (size_t i = 0; i + 64 < text_.size() && mixed.size() < 60000; i += 61)
        mixed += std::string(i % 7, ' ') + text_.substr(i, i % 64) + "汉字\n\t…🦙";
    mixed = mixed.substr(0, mixed.rfind("🦙"));
    std::string valid;
    for (const char c : mixed)
        if (static_cast<uint8_t>(c) < 0x80) valid += c;
    EXPECT_EQ(encode(*tokenizer_, valid), reference_ids(valid));
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

}  // namespace
}  // namespace tessera::text
