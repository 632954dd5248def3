// Regular expressions: matches, refusals with their place, and the automata of schema patterns.
#include "src/grammar/regex.h"

#include "src/grammar/char_dfa.h"
#include "tests/grammar/support.h"

namespace tessera::test {
namespace {

using grammar::Grammar;

struct Case {
    const char* pattern;
    std::vector<std::string> yes, no;
};

TEST(Regex, WholeOutputs) {
    const std::vector<Case> cases = {
        {"abc", {"abc"}, {"", "ab", "abcd"}},
        {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
        {"(?:ab)+c*?", {"ab", "abab", "abcc"}, {"", "a", "abba"}},
        {"^[a-z]+$|^[0-9]+$", {"abc", "12"}, {"a1", ""}},
        {"\\d{3}-\\w{2,}\\s?", {"123-ab", "000-a_9 "}, {"12-ab", "123-a"}},
        {"[^\"\\\\\\n]*", {"", "x é 😀"}, {"a\"b", "a\nb"}},
        {".+", {"a b", "\t"}, {"", "a\nb"}},
        {"[\\w.-]+@[\\w-]+\\.(?<tld>com|org)", {"a.b@c-d.com"}, {"a@b.net", "@b.com"}},
        {"\\u00e9\\x41\\x{1F600}\\u{e9}", {"éA😀é"}, {"eA😀é"}},
        {"\\uD83D\\uDE00", {"😀"}, {"x"}},
        {"a{2}{x}", {"aa{x}"}, {"aaaa"}},
        {"[]a]?", {}, {}},
        {"[a\\]^-]+", {"a]^-"}, {"b"}},
        {"a{0}b", {"b"}, {"ab"}},
        {"(a*)*b", {"b", "aab"}, {"a"}},
        {"\\/\\-\\.", {"/-."}, {"/-x"}},
    };
    for (const Case& c : cases) {
        SCOPED_TRACE(c.pattern);
        const auto grammar = Grammar::from_regex(c.pattern);
        if (c.yes.empty()) {
            EXPECT_FALSE(grammar.has_value());
            continue;
        }
        ASSERT_TRUE(grammar.has_value()) << grammar.error().message;
        auto matcher = matcher_for(*grammar);
        for (const std::string& text : c.yes) EXPECT_TRUE(accepts(matcher, text)) << text;
        for (const std::string& text : c.no) EXPECT_FALSE(accepts(matcher, text)) << text;
    }
}

TEST(Regex, RefusalsNameThePosition) {
    const std::pair<const char*, const char*> cases[] = {
        {"a(b", "position 2:"},        {"a)b", "position 2:"},     {"[a", "position 1:"},
        {"é[z-a]", "position 3:"},     {"*a", "position 1:"},      {"a**", "position 3:"},
        {"a{3,2}", "position 2:"},     {"(?=a)", "position 1:"},   {"a(?!b)", "position 2:"},
        {"(?<=a)b", "position 1:"},    {"(a)\\1", "position 4:"},  {"\\bword", "position 1:"},
        {"a++", "position 3:"},        {"(?>a)", "position 1:"},   {"(?i)a", "position 1:"},
        {"a^b", "position 2:"},        {"a$b", "position 2:"},     {"\\p{L}", "position 1:"},
        {"x\\", "position 2:"},        {"\\xg", "position 1:"},    {"[[:alpha:]]", "position 2:"},
        {"\\Qa\\E", "position 1:"},    {"[\\d-z]", "position 2:"}, {"\\uD800", "position 1:"},
        {"a{1000001}", "position 2:"}, {"(*FAIL)", "position 1:"}, {"\\k<n>", "position 1:"},
    };
    for (const auto& [pattern, place] : cases) {
        const auto grammar = Grammar::from_regex(pattern);
        ASSERT_FALSE(grammar.has_value()) << pattern;
        EXPECT_NE(grammar.error().message.find(place), std::string::npos)
            << pattern << ": " << grammar.error().message;
    }
}

TEST(Regex, EveryTruncationIsAcceptedOrRefusedInItsPlace) {
    const std::string pattern = "^(?:[a-f\\d]{2,3}|\\u00e9+?(?<n>x|y)*|[^\\]é-ü]\\x{1F600}\\u{e9}\\/)$";
    for (size_t n = 0; n < pattern.size(); n++) {
        const auto grammar = Grammar::from_regex(pattern.substr(0, n));
        if (grammar) continue;
        const std::string& message = grammar.error().message;
        EXPECT_TRUE(message.starts_with("regular expression: position ") ||
                    message == "regular expression: the pattern is not valid UTF-8")
            << n << ": " << message;
    }
    EXPECT_TRUE(Grammar::from_regex(pattern).has_value());
}

TEST(Regex, CountsTo100000) {
    const auto grammar = Grammar::from_regex("(?:ab){50000,100000}c");
    ASSERT_TRUE(grammar.has_value());
    auto matcher = matcher_for(*grammar);
    std::string text;
    for (int i = 0; i < 50000; i++) text += "ab";
    EXPECT_FALSE(accepts(matcher, text.substr(2) + "c"));
    EXPECT_TRUE(accepts(matcher, text + "c"));
    EXPECT_TRUE(accepts(matcher, text + text + "c"));
    EXPECT_FALSE(accepts(matcher, text + text + "abc"));
}

TEST(SearchDfa, AnchorsAnywhere) {
    const std::vector<Case> cases = {
        {"b", {"b", "abc"}, {"", "ac"}},
        {"^b", {"b", "bcd"}, {"ab"}},
        {"b$", {"b", "ab"}, {"bc"}},
        {"^a|b$", {"ax", "xb"}, {"xa", "bx"}},
        {"^(?:a|^b)c$", {"ac", "bc"}, {"abc"}},
        {"(^|,)x(,|$)", {"x", "a,x", "x,b", "a,x,b"}, {"ax", "xb"}},
        {"", {"", "anything"}, {}},
        {"a^b", {}, {"ab", "a^b"}},
        {"^$", {""}, {"a"}},
    };
    for (const Case& c : cases) {
        SCOPED_TRACE(c.pattern);
        grammar::Program program;
        const auto expr = grammar::parse_regex(c.pattern, grammar::RegexUse::Search, program);
        ASSERT_TRUE(expr.has_value()) << expr.error().message;
        const auto dfa = grammar::search_dfa(program, *expr);
        ASSERT_TRUE(dfa.has_value()) << dfa.error().message;
        for (const std::string& text : c.yes) EXPECT_TRUE(dfa->matches(text)) << text;
        for (const std::string& text : c.no) EXPECT_FALSE(dfa->matches(text)) << text;
    }
}

TEST(SearchDfa, CostlyPatternsAreRefused) {
    for (const char* pattern : {"(a|b)*a(a|b){20}", "(?:[a-z]{1000}){1000}", "^(.*x){30}$|y(.{18})z"}) {
        grammar::Program program;
        const auto expr = grammar::parse_regex(pattern, grammar::RegexUse::Search, program);
        ASSERT_TRUE(expr.has_value());
        const auto dfa = grammar::search_dfa(program, *expr);
        ASSERT_FALSE(dfa.has_value()) << pattern << " " << dfa->states.size();
        EXPECT_EQ(dfa.error().code, ErrorCode::Unsupported);
    }
}

}  // namespace
}  // namespace tessera::test
