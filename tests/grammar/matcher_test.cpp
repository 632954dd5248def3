// Masks against trying every token, rollback, forced text, special tokens, shared caches, counters,
// ambiguity.
#include "src/grammar/matcher.h"

#include <algorithm>
#include <bit>
#include <random>
#include <thread>

#include "ggml-like/gguf/file.h"
#include "tests/grammar/support.h"

namespace tessera::test {
namespace {

using grammar::Grammar;
using grammar::Matcher;

const std::vector<std::string> kTexts = {"ab",
                                         "abc",
                                         "aa",
                                         "{\"",
                                         "\":",
                                         "\": ",
                                         "\",",
                                         "\", \"",
                                         "\"}",
                                         "}}",
                                         "]]",
                                         "[[",
                                         "[{",
                                         "},{",
                                         "true",
                                         "false",
                                         "null",
                                         "tr",
                                         "10",
                                         "100",
                                         "123456",
                                         "1.5",
                                         ".0",
                                         "e+",
                                         "-1",
                                         "name",
                                         "\\n",
                                         "\\u",
                                         "\\u00",
                                         "\\\"",
                                         "hello",
                                         " the",
                                         " (",
                                         ") ",
                                         "\n\n",
                                         "\n ",
                                         "    ",
                                         "caf\xC3",
                                         "\xA9",
                                         "é",
                                         "你",
                                         "😀",
                                         "yes",
                                         "no",
                                         "::",
                                         "2024",
                                         "-01-",
                                         "T10:",
                                         "Z\"",
                                         "foo",
                                         "bar",
                                         "foobar",
                                         "a\":",
                                         "b\":1,",
                                         "1,\"",
                                         "red",
                                         "\"red",
                                         "item",
                                         "-00",
                                         "0000",
                                         "\"\"",
                                         "[]",
                                         "{}",
                                         ",\"",
                                         "kk",
                                         "aaaa",
                                         "aaaaaaaaaaaaaaaa",
                                         "bb",
                                         "x,y",
                                         "\",\"z\"",
                                         "\xF0\x9F",
                                         "\x98\x80\"",
                                         "<tool_call>",
                                         "_call>"};

std::shared_ptr<const Grammar> gbnf(const std::string& text) {
    auto grammar = Grammar::from_gbnf(text);
    EXPECT_TRUE(grammar.has_value()) << (grammar ? "" : grammar.error().message);
    return *grammar;
}

std::shared_ptr<const Grammar> schema(const std::string& text) {
    auto grammar = Grammar::from_json_schema(text);
    EXPECT_TRUE(grammar.has_value()) << (grammar ? "" : grammar.error().message);
    return *grammar;
}

/// One random output; at every step the mask equals the result of trying each token.
void check_walk(Matcher& matcher, std::mt19937& random, size_t max_steps) {
    const auto& trie = matcher.cache().trie();
    matcher.reset();
    for (size_t step = 0; step < max_steps; step++) {
        const auto words = mask_of(matcher);
        std::vector<int32_t> allowed;
        for (int32_t id = 0; id < trie.n_tokens(); id++) {
            const bool in_mask = has(words, id);
            ASSERT_EQ(in_mask, matcher.allows(id))
                << "token " << id << " \"" << trie.bytes(id) << "\" at step " << step;
            if (in_mask) allowed.push_back(id);
        }
        ASSERT_FALSE(allowed.empty()) << "a dead end at step " << step;
        // Prefers longer tokens, which reach further than the far more numerous single bytes.
        std::vector<double> weights;
        for (const int32_t id : allowed)
            weights.push_back(static_cast<double>(1 + 4 * trie.bytes(id).size()));
        const int32_t token =
            allowed[std::discrete_distribution<size_t>(weights.begin(), weights.end())(random)];
        if (trie.kind(token) == grammar::TokenText::Kind::End) return;
        ASSERT_TRUE(matcher.accept(token).has_value());
    }
}

std::string dashed(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
}

class OfVocabulary : public testing::TestWithParam<const char*> {};

/// Each kind of vocabulary spells its tokens in its own way; a grammar sees the text that they print.
TEST_P(OfVocabulary, TokensStandForWhatTheyPrint) {
    const std::string path = "data/vocab/ggml-vocab-" + dashed(GetParam()) + ".gguf";
    TSR_NEED_SHARED(path);
    const auto file = gguf::File::open(shared(path));
    ASSERT_TRUE(file.has_value()) << file.error().message;
    const auto loaded = text::Tokenizer::load(*file);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const text::Tokenizer& tokenizer = **loaded;
    const auto trie = grammar::TokenTrie::create(tokenizer);
    ASSERT_TRUE(trie.has_value()) << trie.error().message;
    size_t n_text = 0;
    for (int32_t id = 0; id < tokenizer.vocab().size(); id++) {
        const bool is_special = tokenizer.vocab().is_hidden(id) || tokenizer.vocab().is_end(id);
        if ((*trie)->kind(id) != grammar::TokenText::Kind::Text) continue;
        EXPECT_FALSE(is_special) << id;
        EXPECT_EQ((*trie)->bytes(id), tokenizer.token_bytes(id)) << id;
        n_text++;
    }
    EXPECT_GT(n_text, 20'000u);
    const auto ids = tokenizer.encode(" the cat, naïve", {.add_special = false});
    ASSERT_TRUE(ids.has_value());
    auto matcher = matcher_for(*Grammar::from_regex(" ?[a-zï, ]+"), *trie);
    for (const int32_t id : *ids) EXPECT_TRUE(matcher.accept(id).has_value()) << id;
    EXPECT_TRUE(matcher.is_accepting());
}

INSTANTIATE_TEST_SUITE_P(Shared, OfVocabulary, testing::Values("gpt_2", "llama_spm", "bert_bge"),
                         [](const auto& row) { return std::string(row.param); });

TEST(Mask, EqualsTryingEveryTokenOnReferenceGrammars) {
    TSR_NEED_SHARED("golden/gbnf/grammars.json");
    std::mt19937 random(1);
    const auto trie = small_trie(kTexts);
    for (const Json& item : read_cases("golden/gbnf/grammars.json")) {
        SCOPED_TRACE(item["name"].get<std::string>());
        auto matcher = matcher_for(gbnf(item["grammar"]), trie);
        for (int run = 0; run < 6; run++) check_walk(matcher, random, 25);
    }
}

TEST(Mask, EqualsTryingEveryTokenOnReferenceSchemas) {
    TSR_NEED_SHARED("golden/json-schema/structured.json");
    std::mt19937 random(2);
    const auto trie = small_trie(kTexts);
    for (const std::string file :
         {"structured", "oneOf", "unevaluatedProperties", "minProperties", "contains"}) {
        for (const Json& item : read_cases("golden/json-schema/" + file + ".json")) {
            SCOPED_TRACE(item["description"].get<std::string>());
            const auto grammar = Grammar::from_json_schema(item["schema"].dump());
            if (!grammar) continue;
            auto matcher = matcher_for(*grammar, trie);
            for (int run = 0; run < 4; run++) check_walk(matcher, random, 30);
        }
    }
}

TEST(Mask, CountersNearTheirEnds) {
    std::mt19937 random(3);
    const auto trie = small_trie(kTexts);
    for (const std::string text :
         {R"(root ::= [a-z]{30,60} "!")", R"(root ::= ("ab" | "a"){20,25} ("b" | "x")*)",
          R"(root ::= ("a"? "b"?){3,70} "c")", R"(root ::= ([a]{2,40} ","){17,} "z")"}) {
        SCOPED_TRACE(text);
        auto matcher = matcher_for(gbnf(text), trie);
        for (int run = 0; run < 10; run++) check_walk(matcher, random, 80);
    }
}

TEST(Matcher, CountsWithoutExpanding) {
    auto matcher = matcher_for(gbnf("root ::= [a-c]{99999,100000} \"d\""));
    std::string text(99999, 'b');
    ASSERT_TRUE(matcher.accept_bytes(text).has_value());
    EXPECT_TRUE(matcher.allows('d'));
    EXPECT_TRUE(matcher.allows('a'));
    ASSERT_TRUE(matcher.accept('a').has_value());
    EXPECT_FALSE(matcher.allows('a'));
    ASSERT_TRUE(matcher.accept('d').has_value());
    EXPECT_TRUE(matcher.is_finished());
    EXPECT_LT(matcher.cache().grammar().automaton().states.size(), 20u);
}

TEST(Matcher, RollsBack) {
    auto matcher = matcher_for(schema(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{}},
                                         "required":["a","b"],"additionalProperties":false})"));
    const auto start = mask_of(matcher);
    for (const char c : std::string("{\"a\":12,")) ASSERT_TRUE(matcher.accept(c).has_value());
    const auto here = mask_of(matcher);
    for (const char c : std::string("\"b\":[[{")) ASSERT_TRUE(matcher.accept(c).has_value());
    matcher.rollback(7);
    EXPECT_EQ(mask_of(matcher), here);
    matcher.reset();
    EXPECT_EQ(mask_of(matcher), start);
    EXPECT_EQ(matcher.n_steps(), 0u);
}

TEST(Matcher, RefusedTokensChangeNothing) {
    auto matcher = matcher_for(gbnf("root ::= \"ab\" | \"cd\""));
    const auto before = mask_of(matcher);
    EXPECT_FALSE(matcher.accept('b').has_value());
    EXPECT_FALSE(matcher.accept(100000).has_value());
    EXPECT_FALSE(matcher.accept(-1).has_value());
    EXPECT_FALSE(matcher.accept_bytes("ax").has_value());
    EXPECT_EQ(mask_of(matcher), before);
    EXPECT_EQ(matcher.n_steps(), 0u);
}

TEST(Matcher, EndsExactlyWhereTheGrammarAccepts) {
    auto matcher = matcher_for(gbnf("root ::= \"a\"+"));
    const int32_t end = matcher.cache().trie().ends()[0];
    EXPECT_FALSE(matcher.allows(end));
    EXPECT_FALSE(matcher.accept(end).has_value());
    ASSERT_TRUE(matcher.accept('a').has_value());
    EXPECT_TRUE(has(mask_of(matcher), end));
    ASSERT_TRUE(matcher.accept(end).has_value());
    for (const uint64_t word : mask_of(matcher)) EXPECT_EQ(word, 0u);
    EXPECT_FALSE(matcher.accept('a').has_value());
}

TEST(Matcher, ForcedText) {
    grammar::SchemaOptions compact{.layout = grammar::JsonLayout::Compact};
    const auto grammar = Grammar::from_json_schema(
        R"({"type":"object","properties":{"name":{"type":"string"},"kind":{"const":"tool"}},
            "required":["name","kind"],"additionalProperties":false})",
        compact);
    ASSERT_TRUE(grammar.has_value());
    auto matcher = matcher_for(*grammar);
    EXPECT_EQ(matcher.forced_bytes(), "{\"name\":\"");
    EXPECT_EQ(matcher.forced_bytes(3), "{\"n");
    ASSERT_TRUE(matcher.accept_bytes("{\"name\":\"x\"").has_value());
    EXPECT_EQ(matcher.forced_bytes(), ",\"kind\":\"tool\"}");
    ASSERT_TRUE(matcher.accept_bytes(matcher.forced_bytes()).has_value());
    EXPECT_TRUE(matcher.is_finished());
    EXPECT_EQ(matcher.forced_bytes(), "");
}

TEST(Matcher, SpecialTokensNeverStandForText) {
    auto matcher = matcher_for(gbnf("root ::= .*"));
    const int32_t special = matcher.cache().trie().special()[0];
    EXPECT_FALSE(has(mask_of(matcher), special));
    EXPECT_FALSE(matcher.accept(special).has_value());
    EXPECT_TRUE(matcher.accept_bytes("<|special|>").has_value());
}

TEST(Matcher, TokenReferences) {
    auto matcher = matcher_for(gbnf("root ::= <|special|> \"a\" !<[97]>* <[98]>"));
    const int32_t special = matcher.cache().trie().special()[0];
    int n_allowed = 0;
    for (const uint64_t word : mask_of(matcher)) n_allowed += std::popcount(word);
    EXPECT_EQ(n_allowed, 1);
    EXPECT_FALSE(matcher.allows('<'));
    ASSERT_TRUE(matcher.accept(special).has_value());
    ASSERT_TRUE(matcher.accept('a').has_value());
    EXPECT_FALSE(matcher.allows('a'));
    EXPECT_FALSE(matcher.allows(special));
    ASSERT_TRUE(matcher.accept('z').has_value());
    EXPECT_FALSE(matcher.is_accepting());
    ASSERT_TRUE(matcher.accept('b').has_value());
    EXPECT_TRUE(matcher.is_accepting());
    EXPECT_TRUE(has(mask_of(matcher), 'c'));

    EXPECT_FALSE(grammar::MaskCache::create(gbnf("root ::= <nothing>"), small_trie()).has_value());
    EXPECT_FALSE(grammar::MaskCache::create(gbnf("root ::= <[5000]>"), small_trie()).has_value());
}

TEST(Matcher, AmbiguityIsBounded) {
    // Every split of the text is a separate parse.
    auto matcher = matcher_for(gbnf("root ::= x x x x \"!\"\nx ::= (\"a\" | \"aa\" | \"aaa\"){0,90000}"));
    size_t n = 0;
    while (n < 20000 && matcher.accept('a')) n++;
    EXPECT_GT(n, 100u);
    EXPECT_LT(n, 20000u);
    const auto error = matcher.accept('a');
    ASSERT_FALSE(error.has_value());
    EXPECT_EQ(error.error().code, ErrorCode::Unsupported);
}

TEST(Matcher, ManyAlternativesAreNotAmbiguous) {
    std::string grammar = "root ::= \"\"";
    for (int i = 0; i < 20000; i++) grammar += strf(" | \"word-%d\"", i);
    auto matcher = matcher_for(gbnf(grammar));
    EXPECT_TRUE(accepts(matcher, "word-19999"));
    EXPECT_TRUE(accepts(matcher, "word-1"));
    EXPECT_TRUE(accepts(matcher, ""));
    EXPECT_FALSE(accepts(matcher, "word-20000"));
}

TEST(Matcher, LongAmbiguousTextStaysLinear) {
    auto matcher = matcher_for(
        gbnf("root ::= (\"a\" | \"aa\" | [a-z]+ | root-2)* \"!\"\nroot-2 ::= (\"a\"* \"a\"*)* \"b\""));
    const std::string text(20000, 'a');
    ASSERT_TRUE(matcher.accept_bytes(text).has_value());
    EXPECT_TRUE(matcher.allows('!'));
}

TEST(Matcher, DeepNestingNeedsNoLimit) {
    auto matcher = matcher_for(schema("{}"));
    const size_t depth = 100000;
    ASSERT_TRUE(matcher.accept_bytes(std::string(depth, '[')).has_value());
    mask_of(matcher);
    ASSERT_TRUE(matcher.accept_bytes(std::string(depth, ']')).has_value());
    EXPECT_TRUE(matcher.is_finished());
}

TEST(MaskCache, SharedByThreads) {
    const auto trie = small_trie(kTexts);
    const auto cache =
        grammar::MaskCache::create(schema(R"({"type":"array","items":{"type":"object"}})"), trie);
    ASSERT_TRUE(cache.has_value());
    std::vector<std::thread> threads;
    std::vector<std::string> failures(4);
    for (unsigned t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            Matcher matcher(*cache);
            std::vector<uint64_t> words(trie->mask_words());
            for (int step = 0; step < 300; step++) {
                matcher.mask(words);
                std::vector<int32_t> allowed;
                for (int32_t id = 0; id < trie->n_tokens(); id++)
                    if (has(words, id)) allowed.push_back(id);
                const int32_t token = allowed[random() % allowed.size()];
                if (!matcher.accept(token)) failures[t] = "a token of the mask was refused";
                if (trie->kind(token) == grammar::TokenText::Kind::End) matcher.reset();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST(Tools, LazyTriggers) {
    grammar::ToolGrammar tools;
    tools.tools = {
        {"get_weather", R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"],
                                      "additionalProperties":false})"},
        {"stop", ""}};
    tools.triggers = {"<tool_call>"};
    tools.before = "\n";
    tools.after = "\n</tool_call>";
    const auto grammar = Grammar::from_tools(tools);
    ASSERT_TRUE(grammar.has_value()) << grammar.error().message;
    auto matcher = matcher_for(*grammar, small_trie(kTexts));
    EXPECT_TRUE(accepts(matcher, "plain text with a < and <tool"));
    EXPECT_TRUE(accepts(matcher, ""));
    const std::string call =
        "Let me see.<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
        "\"Oslo\"}}\n</tool_call>";
    EXPECT_TRUE(accepts(matcher, call));
    EXPECT_FALSE(accepts(matcher, "<tool_call>"));
    EXPECT_FALSE(accepts(matcher, "<tool_call>\n{\"name\": \"other\""));
    EXPECT_FALSE(accepts(matcher, call + " more"));
    matcher.reset();
    ASSERT_TRUE(matcher.accept_bytes("<<tool").has_value());
    EXPECT_TRUE(matcher.allows(matcher.cache().trie().special()[0]));  // free text may hold special tokens
    std::mt19937 random(4);
    for (int run = 0; run < 5; run++) check_walk(matcher, random, 40);

    tools.required = true;
    tools.parallel = true;
    const auto strict = Grammar::from_tools(tools);
    ASSERT_TRUE(strict.has_value());
    auto strict_matcher = matcher_for(*strict);
    EXPECT_FALSE(accepts(strict_matcher, ""));
    const std::string stop = "<tool_call>\n{\"name\":\"stop\",\"arguments\":{}}\n</tool_call>";
    EXPECT_TRUE(accepts(strict_matcher, stop + "\n" + stop + "\n" + stop));
    EXPECT_EQ(strict_matcher.n_fitting("x"), 0u);
}

}  // namespace
}  // namespace tessera::test
