// Every vocabulary of the reference set against the ids of other implementations, and decoding back to text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/strings.h"
#include "src/text/tokenizer.h"
#include "tests/support/data.h"
#include "tests/text/load_shared.h"

namespace tessera::text {
namespace {

using test::encode;
using test::Ids;

std::string from_hex(const std::string& hex) {
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
}

/// gtest wants letters and digits.
template <class Info>
std::string test_name(const Info& info) {
    std::string name = info.param;
    for (char& c : name)
        if (c == '-' || c == '/' || c == '.') c = '_';
    return name;
}

/// Whether decoding the ids of a text restores it. WordPiece keeps neither case nor spaces, U+2581 is
/// SentencePiece's spelling of a space and decodes to one, and some byte-level vocabularies lack tokens for
/// some bytes.
bool keeps(const Tokenizer& tokenizer, const std::string& text) {
    if (tokenizer.vocab().model() == "bert") return false;
    if (tokenizer.vocab().model() == "llama") return text.find("▁") == text.npos;
    return std::all_of(text.begin(), text.end(), [&](char byte) {
        return static_cast<uint8_t>(byte) >= 0x20 || !encode(tokenizer, {&byte, 1}).empty();
    });
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, EveryCase) {
    const std::string golden = std::string("golden/tokenizer/") + GetParam() + ".json";
    TSR_NEED_SHARED(golden);
    const auto doc = nlohmann::json::parse(test::read_file(test::shared(golden)));
    const auto tokenizer = test::load(test::shared("data/vocab/" + doc.at("vocab").get<std::string>()));
    ASSERT_TRUE(tokenizer);
    int n_exact = 0, n_other = 0, n_cases = 0;
    for (const auto& c : doc.at("cases")) {
        const bool has_text = c.contains("text_utf8");
        const std::string text =
            has_text ? c.at("text_utf8").get<std::string>() : from_hex(c.at("bytes_hex"));
        const bool parse_special = c.at("parse_special");
        const Ids ids = encode(*tokenizer, text, parse_special);
        for (const int32_t id : ids) ASSERT_TRUE(tokenizer->vocab().contains(id));
        if (c.value("advisory", false)) continue;
        n_cases++;
        const bool is_other = c.contains("other_ids") && ids == c.at("other_ids").get<Ids>();
        n_exact += ids == c.at("ids").get<Ids>();
        n_other += is_other && ids != c.at("ids").get<Ids>();
        if (!is_other) {
            EXPECT_EQ(ids, c.at("ids").get<Ids>()) << printable(text, 200) << " special=" << parse_special;
        }
        if (parse_special || !keeps(*tokenizer, text)) continue;
        EXPECT_EQ(tokenizer->decode(ids), text);
    }
    EXPECT_GT(n_cases, 300);
    RecordProperty("cases", n_cases);
    std::printf("%s: %d of %d cases as the first implementation, %d as the second\n", GetParam(), n_exact,
                n_cases, n_other);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Golden,
                         testing::Values("baichuan", "bert-bge", "deepseek-coder", "deepseek-llm", "falcon",
                                         "gpt-2", "gpt-neox", "llama-bpe", "llama-spm", "mpt", "phi-3",
                                         "qwen2", "refact", "smollm2", "starcoder"),
                         test_name<testing::TestParamInfo<const char*>>);

class InpOut : public testing::TestWithParam<const char*> {};

TEST_P(InpOut, EveryText) {
    const std::string name = std::string("ggml-vocab-") + GetParam() + ".gguf";
    std::string vocabulary = test::shared("data/vocab/" + name);
    if (!std::filesystem::exists(vocabulary)) vocabulary = test::shared("data/vocab/rebuilt/" + name);
    if (!std::filesystem::exists(vocabulary)) GTEST_SKIP() << "reference data not present: " << vocabulary;
    const auto tokenizer = test::load(vocabulary);
    ASSERT_TRUE(tokenizer);
    for (const char* folder : {"data/vocab/", "data/vocab/ik_llama.cpp/"}) {
        const std::string path = test::shared(folder + name);
        if (!std::filesystem::exists(path + ".inp")) continue;
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
            n++;
            if (!keeps(*tokenizer, text)) continue;
            EXPECT_EQ(tokenizer->decode(ids), text);
        }
        EXPECT_GT(n, 40);
        std::printf("%s%s: %d texts\n", folder, name.c_str(), n);
    }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, InpOut,
                         testing::Values("bert-bge", "deepseek-coder", "deepseek-llm", "falcon", "gpt-2",
                                         "llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2", "refact",
                                         "starcoder"),
                         test_name<testing::TestParamInfo<const char*>>);

TEST(EndOfGeneration, IsMoreThanEos) {
    const struct {
        const char* name;
        std::vector<std::string> ends;
    } cases[] = {{"rebuilt/ggml-vocab-llama-bpe", {"<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"}},
                 {"rebuilt/ggml-vocab-qwen2", {"<|endoftext|>", "<|im_end|>"}},
                 {"ggml-vocab-phi-3", {"</s>", "<|endoftext|>", "<|end|>"}},
                 {"ggml-vocab-gpt-2", {"<|endoftext|>"}},
                 {"ggml-vocab-llama-spm", {"</s>"}}};
    for (const auto& [name, ends] : cases) {
        const std::string path = std::string("data/vocab/") + name + ".gguf";
        TSR_NEED_SHARED(path);
        const auto tokenizer = test::load(test::shared(path));
        ASSERT_TRUE(tokenizer);
        std::vector<std::string> found;
        for (const int32_t id : tokenizer->vocab().end_ids()) found.emplace_back(tokenizer->vocab().text(id));
        EXPECT_EQ(found, ends) << name;
    }
}

}  // namespace
}  // namespace tessera::text
