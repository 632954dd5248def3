// Recognising pre-tokenizers by the rules of published tokenizers.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "src/convert/hf_pretokenizer.h"
#include "src/text/pretokenizers.h"

namespace tessera::convert {
namespace {

Result<std::string> recognise(const std::string& rules, bool ignore_merges = false) {
    const auto json =
        parse_json(R"({"model": {"type": "BPE", "ignore_merges": )" +
                   std::string(ignore_merges ? "true" : "false") + R"(}, "pre_tokenizer": )" + rules + "}");
    if (!json) return tl::unexpected<Error>(json.error());
    return recognise_pre_tokenizer(*json);
}

/// The patterns of a table row as a tokenizer.json spells them.
std::string rules_of(const text::PreTokenizer& row) {
    std::string out = R"({"type": "Sequence", "pretokenizers": [)";
    for (const std::string_view pattern : row.patterns) {
        std::string escaped;
        for (const char c : pattern)
            escaped += c == '\\' || c == '"' ? std::string("\\") + c : std::string(1, c);
        out += R"({"type": "Split", "pattern": {"Regex": ")" + escaped + R"("}, "behavior": "Isolated"}, )";
    }
    return out + R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
}

TEST(PreTokenizerNames, EveryRowIsKnownByItsRules) {
    for (const text::PreTokenizer& row : text::pre_tokenizers()) {
        if (row.ranks_are_ids) continue;  // its files list no merges
        const auto name = recognise(rules_of(row), row.whole_words);
        ASSERT_TRUE(name.has_value()) << row.name << ": " << name.error().message;
        const text::PreTokenizer* found = text::find_pre_tokenizer(*name);
        ASSERT_NE(found, nullptr);
        EXPECT_TRUE(std::equal(found->patterns.begin(), found->patterns.end(), row.patterns.begin(),
                               row.patterns.end()));
        EXPECT_EQ(found->whole_words, row.whole_words);
    }
}

TEST(PreTokenizerNames, Published) {
    EXPECT_EQ(recognise(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})"), "gpt-2");
    EXPECT_EQ(recognise(R"({"type": "ByteLevel", "add_prefix_space": false})"), "gpt-2");
    EXPECT_EQ(
        recognise(R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
                           {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]})"),
        "starcoder");
    const std::string llama = rules_of(*text::find_pre_tokenizer("llama-bpe"));
    EXPECT_EQ(recognise(llama, true), "llama-bpe");
    EXPECT_EQ(recognise(llama, false), "dbrx");
}

TEST(PreTokenizerNames, UnknownRulesSayWhatTheyAreAndHowToGoOn) {
    const char* const rules[] = {
        R"({"type": "Split", "pattern": {"Regex": "[a-z]{7}"}, "behavior": "Isolated", "invert": false})",
        R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Isolated"})",
        R"({"type": "UnicodeScripts"})",
        "null",
    };
    const char* const says[] = {"[a-z]{7}", "no Regex", "UnicodeScripts", "found none"};
    for (size_t i = 0; i < std::size(rules); i++) {
        const auto name = recognise(rules[i]);
        ASSERT_FALSE(name.has_value());
        EXPECT_NE(name.error().message.find(says[i]), std::string::npos) << name.error().message;
        EXPECT_NE(name.error().message.find("--pre NAME"), std::string::npos) << name.error().message;
    }
    EXPECT_FALSE(recognise(R"({"type": "ByteLevel", "add_prefix_space": true})").has_value());
    EXPECT_FALSE(recognise(R"({"type": "ByteLevel", "add_prefix_space": false})", true).has_value());
}

}  // namespace
}  // namespace tessera::convert
