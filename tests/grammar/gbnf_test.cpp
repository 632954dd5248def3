// GBNF: the reference grammars, positions in errors, repetition counts, ambiguity, token references,
// truncation.
#include "src/grammar/gbnf.h"

#include "tests/grammar/support.h"

namespace tessera::test {
namespace {

using grammar::Grammar;

std::shared_ptr<const Grammar> must_compile(const std::string& text) {
    auto grammar = Grammar::from_gbnf(text);
    EXPECT_TRUE(grammar.has_value()) << text << ": " << (grammar ? "" : grammar.error().message);
    return grammar ? *grammar : nullptr;
}

std::string error_of(const std::string& text) {
    const auto grammar = Grammar::from_gbnf(text);
    return grammar ? "accepted" : grammar.error().message;
}

TEST(Gbnf, ReferenceGrammars) {
    TSR_NEED_SHARED("golden/gbnf/grammars.json");
    size_t accepted = 0, incomplete = 0, rejected = 0;
    for (const Json& item : read_cases("golden/gbnf/grammars.json")) {
        SCOPED_TRACE(item["name"].get<std::string>());
        const auto grammar = must_compile(item["grammar"]);
        if (!grammar) continue;
        auto matcher = matcher_for(grammar);
        for (const std::string text : item["accept"]) {
            EXPECT_TRUE(accepts(matcher, text)) << text;
            accepted++;
        }
        for (const std::string text : item["incomplete"]) {
            matcher.reset();
            EXPECT_TRUE(matcher.accept_bytes(text).has_value()) << text;
            EXPECT_FALSE(matcher.is_accepting()) << text;
            EXPECT_FALSE(has(mask_of(matcher), matcher.cache().trie().ends()[0])) << text;
            incomplete++;
        }
        for (const Json& reject : item["reject"]) {
            const std::string text = reject["text"];
            matcher.reset();
            const size_t fits = matcher.n_fitting(text);
            const size_t from = bytes_of(text, reject["fits"]);
            // Of the character that does not fit, leading bytes may be shared with one that does.
            EXPECT_GE(fits, from) << text;
            EXPECT_LT(fits, bytes_of(text, reject["fits"].get<size_t>() + 1)) << text;
            rejected++;
        }
    }
    std::printf("gbnf: %zu accepted, %zu incomplete, %zu rejected, all as the reference says\n", accepted,
                incomplete, rejected);
}

TEST(Gbnf, MalformedGrammars) {
    TSR_NEED_SHARED("golden/gbnf/malformed.json");
    size_t n = 0;
    for (const Json& item : read_cases("golden/gbnf/malformed.json")) {
        EXPECT_NE(error_of(item["grammar"]), "accepted") << item["name"];
        n++;
    }
    std::printf("gbnf: %zu malformed grammars refused\n", n);
}

}  // namespace
}  // namespace tessera::test
