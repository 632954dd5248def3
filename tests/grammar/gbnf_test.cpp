// GBNF: the reference grammars, positions in errors, repetition counts, ambiguity, token references,
// truncation.
#include "src/grammar/gbnf.h"

#include <cstdio>

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
            // The character that does not fit may share leading bytes with one that does.
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

/// One example of every kind of error, with the place that its message has to begin with.
TEST(Gbnf, ErrorsNameLineAndColumn) {
    const std::pair<std::string, const char*> cases[] = {
        {"", "line 1, column 1: expected a rule 'root'"},
        {"a ::= \"b\"", "line 1, column 1: expected a rule 'root'"},
        {"root ::= \"a\"\n::= \"b\"", "line 2, column 1: expected the name of a rule"},
        {"root \"a\"", "line 1, column 6: expected '::='"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: rule 'root' is defined a second time"},
        {"root ::= a\na ::= \"x\" b", "line 2, column 11: rule 'b' is used, but not defined"},
        {"root ::= \"a\" b ::= \"c\"", "line 1, column 16: expected a literal"},
        {"root ::= \"a\")", "line 1, column 13: expected the end of the line, found ')'"},
        {"root ::= (\"a\"\n  | \"b\"", "line 2, column 8: expected ')' for the '(' in line 1, column 10"},
        {"root ::= \"é\" &", "line 1, column 14: expected a literal, a class, a rule or a group, found '&'"},
        {"root ::= \"a\" | +", "line 1, column 16: '+' needs something before it"},
        {"root ::= {2}", "line 1, column 10: '{' needs something before it"},
        {"root ::= \"a\"{}", "line 1, column 14: expected a number"},
        {"root ::= \"a\"{1,x}", "line 1, column 16: expected a number, found 'x'"},
        {"root ::= \"a\"{1;", "line 1, column 15: expected '}', found ';'"},
        {"root ::= \"a\"{3,2}", "line 1, column 13: the repetition {3,2}"},
        {"root ::= \"a\"{1000001}", "line 1, column 14: a repetition counts to at most 1000000"},
        {"root ::= \"a", "line 1, column 10: this literal has no closing"},
        {"root ::= \"a\nb\"", "line 1, column 10: this literal has no closing"},
        {"root ::= \"\\q\"", "line 1, column 11: unknown escape"},
        {"root ::= \"\\x4\"", "line 1, column 14: \\x needs 2 hexadecimal digits"},
        {"root ::= \"\\u12\"", "line 1, column 15: \\u needs 4 hexadecimal digits"},
        {"root ::= \"\\uD800\"", "line 1, column 11: U+D800 is no character"},
        {"root ::= \"\\U00110000\"", "line 1, column 11: U+110000 is no character"},
        {"root ::= \"a\xFF\"", "line 1, column 12: the grammar is not valid UTF-8"},
        {"root ::= [abc", "line 1, column 10: this class has no closing ']'"},
        {"root ::= []", "line 1, column 10: an empty class matches nothing"},
        {"root ::= [^\\U00000000-\\U0010FFFF]", "line 1, column 10: this class matches nothing"},
        {"root ::= [az-y]", "line 1, column 12: the range runs backwards"},
        {"root ::= <[x]>", "line 1, column 10: expected a token as <[id]>"},
        {"root ::= <[99999999999]>", "line 1, column 10: expected a token as <[id]>"},
        {"root ::= <>", "line 1, column 10: expected a token as <text>"},
        {"root ::= !<tool\n", "line 1, column 10: expected a token as <text>"},
        {"root ::= " + std::string(202, '('), "line 1, column 211: brackets nest deeper than 200"},
        {"# a\r\n\r\nroot ::= x\r\nx ::= \"a\" y", "line 4, column 11: rule 'y' is used"},
        {"# a\r\rroot ::= ?", "line 3, column 10: '?' needs"},
        {"root ::= x\nx ::= \"a\" x", "line 1, column 1: rule 'root' can never end"},
    };
    for (const auto& [text, message] : cases) {
        const std::string error = error_of(text);
        EXPECT_TRUE(error.starts_with(std::string("grammar: ") + message)) << text << "\n" << error;
    }
}

TEST(Gbnf, LeftRecursionIsRefused) {
    const std::pair<const char*, const char*> cases[] = {
        {"root ::= root \"a\" | \"b\"", "line 1, column 1: rule 'root'"},
        {"root ::= x\nx ::= y | \"a\"\ny ::= z\nz ::= x \"b\"", "line 2, column 1: rule 'x'"},
        {"root ::= x\n\nx ::= empty x \"b\" | \"a\"\nempty ::= \"\" | \"c\"", "line 3, column 1: rule 'x'"},
        {"root ::= x\nx ::= \"c\"? (\"d\"* x) | \"a\"", "line 2, column 1: rule 'x'"},
        {"root ::= x\nx ::= [a-z]{0,5} x \"b\" | \"a\"", "line 2, column 1: rule 'x'"},
        {"root ::= x{0,3} \"a\"\nx ::= x | \"b\"", "line 2, column 1: rule 'x'"},
        {"root ::= (x)* \"a\"\nx ::= y\ny ::= (\"\" | x) \"b\"", "rule 'x'"},
    };
    for (const auto& [text, place] : cases) {
        const std::string error = error_of(text);
        EXPECT_NE(error.find("is left recursive"), error.npos) << text << "\n" << error;
        EXPECT_NE(error.find(place), error.npos) << text << "\n" << error;
    }
    // After an element that consumes input a rule may refer to itself.
    must_compile("root ::= \"a\" root | \"b\"");
    must_compile("root ::= x\nx ::= \"(\" x? \")\" x?");
}

TEST(Gbnf, ManyRulesAreReadOnce) {
    std::string text = "root ::= rule-0\n";
    const int n = 60'000;
    for (int i = 0; i < n; i++)
        text += "rule-" + std::to_string(i) + " ::= \"a\" rule-" + std::to_string(i + 1) + "\n";
    const std::string last = "rule-" + std::to_string(n);
    EXPECT_NE(error_of(text).find("line 60001, column"), std::string::npos) << error_of(text);
    must_compile(text + last + " ::= \"b\"");
    const std::string error = error_of(text + last + " ::= " + last + " \"a\" | \"b\"");
    EXPECT_TRUE(error.starts_with("grammar: line 60002, column 1: rule 'rule-60000' is left")) << error;
}

TEST(Gbnf, RepetitionsAreCountedNotExpanded) {
    for (const char* text :
         {"root ::= \"ab\"{100000}", "root ::= ([a-z] \",\"){5,100000}",
          "root ::= ((\"a\"{100000} \"b\"){100000} \"c\"){100000}", "root ::= \"a\"{100000,}"}) {
        const auto grammar = must_compile(text);
        ASSERT_TRUE(grammar);
        EXPECT_LT(grammar->automaton().states.size(), 64u) << text;
    }
    auto matcher = matcher_for(must_compile("root ::= \"ab\"{100000} \"!\""));
    std::string text;
    for (int i = 0; i < 100'000; i++) text += "ab";
    EXPECT_TRUE(accepts(matcher, text + "!"));
    EXPECT_FALSE(accepts(matcher, text.substr(2) + "!"));
    EXPECT_FALSE(accepts(matcher, text + "ab!"));
}

TEST(Gbnf, EveryTruncationIsAcceptedOrRefusedInItsPlace) {
    const std::string text =
        "# every kind of thing\r\nroot ::= head (\"\\x41\\u00e9\\U0001F600é\" | [^a-z\\]\\n] | .)* <[12]> |\n"
        "  !<tool>{2,30} head{3} head{4,} head? head+\nhead ::= (\n \"a\"\n | [é-ü-]{100000}\n)\n";
    size_t n_accepted = 0;
    for (size_t n = 0; n < text.size(); n++) {
        const std::string error = error_of(text.substr(0, n));
        n_accepted += error == "accepted";
        EXPECT_TRUE(error == "accepted" || error.starts_with("grammar: line ")) << n << ": " << error;
    }
    must_compile(text);
    EXPECT_LE(n_accepted, 6u);  // ends that cut a line short, or drop the line feed
}

}  // namespace
}  // namespace tessera::test
